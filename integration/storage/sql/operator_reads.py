"""Lock-free statements of the operator pages: every one bounded by a limit and carried by a named index.

None of them reads a payload, a body, a lease, a worker's identity or a failure text.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement

COUNT_WORK_IN_STATE = Statement(
    name="COUNT_WORK_IN_STATE",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT 1 AS One
              FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
             WHERE State = %(state)s
             LIMIT %(cap)s) AS capped
    """,
    returns=Returns.ROW,
)

OLDEST_DEAD = Statement(
    name="OLDEST_DEAD",
    text="""
    SELECT WorkId, TerminalAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Dead)
     WHERE State = 'dead' AND TerminalAt IS NOT NULL
     ORDER BY TerminalAt, WorkId
     LIMIT 1
    """,
    returns=Returns.ROW,
)

OLDEST_DUE = Statement(
    name="OLDEST_DUE",
    text="""
    SELECT WorkId, RunAfter
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State = 'pending' AND RunAfter <= UTC_TIMESTAMP(6)
     ORDER BY RunAfter
     LIMIT 1
    """,
    returns=Returns.ROW,
)

#: How many hours are read at once.
HOURS: Final = 12
_COUNTED: Final = """
    (SELECT {hour} AS Hour, '{what}' AS What, COUNT(*) AS Found
       FROM (SELECT 1 AS One
               FROM _System_ConnectorWorkItem FORCE INDEX ({index})
              WHERE {range}
              LIMIT %(cap)s) AS capped)"""
_ENDED: Final = "State = '{what}' AND TerminalAt >= %(at_{hour})s AND TerminalAt < %(at_{next})s"
#: WorkId is a UUIDv7, so that an hour of arrivals is one range of the primary key.
_ARRIVED: Final = "WorkId >= %(id_{hour})s AND WorkId < %(id_{next})s"


def _hours() -> LiteralString:
    """Return one range for each hour and what is counted in it, so that all of them are one round trip."""
    parts: list[LiteralString] = []
    for what, index, within in (
        ("arrived", "PRIMARY", _ARRIVED),
        ("succeeded", "IX_WorkItem_Dead", _ENDED),
        ("dead", "IX_WorkItem_Dead", _ENDED),
    ):
        part = _COUNTED.replace("{index}", index).replace("{range}", within).replace("{what}", what)
        parts += [part.replace("{hour}", _NUMBERS[n]).replace("{next}", _NUMBERS[n + 1]) for n in range(HOURS)]
    return " UNION ALL".join(parts)


_NUMBERS: Final[tuple[LiteralString, ...]] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")
READ_HOURS = Statement(name="READ_HOURS", text=_hours(), returns=Returns.ROWS)

