"""Statements on `_System_ConnectorCutoverReceipt`, which is only ever appended to."""

from __future__ import annotations

from integration.storage.statements import Returns, Statement

NEWEST_CUTOVER_RECEIPT = Statement(
    name="NEWEST_CUTOVER_RECEIPT",
    text="""
    SELECT ReceiptId, Direction, OwnerGeneration
      FROM _System_ConnectorCutoverReceipt
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY OwnerGeneration DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)
