"""Statements on `_System_ConnectorCutoverReceipt`, which is only ever appended to, and what an inbound cutover counts.

The counts take no locks. What is historical is counted before the locks are taken, from the index alone; what has not
ended is counted again under them, and is bounded by the backlog. An Event whose WorkItem was claimed keeps its status,
so that of those of the WorkItems only the ones in `processing` are asked for under the locks: there must be none.
"""

from __future__ import annotations

from typing import Final

from integration.storage.statements import LockRank, Returns, Statement

NEWEST_CUTOVER_RECEIPT = Statement(
    name="NEWEST_CUTOVER_RECEIPT",
    text="""
    SELECT ReceiptId, Direction, OwnerGeneration, ProofDigest, WrittenAt
      FROM _System_ConnectorCutoverReceipt
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY OwnerGeneration DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# A pack has as many as its work changed hands.
LIST_CUTOVER_RECEIPTS = Statement(
    name="LIST_CUTOVER_RECEIPTS",
    text="""
    SELECT ReceiptId, PackInstallId, Direction, OwnerGeneration, Proof, ProofDigest, PreviousReceiptId, WrittenAt,
           WrittenBy
      FROM _System_ConnectorCutoverReceipt
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY OwnerGeneration
    """,
    returns=Returns.ROWS,
)

# The time is the database's, read in the same transaction: the proof repeats it.
INSERT_CUTOVER_RECEIPT = Statement(
    name="INSERT_CUTOVER_RECEIPT",
    text="""
    INSERT INTO _System_ConnectorCutoverReceipt
           (ReceiptId, PackInstallId, Direction, OwnerGeneration, Proof, ProofDigest, PreviousReceiptId, WrittenAt,
            WrittenBy)
    VALUES (%(receipt_id)s, %(pack_install_id)s, %(direction)s, %(owner_generation)s, %(proof)s, %(proof_digest)s,
            %(previous_receipt_id)s, %(written_at)s, %(written_by)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

FIND_CUTOVER_RECEIPT = Statement(
    name="FIND_CUTOVER_RECEIPT",
    text="""
    SELECT ReceiptId, PackInstallId, Direction, OwnerGeneration, Proof, ProofDigest, PreviousReceiptId, WrittenAt,
           WrittenBy
      FROM _System_ConnectorCutoverReceipt
     WHERE ReceiptId = %(receipt_id)s
    """,
    returns=Returns.ROW,
)

COUNT_EVENTS_OF_PACK = Statement(
    name="COUNT_EVENTS_OF_PACK",
    text="""
    SELECT ExecutionOwner, Status, COUNT(*) AS Found
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner IN %(owners)s AND Status IN %(statuses)s
     GROUP BY ExecutionOwner, Status
     ORDER BY ExecutionOwner, Status
    """,
    returns=Returns.ROWS,
)

COUNT_WORK_ITEMS_OF_PACK = Statement(
    name="COUNT_WORK_ITEMS_OF_PACK",
    text="""
    SELECT State, COUNT(*) AS Found
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s AND State IN %(states)s
     GROUP BY State
     ORDER BY State
    """,
    returns=Returns.ROWS,
)

# A claim of the Event executor that has not ended holds a token, whatever its status says.
COUNT_EVENT_CLAIMS = Statement(
    name="COUNT_EVENT_CLAIMS",
    text="""
    SELECT COUNT(*) AS Found
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event'
       AND Status IN ('pending', 'processing', 'failed')
       AND ClaimToken IS NOT NULL
    """,
    returns=Returns.ROW,
)

# What no executor takes back, since nothing says when it is over or whose it is.
COUNT_ENDLESS_CLAIMS = Statement(
    name="COUNT_ENDLESS_CLAIMS",
    text="""
    SELECT COUNT(*) AS Found, MIN(EventId) AS EventId
      FROM (SELECT EventId
              FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
             WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status IN ('pending', 'failed')
               AND ClaimToken IS NOT NULL
            UNION ALL
            SELECT EventId
              FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
             WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status = 'processing'
               AND (ClaimToken IS NULL OR ClaimedUntil IS NULL)
            UNION ALL
            SELECT EventId
              FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
             WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'work_item' AND Status = 'processing'
           ) AS endless
    """,
    returns=Returns.ROW,
)

# Without a forward receipt nobody may reap them.
COUNT_LOST_WORK_ITEMS = Statement(
    name="COUNT_LOST_WORK_ITEMS",
    text="""
    SELECT COUNT(*) AS Found, MIN(WorkId) AS WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s AND State = 'processing'
       AND (LeaseUntil IS NULL OR LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND)
    """,
    returns=Returns.ROW,
)

# What waits and no WorkItem names; by route, since the route says what its work is. A point read an Event: for a
# NOT EXISTS MariaDB reads the index of every WorkItem that there is. Up to the cutoff of a projection cutover each
# input has been proved to be covered by what its projection has completed.
COUNT_EVENTS_WITHOUT_WORK = Statement(
    name="COUNT_EVENTS_WITHOUT_WORK",
    text="""
    SELECT e.RouteId, COUNT(*) AS Found, COALESCE(SUM(COALESCE(e.LaneOrdinal, 0) <= %(cutoff)s), 0) AS UpToCutoff
      FROM _System_ConnectorEvent e FORCE INDEX (IX_Event_Executor)
     WHERE e.PackInstallId = %(pack_install_id)s AND e.ExecutionOwner = 'event' AND e.Status IN ('pending', 'failed')
       AND e.ReplayedAt IS NULL
       AND (SELECT w.WorkId FROM _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event)
             WHERE w.EventId = e.EventId LIMIT 1) IS NULL
     GROUP BY e.RouteId
     ORDER BY e.RouteId
    """,
    returns=Returns.ROWS,
)

_EVENTS_WITHOUT_WORK: Final = """
    SELECT e.EventId, e.NextRetryAt
      FROM _System_ConnectorEvent e FORCE INDEX (IX_Event_Executor)
     WHERE e.PackInstallId = %(pack_install_id)s AND e.ExecutionOwner = 'event' AND e.Status = %(status)s
       AND e.ClaimToken IS NULL
       AND e.ReplayedAt IS NULL
       AND e.RouteId IN %(route_ids)s
       AND (SELECT w.WorkId FROM _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event)
             WHERE w.EventId = e.EventId LIMIT 1) IS NULL"""
# In the order of the index, the undated ones of a status first: a page goes on where the last one ended, and on
# MariaDB, whose index ends with the id, none reads what another has read.
LIST_UNDATED_EVENTS_WITHOUT_WORK = Statement(
    name="LIST_UNDATED_EVENTS_WITHOUT_WORK",
    text=_EVENTS_WITHOUT_WORK
    + """
       AND e.NextRetryAt IS NULL AND e.EventId > %(after)s
     ORDER BY e.EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_DATED_EVENTS_WITHOUT_WORK = Statement(
    name="LIST_DATED_EVENTS_WITHOUT_WORK",
    text=_EVENTS_WITHOUT_WORK
    + """
       AND e.NextRetryAt >= %(retry_at)s AND (e.NextRetryAt > %(retry_at)s OR e.EventId > %(after)s)
     ORDER BY e.NextRetryAt, e.EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# Under the pack's lock and the Events' own: nobody gives them work but who holds these.
LIST_WORK_OF_EVENTS = Statement(
    name="LIST_WORK_OF_EVENTS",
    text="SELECT DISTINCT EventId FROM _System_ConnectorWorkItem WHERE EventId IN %(event_ids)s",
    returns=Returns.ROWS,
)

LOCK_EVENTS_WITHOUT_WORK = Statement(
    name="LOCK_EVENTS_WITHOUT_WORK",
    text="""
    SELECT EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, EventKind, WorkType, SourceLane, TargetLane,
           LaneOrdinal, ExecutionOwner, Status, ClaimToken, ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.EVENT,),
)

COUNT_AMBIGUOUS_EVENTS = Statement(
    name="COUNT_AMBIGUOUS_EVENTS",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT e.EventId
              FROM _System_ConnectorEvent e FORCE INDEX (IX_Event_Executor)
                   STRAIGHT_JOIN _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event) ON w.EventId = e.EventId
             WHERE e.PackInstallId = %(pack_install_id)s AND e.ExecutionOwner = 'event'
               AND e.Status IN ('pending', 'processing', 'failed')
             GROUP BY e.EventId
            HAVING COUNT(*) > 1) AS ambiguous
    """,
    returns=Returns.ROW,
)

# Work that nobody could ever claim, since its Event has ended, and that would stop its lane for good.
COUNT_MIRRORS_LEFT_BEHIND = Statement(
    name="COUNT_MIRRORS_LEFT_BEHIND",
    text="""
    SELECT COUNT(*) AS Found, MIN(w.WorkId) AS WorkId
      FROM _System_ConnectorWorkItem w FORCE INDEX (IX_WorkItem_Pack)
           STRAIGHT_JOIN _System_ConnectorEvent e FORCE INDEX (PRIMARY) ON e.EventId = w.EventId
     WHERE w.PackInstallId = %(pack_install_id)s AND w.State IN ('pending', 'retry', 'blocked') AND w.Attempt = 0
       AND e.ExecutionOwner = 'event' AND e.Status IN ('processed', 'skipped', 'dead')
    """,
    returns=Returns.ROW,
)

# The other way round: it waits for good, since its WorkItem has ended and nobody else executes it.
COUNT_EVENTS_LEFT_BEHIND = Statement(
    name="COUNT_EVENTS_LEFT_BEHIND",
    text="""
    SELECT COUNT(*) AS Found
      FROM _System_ConnectorEvent e FORCE INDEX (IX_Event_Executor)
           STRAIGHT_JOIN _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event) ON w.EventId = e.EventId
     WHERE e.PackInstallId = %(pack_install_id)s AND e.ExecutionOwner = 'event' AND e.Status IN ('pending', 'failed')
       AND e.ReplayedAt IS NULL
       AND w.State IN ('succeeded', 'skipped', 'dead', 'cancelled', 'reconciled_legacy_terminal')
    """,
    returns=Returns.ROW,
)

# What a rollback handed over and no receipt confirms; of every fence that the pack ever had.
COUNT_UNCONFIRMED_OUTCOMES = Statement(
    name="COUNT_UNCONFIRMED_OUTCOMES",
    text="""
    SELECT COUNT(*) AS Found
      FROM _System_ConnectorRollbackFence f FORCE INDEX (IX_RollbackFence_Pack)
           STRAIGHT_JOIN _System_ConnectorWorkItem w FORCE INDEX (IX_WorkItem_RollbackFence)
           ON w.RollbackExecutionFenceId = f.FenceId
           LEFT JOIN _System_ConnectorLegacyOutcomeReceipt r ON r.EventId = w.EventId AND r.WorkType = w.WorkType
     WHERE f.PackInstallId = %(pack_install_id)s
       AND w.State NOT IN ('awaiting_legacy_outcome', 'legacy_outcome_unknown')
       AND (w.State <> 'reconciled_legacy_terminal' OR r.EventId IS NULL OR r.ConflictAt IS NOT NULL
            OR r.RollbackFenceId <> f.FenceId OR w.LegacyOutcomeReceiptDigest IS NULL
            OR w.LegacyOutcomeReceiptDigest <> r.Digest)
    """,
    returns=Returns.ROW,
)

COUNT_UNCLOSED_ROLLBACKS = Statement(
    name="COUNT_UNCLOSED_ROLLBACKS",
    text="""
    SELECT COUNT(*) AS Found
      FROM _System_ConnectorRollbackFence FORCE INDEX (IX_RollbackFence_Pack)
     WHERE PackInstallId = %(pack_install_id)s AND State <> 'closed'
    """,
    returns=Returns.ROW,
)

# A receipt that a process observed and that is not there any more was taken off the end of the chain.
LIST_LOST_RECEIPTS = Statement(
    name="LIST_LOST_RECEIPTS",
    text="""
    SELECT DISTINCT p.ObservedReceiptId AS ReceiptId
      FROM _System_ConnectorClaimProcess p
     WHERE p.PackInstallId = %(pack_install_id)s AND p.ObservedReceiptId IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM _System_ConnectorCutoverReceipt r WHERE r.ReceiptId = p.ObservedReceiptId)
     ORDER BY p.ObservedReceiptId
    """,
    returns=Returns.ROWS,
)

# What a lost executor holds. Its WorkItem will execute it, however often it failed before.
LIST_LOST_EVENT_CLAIMS = Statement(
    name="LIST_LOST_EVENT_CLAIMS",
    text="""
    SELECT EventId, ClaimToken
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status = 'processing'
       AND ClaimedUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
     ORDER BY EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

TAKE_EVENT_BACK = Statement(
    name="TAKE_EVENT_BACK",
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
    locks=(LockRank.EVENT,),
)
