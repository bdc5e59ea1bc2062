"""Statements on `_System_ConnectorEvent`, rank 20."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_EVENTS = Statement(
    name="LOCK_EVENTS",
    text="""
    SELECT EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, RouteSnapshot, Provider, EventKind,
           WorkType, SourceLane, TargetLane, LaneOrdinal, IdempotencyKey, DeliveryId, DeliverySequence, ReceiptId,
           ReceiptIndex, Payload, PayloadHash, OccurredAt, ReceivedAt, ReplayOfEventId, ExecutionOwner, Status,
           TerminalAt, ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.EVENT,),
)

LOCK_EVENT_FOR_CLAIM = Statement(
    name="LOCK_EVENT_FOR_CLAIM",
    text="""
    SELECT EventId, ExecutionOwner, Status, ClaimToken, ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.EVENT,),
)

READ_EVENT_FOR_EXECUTION = Statement(
    name="READ_EVENT_FOR_EXECUTION",
    text="""
    SELECT EventId, OrgId, Namespace, Provider, EventKind, ReceiptId, Payload, PayloadHash, OccurredAt, ReceivedAt
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
    """,
    returns=Returns.ROW,
)
