"""Statements on `_System_ConnectorProjectionProtocol`, written once per incarnation and never changed."""

from __future__ import annotations

from typing import Final

from integration.storage.statements import LockRank, Returns, Statement

INSERT_PROJECTION_PROTOCOL = Statement(
    name="INSERT_PROJECTION_PROTOCOL",
    text="""
    INSERT INTO _System_ConnectorProjectionProtocol
           (PackInstallId, ProtocolVersion, LegacyMaxOrdinal, WrittenAt, WrittenBy)
    VALUES (%(pack_install_id)s, %(protocol_version)s, %(legacy_max_ordinal)s, UTC_TIMESTAMP(6), %(written_by)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

FIND_PROJECTION_PROTOCOL = Statement(
    name="FIND_PROJECTION_PROTOCOL",
    text="""
    SELECT PackInstallId, ProtocolVersion, LegacyMaxOrdinal, WrittenAt, WrittenBy
      FROM _System_ConnectorProjectionProtocol
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

# Once a batch: of the incarnation that admits, and of those whose inputs are met again.
LIST_PROJECTION_PROTOCOLS = Statement(
    name="LIST_PROJECTION_PROTOCOLS",
    text="""
    SELECT PackInstallId, ProtocolVersion, LegacyMaxOrdinal
      FROM _System_ConnectorProjectionProtocol
     WHERE PackInstallId IN %(pack_install_ids)s
    """,
    returns=Returns.ROWS,
)

_PROJECTS: Final = """EXISTS (SELECT 1
                     FROM _System_ConnectorRoute r FORCE INDEX (UX_Route_Version)
                    WHERE r.PackInstallId = p.PackInstallId AND r.ExecutionClass = 'source_projection')"""

# What a worker would execute projections of: packs that admit, and whose work belongs to the WorkItems.
LIST_PROJECTING_PACKS = Statement(
    name="LIST_PROJECTING_PACKS",
    text="""
    SELECT p.PackInstallId, p.Namespace, p.PackName, p.Incarnation
      FROM _System_ConnectorPackInstall p
     WHERE p.Status = 'active'
       AND (SELECT c.Direction
              FROM _System_ConnectorCutoverReceipt c FORCE INDEX (UX_CutoverReceipt_Generation)
             WHERE c.PackInstallId = p.PackInstallId
             ORDER BY c.OwnerGeneration DESC
             LIMIT 1) = 'forward'
       AND """
    + _PROJECTS
    + """
     ORDER BY p.Namespace, p.PackName
    """,
    returns=Returns.ROWS,
)

FIND_PROJECTING_PACK = Statement(
    name="FIND_PROJECTING_PACK",
    text="""
    SELECT p.PackInstallId
      FROM _System_ConnectorPackInstall p
     WHERE p.PackInstallId = %(pack_install_id)s AND """
    + _PROJECTS
    + "\n    ",
    returns=Returns.ROW,
)
