"""Statements on `_System_ConnectorIngressReceipt`, rank 18."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_RECEIPTS = Statement(
    name="LOCK_RECEIPTS",
    text="""
    SELECT ReceiptId, PackInstallId, Namespace, RouteKey, Provider, DeliveryId, IdempotencyKey, BodyHash, Body,
           State, ReceivedAt
      FROM _System_ConnectorIngressReceipt
     WHERE ReceiptId IN %(receipt_ids)s
     ORDER BY ReceiptId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.RECEIPT,),
)
