"""Statements on `_System_ConnectorProjectionProtocol`, written once per incarnation and never changed."""

from __future__ import annotations

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
