"""Lock-free statements of what an operator lists and counts of one namespace: ranges of an index that begins with it.

A reader who may look into some namespaces only gets one of these for each, and the pages are merged: nothing of any
other is read.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement

_WORK: Final = """
    SELECT WorkId, EventId, WorkType, Namespace, PackInstallId, EventKind, SourceLane, State, RunAfter, QueueClass,
           Attempt, MaxAttempts, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_DeadByNamespace)
     WHERE Namespace = %(namespace)s AND State = %(state)s"""

# The second half need not say "at the same time" again, and must not: TiDB would read two ranges.
LIST_ENDED_WORK_OF_NAMESPACE_OLDER = Statement(
    name="LIST_ENDED_WORK_OF_NAMESPACE_OLDER",
    text=_WORK
    + """
       AND TerminalAt <= %(moment)s AND (TerminalAt < %(moment)s OR WorkId < %(work_id)s)
     ORDER BY TerminalAt DESC, WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_ENDED_WORK_OF_NAMESPACE_NEWER = Statement(
    name="LIST_ENDED_WORK_OF_NAMESPACE_NEWER",
    text=_WORK
    + """
       AND TerminalAt >= %(moment)s AND (TerminalAt > %(moment)s OR WorkId > %(work_id)s)
     ORDER BY TerminalAt, WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

#: What waits has no end yet: the index has it by id, which is the order in which it came.
LIST_WAITING_WORK_OF_NAMESPACE_LATER = Statement(
    name="LIST_WAITING_WORK_OF_NAMESPACE_LATER",
    text=_WORK
    + """
       AND TerminalAt IS NULL AND WorkId > %(work_id)s
     ORDER BY WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_WAITING_WORK_OF_NAMESPACE_SOONER = Statement(
    name="LIST_WAITING_WORK_OF_NAMESPACE_SOONER",
    text=_WORK
    + """
       AND TerminalAt IS NULL AND WorkId < %(work_id)s
     ORDER BY WorkId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

_RECEIPTS: Final = """
    SELECT ReceiptId, Namespace, RouteKey, Provider, DeliveryId, State, QuarantineCode, ReceivedAt, MaterializedAt
      FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
     WHERE State = {state} AND Namespace = %(namespace)s
       AND ReceivedAt <= %(moment)s AND (ReceivedAt < %(moment)s OR ReceiptId < %(receipt_id)s)
     ORDER BY ReceivedAt DESC, ReceiptId DESC
     LIMIT %(limit)s"""
_STATES: Final[tuple[LiteralString, ...]] = ("'received'", "'materialized'", "'quarantined'")

LIST_RECEIPTS_OF_NAMESPACE = Statement(
    name="LIST_RECEIPTS_OF_NAMESPACE",
    text=_RECEIPTS.replace("{state}", "%(state)s"),
    returns=Returns.ROWS,
)

LIST_RECEIPTS_OF_NAMESPACE_IN_ANY_STATE = Statement(
    name="LIST_RECEIPTS_OF_NAMESPACE_IN_ANY_STATE",
    text="("
    + ") UNION ALL (".join([_RECEIPTS.replace("{state}", state) for state in _STATES])
    + """)
     ORDER BY ReceivedAt DESC, ReceiptId DESC
     LIMIT %(limit)s""",
    returns=Returns.ROWS,
)

_COUNT_WORK: Final = """
    (SELECT '{state}' AS What, COUNT(*) AS Found
       FROM (SELECT 1 AS One
               FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_DeadByNamespace)
              WHERE Namespace = %(namespace)s AND State = '{state}'
              LIMIT %(cap)s) AS capped)"""
_COUNT_RECEIPTS: Final = """
    (SELECT '{state}' AS What, COUNT(*) AS Found
       FROM (SELECT 1 AS One
               FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
              WHERE State = '{state}' AND Namespace = %(namespace)s
              LIMIT %(cap)s) AS capped)"""
_QUEUE: Final[tuple[LiteralString, ...]] = ("pending", "processing", "retry", "blocked")
_UNFINISHED: Final[tuple[LiteralString, ...]] = ("received", "quarantined")

#: Each state's count stops at the cap, so that all of them are one short round trip.
COUNT_STATES_OF_NAMESPACE = Statement(
    name="COUNT_STATES_OF_NAMESPACE",
    text=" UNION ALL".join(
        [_COUNT_WORK.replace("{state}", state) for state in _QUEUE]
        + [_COUNT_RECEIPTS.replace("{state}", state) for state in _UNFINISHED]
    ),
    returns=Returns.ROWS,
)
