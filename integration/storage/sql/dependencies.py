"""Statements about what a WorkItem waits for besides its lanes: blocked until the dependency is met."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

BLOCK_WORK_ITEMS = Statement(
    name="BLOCK_WORK_ITEMS",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'blocked', BlockedOn = %(blocked_on)s, BlockedSince = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s
       AND State = 'pending'
       AND Attempt = 0
       AND LeaseToken IS NULL
       AND RollbackExecutionFenceId IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Due at once, in the place that its first RunAfter gives it.
UNBLOCK_WORK_ITEMS = Statement(
    name="UNBLOCK_WORK_ITEMS",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'pending', BlockedOn = NULL, BlockedSince = NULL, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s AND State = 'blocked' AND BlockedOn = %(blocked_on)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# In the order of the index; a round goes on where the one before it stopped.
LIST_BLOCKED_WORK = Statement(
    name="LIST_BLOCKED_WORK",
    text="""
    SELECT WorkId, Namespace, TargetLane, BlockedOn, RunAfter, QueueClass
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State = 'blocked' AND RunAfter >= %(run_after)s
       AND (RunAfter > %(run_after)s
            OR (RunAfter = %(run_after)s
                AND (QueueClass > %(queue_class)s OR (QueueClass = %(queue_class)s AND WorkId > %(work_id)s))))
     ORDER BY RunAfter, QueueClass, WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# One entry of the index answers it, whatever the lane's history. What ended well stays so: the answer, once yes, is
# never no again.
FIND_ENDED_WELL = Statement(
    name="FIND_ENDED_WELL",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Scope)
     WHERE Namespace = %(namespace)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
       AND State IN ('succeeded', 'skipped')
     LIMIT 1
    """,
    returns=Returns.ROW,
)
