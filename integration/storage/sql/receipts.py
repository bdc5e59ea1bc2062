"""Statements on `_System_ConnectorIngressReceipt`, rank 18."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_RECEIPTS = Statement(
    name="LOCK_RECEIPTS",
    text="""
    SELECT ReceiptId, PackInstallId, Namespace, RouteKey, Provider, DeliveryId, IdempotencyKey, BodyHash, Body,
           SubscriptionGeneration, State, ReceivedAt
      FROM _System_ConnectorIngressReceipt
     WHERE ReceiptId IN %(receipt_ids)s
     ORDER BY ReceiptId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.RECEIPT,),
)

INSERT_RECEIPT = Statement(
    name="INSERT_RECEIPT",
    text="""
    INSERT INTO _System_ConnectorIngressReceipt
           (ReceiptId, PackInstallId, Namespace, RouteKey, Provider, DeliveryId, IdempotencyKey, BodyHash, Body,
            SafeHeaders, SubscriptionGeneration, State, ReceivedAt)
    VALUES (%(receipt_id)s, %(pack_install_id)s, %(namespace)s, %(route_key)s, %(provider)s, %(delivery_id)s,
            %(idempotency_key)s, %(body_hash)s, %(body)s, %(safe_headers)s, %(subscription_generation)s, 'received',
            UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
)

FIND_RECEIPT_BY_KEY = Statement(
    name="FIND_RECEIPT_BY_KEY",
    text="""
    SELECT ReceiptId, State
      FROM _System_ConnectorIngressReceipt
     WHERE IdempotencyKey = %(idempotency_key)s
    """,
    returns=Returns.ROW,
)

FIND_ANY_READY_RECEIPT = Statement(
    name="FIND_ANY_READY_RECEIPT",
    text="""
    SELECT ReceiptId
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = 'received'
     LIMIT 1
    """,
    returns=Returns.ROW,
)

LIST_READY_RECEIPTS = Statement(
    name="LIST_READY_RECEIPTS",
    text="""
    SELECT ReceiptId, ReceivedAt
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = 'received' AND Namespace = %(namespace)s AND ReceivedAt >= %(after_at)s
       AND (ReceivedAt > %(after_at)s OR ReceiptId > %(after_id)s)
       AND RouteKey IN %(route_keys)s
     ORDER BY ReceivedAt, ReceiptId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

MARK_RECEIPTS_MATERIALIZED = Statement(
    name="MARK_RECEIPTS_MATERIALIZED",
    text="""
    UPDATE _System_ConnectorIngressReceipt
       SET State = 'materialized', MaterializedAt = UTC_TIMESTAMP(6), MaterializedPackInstallId = %(pack_install_id)s
     WHERE ReceiptId IN %(receipt_ids)s AND State = 'received'
    """,
    returns=Returns.COUNT,
    holds=LockRank.RECEIPT,
)

MARK_RECEIPTS_QUARANTINED = Statement(
    name="MARK_RECEIPTS_QUARANTINED",
    text="""
    UPDATE _System_ConnectorIngressReceipt
       SET State = 'quarantined', QuarantineCode = %(quarantine_code)s, MaterializedAt = NULL,
           MaterializedPackInstallId = %(pack_install_id)s
     WHERE ReceiptId IN %(receipt_ids)s AND State = 'received'
    """,
    returns=Returns.COUNT,
    holds=LockRank.RECEIPT,
)

COUNT_RECEIPTS = Statement(
    name="COUNT_RECEIPTS",
    text="""
    SELECT COUNT(*) AS ReceiptCount
      FROM (SELECT 1 AS One
              FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
             WHERE State = %(state)s AND Namespace = %(namespace)s
             LIMIT %(limit)s) AS capped
    """,
    returns=Returns.ROW,
)

READ_OLDEST_READY_RECEIPT = Statement(
    name="READ_OLDEST_READY_RECEIPT",
    text="""
    SELECT ReceivedAt, TIMESTAMPDIFF(MICROSECOND, ReceivedAt, UTC_TIMESTAMP(6)) AS AgeMicroseconds
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = 'received' AND Namespace = %(namespace)s
     ORDER BY ReceivedAt, ReceiptId
     LIMIT 1
    """,
    returns=Returns.ROW,
)
