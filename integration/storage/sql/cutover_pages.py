"""Lock-free statements of the cutover pages: incarnations, who owns their work, and their projection protocol."""

from __future__ import annotations

from typing import Final

from integration.storage.statements import Returns, Statement

_COLUMNS: Final = """
    SELECT p.PackInstallId, p.OrgId, p.Namespace, p.PackName, p.PackVersion, p.Incarnation, p.Status, p.NextLaneOrdinal,
           p.ActivatedAt, p.RetiredAt,
           EXISTS (SELECT 1 FROM _System_ConnectorRoute AS r FORCE INDEX (UX_Route_Version)
                    WHERE r.PackInstallId = p.PackInstallId
                      AND r.ExecutionClass = 'source_projection') AS IsProjecting"""

LIST_INCARNATIONS_AFTER = Statement(
    name="LIST_INCARNATIONS_AFTER",
    text=_COLUMNS
    + """
      FROM _System_ConnectorPackInstall AS p FORCE INDEX (UX_PackInstall_Incarnation)
     WHERE p.Namespace >= %(namespace)s
       AND (p.Namespace > %(namespace)s
            OR (p.Namespace = %(namespace)s AND p.PackName > %(pack_name)s)
            OR (p.Namespace = %(namespace)s AND p.PackName = %(pack_name)s AND p.Incarnation > %(incarnation)s))
     ORDER BY p.Namespace, p.PackName, p.Incarnation
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_INCARNATIONS_WITHIN_AFTER = Statement(
    name="LIST_INCARNATIONS_WITHIN_AFTER",
    text=_COLUMNS
    + """
      FROM _System_ConnectorPackInstall AS p FORCE INDEX (UX_PackInstall_Incarnation)
     WHERE p.Namespace IN %(namespaces)s AND p.Namespace >= %(namespace)s
       AND (p.Namespace > %(namespace)s
            OR (p.Namespace = %(namespace)s AND p.PackName > %(pack_name)s)
            OR (p.Namespace = %(namespace)s AND p.PackName = %(pack_name)s AND p.Incarnation > %(incarnation)s))
     ORDER BY p.Namespace, p.PackName, p.Incarnation
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

#: The key is null of every other incarnation.
LIST_ACTIVE_INCARNATIONS = Statement(
    name="LIST_ACTIVE_INCARNATIONS",
    text=_COLUMNS
    + """
      FROM _System_ConnectorPackInstall AS p FORCE INDEX (UX_PackInstall_Active)
     WHERE p.ActiveKey > ''
     ORDER BY p.ActiveKey
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

GET_INCARNATION = Statement(
    name="GET_INCARNATION",
    text=_COLUMNS
    + """
      FROM _System_ConnectorPackInstall AS p
     WHERE p.PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

LIST_NEWEST_RECEIPTS_OF_PACKS = Statement(
    name="LIST_NEWEST_RECEIPTS_OF_PACKS",
    text="""
    SELECT c.PackInstallId, c.ReceiptId, c.Direction, c.OwnerGeneration, c.WrittenAt, c.WrittenBy
      FROM _System_ConnectorCutoverReceipt AS c FORCE INDEX (UX_CutoverReceipt_Generation)
     WHERE c.PackInstallId IN %(pack_install_ids)s
       AND NOT EXISTS (SELECT 1
                         FROM _System_ConnectorCutoverReceipt AS n FORCE INDEX (UX_CutoverReceipt_Generation)
                        WHERE n.PackInstallId = c.PackInstallId AND n.OwnerGeneration > c.OwnerGeneration)
    """,
    returns=Returns.ROWS,
)

LIST_PROTOCOLS_OF_PACKS = Statement(
    name="LIST_PROTOCOLS_OF_PACKS",
    text="""
    SELECT PackInstallId, ProtocolVersion, LegacyMaxOrdinal, WrittenAt, WrittenBy
      FROM _System_ConnectorProjectionProtocol
     WHERE PackInstallId IN %(pack_install_ids)s
    """,
    returns=Returns.ROWS,
)
