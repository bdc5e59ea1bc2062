"""Lock-free statements that group dead letters: the newest rows of a window, at most so many of each owner.

An Event is counted under its owner alone: one that a WorkItem has taken over is not the Event executor's any more.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import Returns, Statement

_WORK: Final = """
              FROM _System_ConnectorWorkItem AS k FORCE INDEX ({index})
             WHERE k.State = 'dead' AND k.Attempt > 0{namespace}"""
_EVENTS: Final = """
              FROM _System_ConnectorEvent AS k FORCE INDEX ({index})
             WHERE k.Status = 'dead' AND k.ExecutionOwner = 'event'{namespace}"""
_GROUP: Final = """
    SELECT Namespace, PackInstallId, EventKind, WorkType, Slot, COUNT(*) AS Found, SUM(ReplayedAt IS NULL) AS Waiting,
           MIN(TerminalAt) AS FirstAt, MAX(TerminalAt) AS LastAt
      FROM (SELECT k.Namespace, k.PackInstallId, k.EventKind, k.WorkType, k.TerminalAt, k.ReplayedAt,
                   TIMESTAMPDIFF(SECOND, %(start)s, k.TerminalAt) DIV %(slot_seconds)s AS Slot{source}
               AND k.TerminalAt >= %(start)s AND k.TerminalAt < %(end)s
             ORDER BY k.TerminalAt DESC, k.{id} DESC
             LIMIT %(window)s) AS newest
     GROUP BY Namespace, PackInstallId, EventKind, WorkType, Slot
    """


def _group(name: str, source: LiteralString, *, index: LiteralString, id_column: LiteralString) -> Statement:
    by_namespace: LiteralString = " AND k.Namespace = %(namespace)s" if name.endswith("_IN_NAMESPACE") else ""
    text = (
        _GROUP.replace("{source}", source)
        .replace("{index}", index)
        .replace("{namespace}", by_namespace)
        .replace("{id}", id_column)
    )
    return Statement(name=name, text=text, returns=Returns.ROWS)


GROUP_DEAD_WORK = _group("GROUP_DEAD_WORK", _WORK, index="IX_WorkItem_Dead", id_column="WorkId")
GROUP_DEAD_WORK_IN_NAMESPACE = _group(
    "GROUP_DEAD_WORK_IN_NAMESPACE", _WORK, index="IX_WorkItem_DeadByNamespace", id_column="WorkId"
)
GROUP_DEAD_EVENTS = _group("GROUP_DEAD_EVENTS", _EVENTS, index="IX_Event_Dead", id_column="EventId")
GROUP_DEAD_EVENTS_IN_NAMESPACE = _group(
    "GROUP_DEAD_EVENTS_IN_NAMESPACE", _EVENTS, index="IX_Event_DeadByNamespace", id_column="EventId"
)
