"""Lock-free statements on source lanes that wait: a sample of what has not ended, and the exact head of a lane."""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement

_STATES: Final[tuple[LiteralString, ...]] = (
    "pending",
    "processing",
    "retry",
    "blocked",
    "awaiting_legacy_outcome",
    "legacy_outcome_unknown",
)

# In the order in which they are claimed, so that what has waited longest is what a cap leaves; of one namespace in the
# order in which they came, in which an index has them.
_SAMPLE: Final = """
            (SELECT WorkId, PackInstallId, Namespace, SourceLane
               FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
              WHERE State = '{state}'
              ORDER BY RunAfter, QueueClass, WorkId
              LIMIT %(cap)s)"""
_SAMPLE_OF_NAMESPACE: Final = """
            (SELECT WorkId, PackInstallId, Namespace, SourceLane
               FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_DeadByNamespace)
              WHERE Namespace = %(namespace)s AND State = '{state}' AND TerminalAt IS NULL
              ORDER BY WorkId
              LIMIT %(cap)s)"""


def _lanes(name: str, sample: LiteralString) -> Statement:
    text: LiteralString = (
        """
    SELECT PackInstallId, Namespace, SourceLane, COUNT(*) AS Found, MIN(WorkId) AS WorkId
      FROM ("""
        + "\n             UNION ALL".join([sample.replace("{state}", state) for state in _STATES])
        + """) AS sampled
     WHERE SourceLane IS NOT NULL
     GROUP BY PackInstallId, Namespace, SourceLane
     ORDER BY Found DESC, WorkId
     LIMIT %(lanes)s
    """
    )
    return Statement(name=name, text=text, returns=Returns.ROWS)


LIST_SAMPLED_LANES = _lanes("LIST_SAMPLED_LANES", _SAMPLE)
LIST_SAMPLED_LANES_OF_NAMESPACE = _lanes("LIST_SAMPLED_LANES_OF_NAMESPACE", _SAMPLE_OF_NAMESPACE)

_FIRST_IN_STATE: Final = """
           (SELECT p.WorkId FROM _System_ConnectorWorkItem AS p FORCE INDEX (IX_WorkItem_LanePosition)
             WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = '{state}'
               AND p.PackInstallId = w.PackInstallId
             ORDER BY p.LanePosition LIMIT 1) AS {state}"""

# Of each state the first one; which of them is the head their positions tell.
LIST_FIRST_OF_LANES = Statement(
    name="LIST_FIRST_OF_LANES",
    text="""
    SELECT w.WorkId,"""
    + ",".join([_FIRST_IN_STATE.replace("{state}", state) for state in _STATES])
    + """
      FROM _System_ConnectorWorkItem AS w FORCE INDEX (PRIMARY)
     WHERE w.WorkId IN %(work_ids)s
    """,
    returns=Returns.ROWS,
)

LIST_LANE_ITEMS = Statement(
    name="LIST_LANE_ITEMS",
    text="""
    SELECT WorkId, EventKind, TargetLane, LanePosition, State, RunAfter, Attempt, MaxAttempts, BlockedOn, BlockedSince,
           TerminalAt
      FROM _System_ConnectorWorkItem FORCE INDEX (PRIMARY)
     WHERE WorkId IN %(work_ids)s
    """,
    returns=Returns.ROWS,
)