COUNT_RECEIPTS_IN_STATE = Statement(
    name="COUNT_RECEIPTS_IN_STATE",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT 1 AS One
              FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
             WHERE State = %(state)s
             LIMIT %(cap)s) AS capped
    """,
    returns=Returns.ROW,
)

#: What every full page shows beside its own work, in one round trip. Whether a row was replayed stands in the row
#: alone: only so many of those that died last are looked at.
COUNT_WAITING_FOR_OPERATORS = Statement(
    name="COUNT_WAITING_FOR_OPERATORS",
    text="""
    SELECT (SELECT COUNT(*)
              FROM (SELECT ReplayedAt
                      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Dead)
                     WHERE State = 'dead' AND Attempt > 0
                     ORDER BY TerminalAt DESC, WorkId DESC
                     LIMIT %(window)s) AS newest
             WHERE ReplayedAt IS NULL) AS Dead,
           (SELECT COUNT(*)
              FROM (SELECT 1 AS One
                      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Dead)
                     WHERE State = 'dead' AND Attempt > 0
                     LIMIT %(window)s) AS capped_seen) AS Seen,
           (SELECT COUNT(*)
              FROM (SELECT 1 AS One
                      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
                     WHERE State = 'quarantined'
                     LIMIT %(cap)s) AS capped_quarantined) AS Quarantined
    """,
    returns=Returns.ROW,
)

#: Sums only: which process runs where is no operator's business here. A row that names a pack is the fence of a
#: worker that has a row of its own.
SUM_RUNNING_PROCESSES = Statement(
    name="SUM_RUNNING_PROCESSES",
    text="""
    SELECT COUNT(*) AS Alive, COALESCE(SUM(Concurrency), 0) AS Slots, COALESCE(SUM(InFlight), 0) AS InFlight,
           MAX(HeartbeatAt) AS LastHeartbeatAt
      FROM _System_ConnectorClaimProcess FORCE INDEX (IX_ClaimProcess_Running)
     WHERE StoppedAt IS NULL AND HeartbeatAt >= %(since)s AND EvictedAt IS NULL AND PackInstallId IS NULL
    """,
    returns=Returns.ROW,
)

#: Ids are UUIDv7, so that what came since a moment is one range of the primary key.
COUNT_READY_RECEIPTS_SINCE = Statement(
    name="COUNT_READY_RECEIPTS_SINCE",
    text="""
    SELECT COUNT(*) AS Found
      FROM _System_ConnectorIngressReceipt FORCE INDEX (PRIMARY)
     WHERE ReceiptId >= %(first_id)s AND Namespace = %(namespace)s AND State = 'received'
    """,
    returns=Returns.ROW,
)

COUNT_WORK_SINCE_BY_STATE = Statement(
    name="COUNT_WORK_SINCE_BY_STATE",
    text="""
    SELECT State, COUNT(*) AS Found
      FROM _System_ConnectorWorkItem FORCE INDEX (PRIMARY)
     WHERE WorkId >= %(first_id)s AND Namespace = %(namespace)s
     GROUP BY State
    """,
    returns=Returns.ROWS,
)

LIST_FENCES_FOR_OPERATORS = Statement(
    name="LIST_FENCES_FOR_OPERATORS",
    text="""
    SELECT FenceId, Namespace, Scope, ExpiresAt, ArmedAt, ArmedBy, Reason
      FROM _System_ConnectorAdmissionFence
     WHERE LiftedAt IS NULL AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
     ORDER BY ArmedAt DESC
     LIMIT 50
    """,
    returns=Returns.ROWS,
)

LIST_NAMESPACES = Statement(
    name="LIST_NAMESPACES",
    text="SELECT Namespace FROM _System_ConnectorNamespace ORDER BY Namespace LIMIT 200",
    returns=Returns.ROWS,
)

LIST_WORK_BY_ID_OLDER = Statement(
    name="LIST_WORK_BY_ID_OLDER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, Attempt,
           MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (PRIMARY)
     WHERE WorkId < %(work_id)s
     ORDER BY WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_WORK_BY_ID_NEWER = Statement(
    name="LIST_WORK_BY_ID_NEWER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, Attempt,
           MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (PRIMARY)
     WHERE WorkId > %(work_id)s
     ORDER BY WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_ENDED_WORK_OLDER = Statement(
    name="LIST_ENDED_WORK_OLDER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, Attempt,
           MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Dead)
     WHERE State = %(state)s AND TerminalAt <= %(moment)s
       AND (TerminalAt < %(moment)s OR (TerminalAt = %(moment)s AND WorkId < %(work_id)s))
     ORDER BY TerminalAt DESC, WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_ENDED_WORK_NEWER = Statement(
    name="LIST_ENDED_WORK_NEWER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, Attempt,
           MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Dead)
     WHERE State = %(state)s AND TerminalAt >= %(moment)s
       AND (TerminalAt > %(moment)s OR (TerminalAt = %(moment)s AND WorkId > %(work_id)s))
     ORDER BY TerminalAt, WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

#: In the order in which a claim takes them.
LIST_WAITING_WORK_LATER = Statement(
    name="LIST_WAITING_WORK_LATER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, QueueClass,
           Attempt, MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State = %(state)s AND RunAfter >= %(moment)s
       AND (RunAfter > %(moment)s
            OR (RunAfter = %(moment)s AND QueueClass > %(queue_class)s)
            OR (RunAfter = %(moment)s AND QueueClass = %(queue_class)s AND WorkId > %(work_id)s))
     ORDER BY RunAfter, QueueClass, WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_WAITING_WORK_SOONER = Statement(
    name="LIST_WAITING_WORK_SOONER",
    text="""
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, QueueClass,
           Attempt, MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State = %(state)s AND RunAfter <= %(moment)s
       AND (RunAfter < %(moment)s
            OR (RunAfter = %(moment)s AND QueueClass < %(queue_class)s)
            OR (RunAfter = %(moment)s AND QueueClass = %(queue_class)s AND WorkId < %(work_id)s))
     ORDER BY RunAfter DESC, QueueClass DESC, WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

