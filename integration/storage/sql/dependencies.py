"""Statements about what a WorkItem waits for besides its lanes: blocked until the dependency is met."""

from __future__ import annotations

from integration.storage.sql.work_items import CONNECTOR
from integration.storage.statements import Returns, Statement

BLOCK_WORK_ITEMS = CONNECTOR.block

UNBLOCK_WORK_ITEMS = CONNECTOR.unblock

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
