"""Statements of the Event executor: on the Event's own executor fields, and on the zero-attempt mirror that follows it.

The mirror has four shapes: none on a schema without WorkItems, one without an outcome before the additive columns, the
whole, and, of a pack that was rolled back, the whole with the fence that may hold it. The executor asks the database.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import LockRank, Returns, Statement

INSERT_EVENT_PROCESS = Statement(
    name="INSERT_EVENT_PROCESS",
    text="""
    INSERT INTO _System_ConnectorClaimProcess
           (ProcessId, Kind, BuildVersion, Host, PackInstallId, ObservedReceiptId, BridgeCompatible, StartedAt,
            HeartbeatAt, Roles, Concurrency)
    VALUES (%(process_id)s, 'event_legacy', %(build_version)s, %(host)s, %(pack_install_id)s, %(observed_receipt_id)s,
            %(bridge_compatible)s, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'legacy', 1)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

# One status is one range of the index. By id, which is the order of arrival: the pages of a round go on where the last
# one ended, whatever is held back.
LIST_DUE_EVENTS = Statement(
    name="LIST_DUE_EVENTS",
    text="""
    SELECT EventId, Namespace, EventKind, SourceLane, LaneOrdinal
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status = %(status)s
       AND (NextRetryAt IS NULL OR NextRetryAt <= UTC_TIMESTAMP(6))
       AND ReplayedAt IS NULL
       AND EventId > %(after)s
     ORDER BY EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# Bounded by the executor's live claims: there is one at a time.
LIST_EXPIRED_EVENT_CLAIMS = Statement(
    name="LIST_EXPIRED_EVENT_CLAIMS",
    text="""
    SELECT EventId, ClaimToken, RetryCount, RouteId, RouteSnapshot
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status = 'processing'
       AND ClaimedUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
     ORDER BY EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# Something runs, or failed and is not due yet.
FIND_EVENT_TO_WAIT_FOR = Statement(
    name="FIND_EVENT_TO_WAIT_FOR",
    text="""
    SELECT EventId
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status IN ('processing', 'failed')
       AND ReplayedAt IS NULL
       AND (Status = 'processing' OR NextRetryAt > UTC_TIMESTAMP(6))
     LIMIT 1
    """,
    returns=Returns.ROW,
)

FIND_UNFINISHED_EVENT = Statement(
    name="FIND_UNFINISHED_EVENT",
    text="""
    SELECT EventId
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event'
       AND Status IN ('pending', 'processing', 'failed')
       AND ReplayedAt IS NULL
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# A lane may carry several kinds of Event, and the index tells them apart before the lane.
FIND_EARLIER_EVENT_IN_LANE = Statement(
    name="FIND_EARLIER_EVENT_IN_LANE",
    text="""
    SELECT EventId
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Scope)
     WHERE Namespace = %(namespace)s AND EventKind IN %(event_kinds)s AND SourceLane = %(source_lane)s
       AND Status IN ('pending', 'processing', 'failed')
       AND PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND ReplayedAt IS NULL
       AND LaneOrdinal < %(lane_ordinal)s
     LIMIT 1
    """,
    returns=Returns.ROW,
)

LOCK_EVENT_OF_EXECUTOR = Statement(
    name="LOCK_EVENT_OF_EXECUTOR",
    text="""
    SELECT EventId, OrgId, Namespace, PackInstallId, RouteId, RouteSnapshot, EventKind, WorkType, SourceLane,
           LaneOrdinal, ReceiptId, Payload, OccurredAt, ReceivedAt, ExecutionOwner, Status, RetryCount, ClaimToken,
           ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.EVENT,),
)

LOCK_MIRRORS = Statement(
    name="LOCK_MIRRORS",
    text="""
    SELECT WorkId, WorkType, FlowName, FlowVersion, ProjectionKey, ProjectionActiveKey, State, Attempt, LeaseToken
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_Event)
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

LOCK_RANGED_MIRRORS = Statement(
    name="LOCK_RANGED_MIRRORS",
    text="""
    SELECT WorkId, WorkType, FlowName, FlowVersion, ProjectionKey, ProjectionActiveKey, State, Attempt, LeaseToken,
           InputStartOrdinal
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_Event)
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

LOCK_FENCED_MIRRORS = Statement(
    name="LOCK_FENCED_MIRRORS",
    text="""
    SELECT WorkId, WorkType, FlowName, FlowVersion, ProjectionKey, ProjectionActiveKey, State, Attempt, LeaseToken,
           InputStartOrdinal, RollbackExecutionFenceId
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_Event)
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

# Everything that a WorkItem's first claim relies on too: of the two, whoever locks the Event first has it.
CLAIM_EVENT = Statement(
    name="CLAIM_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'processing', ClaimToken = %(claim_token)s, ClaimedBy = %(process_id)s,
           ClaimedUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
     WHERE EventId = %(event_id)s
       AND PackInstallId = %(pack_install_id)s
       AND ExecutionOwner = 'event'
       AND Status IN ('pending', 'failed')
       AND (NextRetryAt IS NULL OR NextRetryAt <= UTC_TIMESTAMP(6))
       AND ClaimToken IS NULL
       AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

RENEW_EVENT_CLAIM = Statement(
    name="RENEW_EVENT_CLAIM",
    text="""
    UPDATE _System_ConnectorEvent
       SET ClaimedUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND
     WHERE EventId = %(event_id)s AND Status = 'processing' AND ClaimToken = %(claim_token)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.EVENT,),
)