GET_WORK_ITEM = Statement(
    name="GET_WORK_ITEM",
    text="""
    SELECT WorkId, EventId, WorkFamily, WorkType, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, FlowName,
           FlowVersion, EventKind, SourceLane, TargetLane, LaneOrdinal, ProjectionKey, ProjectionActiveKey, State,
           RunAfter, Attempt, MaxAttempts,
           OwnershipEpoch, OwnerGeneration, FailureCount, FirstFailedAt, LastFailedAt, CancelRequestedAt,
           BlockedOn, BlockedSince, CreatedAt, UpdatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

FIND_REPLAY_CHILD = Statement(
    name="FIND_REPLAY_CHILD",
    text="""
    SELECT WorkId, State, CreatedAt, TerminalAt
      FROM _System_ConnectorWorkItem
     WHERE ReplayOfWorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

LIST_ATTEMPTS_OF_WORK = Statement(
    name="LIST_ATTEMPTS_OF_WORK",
    text="""
    SELECT Attempt, OwnershipEpoch, StartedAt, DispatchedAt, FinishedAt, Outcome
      FROM _System_ConnectorExecutionAttempt
     WHERE WorkId = %(work_id)s
     ORDER BY Attempt DESC
     LIMIT 200
    """,
    returns=Returns.ROWS,
)

GET_PACK_NAME = Statement(
    name="GET_PACK_NAME",
    text="""
    SELECT PackInstallId, Namespace, PackName, PackVersion, Incarnation, Status
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

LIST_PACK_NAMES = Statement(
    name="LIST_PACK_NAMES",
    text="""
    SELECT PackInstallId, Namespace, PackName, PackVersion, Incarnation, Status
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId IN %(pack_install_ids)s
    """,
    returns=Returns.ROWS,
)

LIST_RECEIPTS_IN_STATE = Statement(
    name="LIST_RECEIPTS_IN_STATE",
    text="""
    SELECT ReceiptId, Namespace, RouteKey, Provider, DeliveryId, State, QuarantineCode, ReceivedAt, MaterializedAt
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = %(state)s AND Namespace <= %(namespace)s
       AND (Namespace < %(namespace)s
            OR (Namespace = %(namespace)s AND ReceivedAt < %(moment)s)
            OR (Namespace = %(namespace)s AND ReceivedAt = %(moment)s AND ReceiptId < %(receipt_id)s))
     ORDER BY Namespace DESC, ReceivedAt DESC, ReceiptId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_RECEIPTS = Statement(
    name="LIST_RECEIPTS",
    text="""
    SELECT ReceiptId, Namespace, RouteKey, Provider, DeliveryId, State, QuarantineCode, ReceivedAt, MaterializedAt
      FROM _System_ConnectorIngressReceipt FORCE INDEX (PRIMARY)
     WHERE ReceiptId < %(receipt_id)s
     ORDER BY ReceiptId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

FIRST_RECEIPTS_IN_STATE = Statement(
    name="FIRST_RECEIPTS_IN_STATE",
    text="""
    SELECT ReceiptId, Namespace, RouteKey, Provider, DeliveryId, State, QuarantineCode, ReceivedAt, MaterializedAt
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = %(state)s
     ORDER BY Namespace DESC, ReceivedAt DESC, ReceiptId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

GET_RECEIPT_FACTS = Statement(
    name="GET_RECEIPT_FACTS",
    text="""
    SELECT ReceiptId, PackInstallId, Namespace, RouteKey, Provider, DeliveryId, BodyHash,
           OCTET_LENGTH(Body) AS BodyBytes, State, QuarantineCode, ReceivedAt, MaterializedAt, MaterializedPackInstallId
      FROM _System_ConnectorIngressReceipt
     WHERE ReceiptId = %(receipt_id)s
    """,
    returns=Returns.ROW,
)

LIST_EVENTS_OF_RECEIPT = Statement(
    name="LIST_EVENTS_OF_RECEIPT",
    text="""
    SELECT EventId, EventKind, ReceiptIndex, ReceivedAt
      FROM _System_ConnectorEvent
     WHERE ReceiptId = %(receipt_id)s
     ORDER BY ReceiptIndex
     LIMIT 200
    """,
    returns=Returns.ROWS,
)

LIST_WORK_NAMING_EVENTS = Statement(
    name="LIST_WORK_NAMING_EVENTS",
    text="""
    SELECT EventId, WorkId, State
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_Event)
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId, WorkType
    """,
    returns=Returns.ROWS,
)

FIND_RECEIPT_OF_EVENT = Statement(
    name="FIND_RECEIPT_OF_EVENT",
    text="SELECT EventId, ReceiptId FROM _System_ConnectorEvent WHERE EventId = %(event_id)s",
    returns=Returns.ROW,
)

ANSWER_ONE = Statement(name="ANSWER_ONE", text="SELECT 1 AS One", returns=Returns.ROW)
