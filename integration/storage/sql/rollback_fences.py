"""Statements of an inbound rollback: its fence, a leaf, and the rows that it proves, hands over and gives back."""

from __future__ import annotations

from typing import Final

from integration.storage.statements import LockRank, Returns, Statement

#: The states of a fence: it takes items, it is bound by a receipt, it is over.
OPEN: Final = "open"
SEALED: Final = "sealed"
CLOSED: Final = "closed"

# Until it is closed; a pack has one at the most.
FIND_UNCLOSED_FENCE = Statement(
    name="FIND_UNCLOSED_FENCE",
    text="""
    SELECT FenceId, OwnerGeneration, State, ItemCount, SetDigest, ReceiptId
      FROM _System_ConnectorRollbackFence
     WHERE OpenKey = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

# Once it has a receipt it was sealed, whatever became of it since.
FIND_FENCE_OF_RECEIPT = Statement(
    name="FIND_FENCE_OF_RECEIPT",
    text="""
    SELECT f.FenceId, f.State, f.ItemCount, f.SetDigest, r.Proof
      FROM _System_ConnectorCutoverReceipt AS r
           JOIN _System_ConnectorRollbackFence AS f ON f.PackInstallId = r.PackInstallId AND f.ReceiptId = r.ReceiptId
     WHERE r.ReceiptId = %(receipt_id)s
    """,
    returns=Returns.ROW,
)

# The unique key lets one of two rollbacks in.
INSERT_ROLLBACK_FENCE = Statement(
    name="INSERT_ROLLBACK_FENCE",
    text="""
    INSERT INTO _System_ConnectorRollbackFence
           (FenceId, PackInstallId, OwnerGeneration, State, OpenKey, OpenedAt, OpenedBy)
    VALUES (%(fence_id)s, %(pack_install_id)s, %(owner_generation)s, 'open', %(pack_install_id)s, UTC_TIMESTAMP(6),
            %(actor_name)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

SEAL_ROLLBACK_FENCE = Statement(
    name="SEAL_ROLLBACK_FENCE",
    text="""
    UPDATE _System_ConnectorRollbackFence
       SET State = 'sealed', ItemCount = %(item_count)s, SetDigest = %(set_digest)s, ReceiptId = %(receipt_id)s,
           SealedAt = UTC_TIMESTAMP(6)
     WHERE FenceId = %(fence_id)s AND State = 'open'
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

# An open one that holds nothing, or a sealed one of which every item is reconciled.
CLOSE_ROLLBACK_FENCE = Statement(
    name="CLOSE_ROLLBACK_FENCE",
    text="""
    UPDATE _System_ConnectorRollbackFence
       SET State = 'closed', OpenKey = NULL, ClosedAt = UTC_TIMESTAMP(6)
     WHERE FenceId = %(fence_id)s AND State = %(state)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

# What runs or waits for something else is never handed over.
COUNT_IN_HAND = Statement(
    name="COUNT_IN_HAND",
    text="""
    SELECT State, COUNT(*) AS Items
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s AND State IN ('processing', 'blocked')
     GROUP BY State
    """,
    returns=Returns.ROWS,
)

_TO_FENCE: Final = """
    SELECT w.WorkId, w.EventId, w.RouteId, w.Namespace, w.SourceLane, w.TargetLane, w.LaneOrdinal, w.State,
           w.Attempt, w.FailureClass, w.LeaseToken IS NOT NULL AS IsLeased,
           w.ProjectionKey IS NOT NULL AS IsProjection, w.RollbackExecutionFenceId IS NOT NULL AS IsFenced,
           w.CancelRequestedAt IS NOT NULL AS IsCancelRequested,
           e.WorkType = w.WorkType AND e.Status IN ('pending', 'failed') AND e.ClaimToken IS NULL
             AND e.ReplayedAt IS NULL AS IsExecutable
      FROM _System_ConnectorWorkItem AS w FORCE INDEX (IX_WorkItem_Pack)
           LEFT JOIN _System_ConnectorEvent AS e ON e.EventId = w.EventId
     WHERE w.PackInstallId = %(pack_install_id)s AND w.State = '{state}'
       AND (w.LaneOrdinal > %(after_ordinal)s OR (w.LaneOrdinal <=> %(after_ordinal)s AND w.WorkId > %(after)s))
     ORDER BY w.LaneOrdinal, w.WorkId
     LIMIT %(limit)s
    """
# Those whose history is asked about, and those that were never claimed. In the order of the index; rows without an
# ordinal are walked by an `after_ordinal` that is NULL.
LIST_RETRIES_TO_FENCE = Statement(
    name="LIST_RETRIES_TO_FENCE", text=_TO_FENCE.replace("{state}", "retry"), returns=Returns.ROWS
)
LIST_PENDING_TO_FENCE = Statement(
    name="LIST_PENDING_TO_FENCE", text=_TO_FENCE.replace("{state}", "pending"), returns=Returns.ROWS
)

LIST_ATTEMPTS_TO_PROVE = Statement(
    name="LIST_ATTEMPTS_TO_PROVE",
    text="""
    SELECT WorkId, Attempt, DispatchedAt, Outcome
      FROM _System_ConnectorExecutionAttempt
     WHERE WorkId IN %(work_ids)s
     ORDER BY WorkId, Attempt
    """,
    returns=Returns.ROWS,
)

LIST_EFFECTS_TO_PROVE = Statement(
    name="LIST_EFFECTS_TO_PROVE",
    text="""
    SELECT WorkId, DispatchStartedAt, OutcomeClass
      FROM _System_IntegrationEffectAttempt FORCE INDEX (IX_EffectAttempt_Work)
     WHERE WorkId IN %(work_ids)s
     ORDER BY WorkId, EffectAttemptId
    """,
    returns=Returns.ROWS,
)

# Every input counts, whatever became of its work.
FIND_INPUT_ABOVE_CUTOFF = Statement(
    name="FIND_INPUT_ABOVE_CUTOFF",
    text="""
    SELECT e.EventId, e.LaneOrdinal
      FROM _System_ConnectorRoute AS r FORCE INDEX (UX_Route_Version)
           STRAIGHT_JOIN _System_ConnectorEvent AS e FORCE INDEX (IX_Event_SourceLane)
           ON e.PackInstallId = r.PackInstallId AND e.EventKind = r.EventKind
     WHERE r.PackInstallId = %(pack_install_id)s AND r.ExecutionClass = 'source_projection'
       AND e.RouteId = r.RouteId AND e.LaneOrdinal > %(cutoff)s
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# What waits and no WorkItem names, of routes that project or are not there any more. A point read an Event, of those
# that nobody has claimed. Without a cutoff, all of them are above it; with one, what has no ordinal is older.
COUNT_INPUTS_WITHOUT_ITEM = Statement(
    name="COUNT_INPUTS_WITHOUT_ITEM",
    text="""
    SELECT COUNT(*) AS Found, MIN(e.EventId) AS EventId,
           COALESCE(SUM(r.RouteId IS NOT NULL AND COALESCE(e.LaneOrdinal > %(cutoff)s, %(cutoff)s IS NULL)), 0)
             AS AboveCutoff
      FROM _System_ConnectorEvent AS e FORCE INDEX (IX_Event_Executor)
           LEFT JOIN _System_ConnectorRoute AS r ON r.RouteId = e.RouteId
     WHERE e.PackInstallId = %(pack_install_id)s AND e.ExecutionOwner = 'event'
       AND e.Status IN ('pending', 'processing', 'failed')
       AND e.ReplayedAt IS NULL
       AND COALESCE(r.ExecutionClass, 'source_projection') = 'source_projection'
       AND (SELECT w.WorkId FROM _System_ConnectorWorkItem AS w FORCE INDEX (UX_WorkItem_Event)
             WHERE w.EventId = e.EventId LIMIT 1) IS NULL
    """,
    returns=Returns.ROW,
)

LIST_PROJECTED_KINDS = Statement(
    name="LIST_PROJECTED_KINDS",
    text="""
    SELECT EventKind
      FROM _System_ConnectorRoute FORCE INDEX (UX_Route_Version)
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'live' AND ExecutionClass = 'source_projection'
     ORDER BY EventKind
    """,
    returns=Returns.ROWS,
)

FENCE_WORK_ITEMS = Statement(
    name="FENCE_WORK_ITEMS",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'awaiting_legacy_outcome', RollbackExecutionFenceId = %(fence_id)s, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s
       AND State IN ('pending', 'retry')
       AND LeaseToken IS NULL
       AND ProjectionKey IS NULL
       AND RollbackExecutionFenceId IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Back to what they were, while the fence is open: until its receipt is written nobody executes what it holds.
_UNFENCE: Final = """
    UPDATE _System_ConnectorWorkItem
       SET State = '{state}', RollbackExecutionFenceId = NULL, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s
       AND State = 'awaiting_legacy_outcome'
       AND RollbackExecutionFenceId = %(fence_id)s
       AND Attempt {attempt}
    """
UNFENCE_WORK_ITEMS = Statement(
    name="UNFENCE_WORK_ITEMS",
    text=_UNFENCE.replace("{state}", "pending").replace("{attempt}", "= 0"),
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)
UNFENCE_RETRIES = Statement(
    name="UNFENCE_RETRIES",
    text=_UNFENCE.replace("{state}", "retry").replace("{attempt}", "> 0"),
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Whose Events a WorkItem had taken over.
LIST_TAKEN_OVER = Statement(
    name="LIST_TAKEN_OVER",
    text="""
    SELECT EventId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_RollbackFence)
     WHERE RollbackExecutionFenceId = %(fence_id)s AND Attempt > 0
     ORDER BY EventId
    """,
    returns=Returns.ROWS,
)

# The set of a fence, in the order in which its digest takes it.
LIST_FENCED_ITEMS = Statement(
    name="LIST_FENCED_ITEMS",
    text="""
    SELECT WorkId, EventId, State, Attempt, LegacyOutcomeReceiptDigest
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_RollbackFence)
     WHERE RollbackExecutionFenceId = %(fence_id)s AND WorkId > %(after)s
     ORDER BY WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# Whatever of a pack has not ended and is not held by one fence.
FIND_LEFT_OUTSIDE = Statement(
    name="FIND_LEFT_OUTSIDE",
    text="""
    SELECT WorkId, State
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s
       AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome', 'legacy_outcome_unknown')
       AND (RollbackExecutionFenceId IS NULL OR RollbackExecutionFenceId <> %(fence_id)s)
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# An Event that a WorkItem had taken over; what was never claimed has kept its owner.
RETURN_EVENTS = Statement(
    name="RETURN_EVENTS",
    text="""
    UPDATE _System_ConnectorEvent
       SET ExecutionOwner = 'event'
     WHERE EventId IN %(event_ids)s
       AND Status IN ('pending', 'failed')
       AND ClaimToken IS NULL
       AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.EVENT,),
)