# To processed, skipped or dead.
END_EVENT = Statement(
    name="END_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = %(status)s, TerminalAt = UTC_TIMESTAMP(6), NextRetryAt = NULL,
           RetryCount = RetryCount + %(failure_count)s, LastError = %(last_error)s,
           ClaimToken = NULL, ClaimedBy = NULL, ClaimedUntil = NULL
     WHERE EventId = %(event_id)s
       AND ExecutionOwner = 'event'
       AND Status = 'processing'
       AND ClaimToken = %(claim_token)s
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

FAIL_EVENT = Statement(
    name="FAIL_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'failed', RetryCount = RetryCount + 1, LastError = %(last_error)s,
           NextRetryAt = UTC_TIMESTAMP(6) + INTERVAL %(delay_microseconds)s MICROSECOND,
           ClaimToken = NULL, ClaimedBy = NULL, ClaimedUntil = NULL
     WHERE EventId = %(event_id)s
       AND ExecutionOwner = 'event'
       AND Status = 'processing'
       AND ClaimToken = %(claim_token)s
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

# What a lost executor holds; the token is the one that was read with the expired claim.
RECLAIM_EVENT = Statement(
    name="RECLAIM_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'failed', RetryCount = RetryCount + 1, LastError = %(last_error)s, NextRetryAt = UTC_TIMESTAMP(6),
           ClaimToken = NULL, ClaimedBy = NULL, ClaimedUntil = NULL
     WHERE EventId = %(event_id)s
       AND ExecutionOwner = 'event'
       AND Status = 'processing'
       AND ClaimToken = %(claim_token)s
       AND ClaimedUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

RECLAIM_EXHAUSTED_EVENT = Statement(
    name="RECLAIM_EXHAUSTED_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'dead', TerminalAt = UTC_TIMESTAMP(6), NextRetryAt = NULL, RetryCount = RetryCount + 1,
           LastError = %(last_error)s, ClaimToken = NULL, ClaimedBy = NULL, ClaimedUntil = NULL
     WHERE EventId = %(event_id)s
       AND ExecutionOwner = 'event'
       AND Status = 'processing'
       AND ClaimToken = %(claim_token)s
       AND ClaimedUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

# What settles a write whose COMMIT was not answered.
READ_EVENT_CLAIM = Statement(
    name="READ_EVENT_CLAIM",
    text="SELECT Status, ClaimToken, LastError FROM _System_ConnectorEvent WHERE EventId = %(event_id)s",
    returns=Returns.ROW,
)

_CONVERGE: Final = """
    UPDATE _System_ConnectorWorkItem
       SET State = '{state}', {end}UpdatedAt = UTC_TIMESTAMP(6),
           BlockedOn = NULL, BlockedSince = NULL, TargetLaneActiveKey = NULL, ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND EventId = %(event_id)s
       AND Attempt = 0
       AND State IN ('pending', 'blocked', 'retry')
       AND LeaseToken IS NULL
       AND EXISTS (SELECT 1 FROM _System_ConnectorEvent AS e
                    WHERE e.EventId = %(event_id)s AND e.Status = '{status}' AND e.ExecutionOwner = 'event')
    """


def _converge(name: LiteralString, status: LiteralString, state: LiteralString, *, has_outcome: bool) -> Statement:
    end: LiteralString = "Outcome = '{state}', TerminalAt = UTC_TIMESTAMP(6), " if has_outcome else ""
    text = _CONVERGE.replace("{end}", end).replace("{state}", state).replace("{status}", status)
    return Statement(name=name, text=text, returns=Returns.COUNT, holds=LockRank.WORK_ITEM)


CONVERGE_PROCESSED = _converge("CONVERGE_PROCESSED", "processed", "succeeded", has_outcome=True)
CONVERGE_SKIPPED = _converge("CONVERGE_SKIPPED", "skipped", "skipped", has_outcome=True)
CONVERGE_DEAD = _converge("CONVERGE_DEAD", "dead", "dead", has_outcome=True)
# Before the additive columns a mirror holds no outcome and no end.
CONVERGE_PROCESSED_BASE = _converge("CONVERGE_PROCESSED_BASE", "processed", "succeeded", has_outcome=False)
CONVERGE_SKIPPED_BASE = _converge("CONVERGE_SKIPPED_BASE", "skipped", "skipped", has_outcome=False)
CONVERGE_DEAD_BASE = _converge("CONVERGE_DEAD_BASE", "dead", "dead", has_outcome=False)
