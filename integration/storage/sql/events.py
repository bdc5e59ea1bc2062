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

# With what the execution reads, so that it need not be read again.
LOCK_EVENTS_FOR_CLAIM = Statement(
    name="LOCK_EVENTS_FOR_CLAIM",
    text="""
    SELECT EventId, OrgId, Namespace, EventKind, ReceiptId, Payload, OccurredAt, ReceivedAt
      FROM _System_ConnectorEvent
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.EVENT,),
)

READ_EVENT_FOR_EXECUTION = Statement(
    name="READ_EVENT_FOR_EXECUTION",
    text="""
    SELECT EventId, OrgId, Namespace, EventKind, ReceiptId, Payload, OccurredAt, ReceivedAt
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
    """,
    returns=Returns.ROW,
)

# Every value is a parameter: with anything else among them the driver sends the batch row by row.
INSERT_EVENTS = Statement(
    name="INSERT_EVENTS",
    text="""
    INSERT INTO _System_ConnectorEvent
           (EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, RouteSnapshot, Provider, EventKind,
            WorkType, SourceLane, TargetLane, LaneOrdinal, IdempotencyKey, DeliveryId, DeliverySequence, ReceiptId,
            ReceiptIndex, Payload, PayloadHash, OccurredAt, ReceivedAt, ExecutionOwner, Status, TerminalAt)
    VALUES (%(event_id)s, %(org_id)s, %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s,
            %(route_snapshot)s, %(provider)s, %(event_kind)s, %(work_type)s, %(source_lane)s, %(target_lane)s,
            %(lane_ordinal)s, %(idempotency_key)s, %(delivery_id)s, %(delivery_sequence)s, %(receipt_id)s,
            %(receipt_index)s, %(payload)s, %(payload_hash)s, %(occurred_at)s, %(received_at)s, %(execution_owner)s,
            %(status)s, %(terminal_at)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
    many=True,
)

# What a repeated input met: enough to tell whose it is and which generation must hold it.
LIST_STORED_EVENTS = Statement(
    name="LIST_STORED_EVENTS",
    text="""
    SELECT EventId, EventKind, IdempotencyKey, PackInstallId, RouteId, SourceLane, LaneOrdinal, ReceiptId
      FROM _System_ConnectorEvent
     WHERE Namespace = %(namespace)s AND EventKind IN %(event_kinds)s AND IdempotencyKey IN %(idempotency_keys)s
    """,
    returns=Returns.ROWS,
)

FIND_EVENT_OF_PACK = Statement(
    name="FIND_EVENT_OF_PACK",
    text="SELECT EventId FROM _System_ConnectorEvent WHERE PackInstallId = %(pack_install_id)s LIMIT 1",
    returns=Returns.ROW,
)

INSERT_REPLAY_EVENT = Statement(
    name="INSERT_REPLAY_EVENT",
    text="""
    INSERT INTO _System_ConnectorEvent
           (EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, RouteSnapshot, Provider, EventKind,
            WorkType, SourceLane, TargetLane, LaneOrdinal, IdempotencyKey, DeliveryId, DeliverySequence, ReceiptId,
            ReceiptIndex, Payload, PayloadHash, OccurredAt, ReceivedAt, ReplayOfEventId, ExecutionOwner, Status)
    VALUES (%(event_id)s, %(org_id)s, %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s,
            %(route_snapshot)s, %(provider)s, %(event_kind)s, %(work_type)s, %(source_lane)s, %(target_lane)s,
            %(lane_ordinal)s, %(idempotency_key)s, %(delivery_id)s, %(delivery_sequence)s, %(receipt_id)s, NULL,
            %(payload)s, %(payload_hash)s, %(occurred_at)s, %(received_at)s, %(replay_of_event_id)s, 'event',
            'pending')
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
