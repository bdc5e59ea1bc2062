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

# One entry of the index answers it, whatever the lane's history, but for items that a rollback handed over and whose
# Events died. Of those the Event tells, on every schema. What ended well stays so: the answer, once yes, is never no
# again.
FIND_ENDED_WELL = Statement(
    name="FIND_ENDED_WELL",
    text="""
    SELECT w.WorkId
      FROM _System_ConnectorWorkItem AS w FORCE INDEX (IX_WorkItem_Scope)
     WHERE w.Namespace = %(namespace)s AND w.EventKind = %(event_kind)s AND w.SourceLane = %(source_lane)s
       AND w.State IN ('succeeded', 'skipped', 'reconciled_legacy_terminal')
       AND (w.State <> 'reconciled_legacy_terminal'
            OR (SELECT e.Status FROM _System_ConnectorEvent AS e WHERE e.EventId = w.EventId)
               IN ('processed', 'skipped'))
     LIMIT 1
    """,
    returns=Returns.ROW,
)
