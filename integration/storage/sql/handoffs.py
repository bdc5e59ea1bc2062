"""Statements by which an ended generation's successor gets the active key, and by which one without it is found."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

ACTIVATE_SUCCESSOR = Statement(
    name="ACTIVATE_SUCCESSOR",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET ProjectionActiveKey = ProjectionKey, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s
       AND ProjectionKey = %(projection_key)s
       AND State IN ('pending', 'blocked')
       AND Attempt = 0
       AND ProjectionActiveKey IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Pages of what waits, in the order of the index; what has a key or needs none is left out by the reader, so that the
# limit bounds what one statement looks at.
LIST_WAITING_GENERATIONS = Statement(
    name="LIST_WAITING_GENERATIONS",
    text="""
    SELECT WorkId, ProjectionKey, ProjectionActiveKey, RunAfter, QueueClass
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

LIST_ACTIVE_KEYS = Statement(
    name="LIST_ACTIVE_KEYS",
    text="""
    SELECT ProjectionActiveKey
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_ProjectionActive)
     WHERE ProjectionActiveKey IN %(projection_keys)s
    """,
    returns=Returns.ROWS,
)

# The second look, in one statement and so at one moment: a handoff that was under way has ended, or has not.
FIND_KEYLESS_HEAD = Statement(
    name="FIND_KEYLESS_HEAD",
    text="""
    SELECT w.WorkId, w.Namespace, w.PackInstallId, w.EventKind, w.ProjectionKey, w.CreatedAt
      FROM _System_ConnectorWorkItem AS w
     WHERE w.WorkId = %(work_id)s
       AND w.ProjectionActiveKey IS NULL
       AND w.State IN ('pending', 'blocked')
       AND NOT EXISTS (SELECT 1 FROM _System_ConnectorWorkItem AS a
                        WHERE a.ProjectionActiveKey = %(projection_key)s)
    """,
    returns=Returns.ROW,
)
