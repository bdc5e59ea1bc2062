"""Lock-free statements of the dead-letter list, of the search and of single rows.

A part of a list reads at most `<stream>_window` keys from its index and only then joins and filters, so that a filter
that nothing matches cannot walk the whole history. It tells two more things in rows of their own, which hold a key and
nothing else: `<stream>.last` is the last key of a window that was full, `<stream>.undated` is there when a list that
goes down has undated rows below it. The statements on undated rows are called `*_UNDATED_*`.
"""

from __future__ import annotations

from typing import Final

from integration.storage.sql.dead_streams import (
    EVENT_COLUMNS,
    EVENT_CONTEXT,
    EVENT_FILTERS,
    KEY_COLUMNS,
    UNDATED,
    WINDOWS,
    WORK_COLUMNS,
    WORK_CONTEXT,
    WORK_FILTERS,
    matching_rows,
    window_keys,
)
from integration.storage.statements import Returns, Statement


def _list(
    name: str, *, by_namespace: bool, older: bool, has_work_items: bool = True, is_dated: bool = True
) -> Statement:
    order = "DESC" if older else "ASC"
    streams = "dle" if has_work_items else "e"
    window = WINDOWS[is_dated, older]
    parts = []
    for stream in streams:
        columns = f"'{stream}' AS Stream, {EVENT_COLUMNS if stream == 'e' else WORK_COLUMNS}"
        keys = window_keys(stream, window, by_namespace=by_namespace)
        text = matching_rows(columns, stream, keys, has_work_items=has_work_items)
        parts.append(f"({text} ORDER BY s.TerminalAt {order}, s.Id {order} LIMIT %({stream}_limit)s)")
    told = {"last": window.replace("LIMIT %(#_window)s", "LIMIT %(#_last)s, 1")}
    if is_dated and older:
        told["undated"] = UNDATED
    for what, text in told.items():
        parts += [
            f"(SELECT '{stream}.{what}' AS Stream, {KEY_COLUMNS}"
            f" FROM ({window_keys(stream, text, by_namespace=by_namespace)}) AS s)"
            for stream in streams
        ]
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


LIST_DEAD_OLDER = _list("LIST_DEAD_OLDER", by_namespace=False, older=True)
LIST_DEAD_NEWER = _list("LIST_DEAD_NEWER", by_namespace=False, older=False)
LIST_DEAD_IN_NAMESPACE_OLDER = _list("LIST_DEAD_IN_NAMESPACE_OLDER", by_namespace=True, older=True)
LIST_DEAD_IN_NAMESPACE_NEWER = _list("LIST_DEAD_IN_NAMESPACE_NEWER", by_namespace=True, older=False)
LIST_EVENT_DEAD_OLDER = _list("LIST_EVENT_DEAD_OLDER", by_namespace=False, older=True, has_work_items=False)
LIST_EVENT_DEAD_NEWER = _list("LIST_EVENT_DEAD_NEWER", by_namespace=False, older=False, has_work_items=False)
LIST_EVENT_DEAD_IN_NAMESPACE_OLDER = _list(
    "LIST_EVENT_DEAD_IN_NAMESPACE_OLDER", by_namespace=True, older=True, has_work_items=False
)
LIST_EVENT_DEAD_IN_NAMESPACE_NEWER = _list(
    "LIST_EVENT_DEAD_IN_NAMESPACE_NEWER", by_namespace=True, older=False, has_work_items=False
)
LIST_UNDATED_OLDER = _list("LIST_UNDATED_OLDER", by_namespace=False, older=True, is_dated=False)
LIST_UNDATED_NEWER = _list("LIST_UNDATED_NEWER", by_namespace=False, older=False, is_dated=False)
LIST_UNDATED_IN_NAMESPACE_OLDER = _list(
    "LIST_UNDATED_IN_NAMESPACE_OLDER", by_namespace=True, older=True, is_dated=False
)
LIST_UNDATED_IN_NAMESPACE_NEWER = _list(
    "LIST_UNDATED_IN_NAMESPACE_NEWER", by_namespace=True, older=False, is_dated=False
)
LIST_EVENT_UNDATED_OLDER = _list(
    "LIST_EVENT_UNDATED_OLDER", by_namespace=False, older=True, has_work_items=False, is_dated=False
)
LIST_EVENT_UNDATED_NEWER = _list(
    "LIST_EVENT_UNDATED_NEWER", by_namespace=False, older=False, has_work_items=False, is_dated=False
)
LIST_EVENT_UNDATED_IN_NAMESPACE_OLDER = _list(
    "LIST_EVENT_UNDATED_IN_NAMESPACE_OLDER", by_namespace=True, older=True, has_work_items=False, is_dated=False
)
LIST_EVENT_UNDATED_IN_NAMESPACE_NEWER = _list(
    "LIST_EVENT_UNDATED_IN_NAMESPACE_NEWER", by_namespace=True, older=False, has_work_items=False, is_dated=False
)
#: The search's rows: by Event, whatever their age.
LIST_DEAD_WORK_OF_EVENTS = Statement(
    name="LIST_DEAD_WORK_OF_EVENTS",
    text=f"""
    SELECT CASE WHEN w.State = 'dead' THEN 'd' ELSE 'l' END AS Stream, {WORK_COLUMNS}
      FROM _System_ConnectorWorkItem AS w {WORK_CONTEXT}
     WHERE w.EventId IN %(event_ids)s
       AND ((w.State = 'dead' AND w.Attempt > 0) OR (w.State = 'reconciled_legacy_terminal' AND o.Outcome = 'dead'))
       AND ((w.TerminalAt >= %(died_after)s AND w.TerminalAt < %(died_before)s)
            OR (w.TerminalAt IS NULL AND %(is_any_time)s))
       AND (%(namespace)s IS NULL OR w.Namespace = %(namespace)s){WORK_FILTERS}
     ORDER BY w.TerminalAt DESC, w.WorkId DESC
    """,
    returns=Returns.ROWS,
)
LIST_DEAD_EVENTS_OF_EVENTS = Statement(
    name="LIST_DEAD_EVENTS_OF_EVENTS",
    text=f"""
    SELECT 'e' AS Stream, {EVENT_COLUMNS}
      FROM _System_ConnectorEvent AS e {EVENT_CONTEXT}
     WHERE e.EventId IN %(event_ids)s AND e.Status = 'dead'
       AND ((e.TerminalAt >= %(died_after)s AND e.TerminalAt < %(died_before)s)
            OR (e.TerminalAt IS NULL AND %(is_any_time)s))
       AND (%(namespace)s IS NULL OR e.Namespace = %(namespace)s){EVENT_FILTERS}
     ORDER BY e.TerminalAt DESC, e.EventId DESC
    """,
    returns=Returns.ROWS,
)
#: The key is unique within a namespace and kind: one lookup for each pair that a route was ever made for.
FIND_EVENTS_BY_KEY = Statement(
    name="FIND_EVENTS_BY_KEY",
    text="""
    SELECT /*+ INL_JOIN(e) */ STRAIGHT_JOIN e.EventId
      FROM (SELECT DISTINCT p.Namespace, r.EventKind
              FROM _System_ConnectorRoute AS r
              JOIN _System_ConnectorPackInstall AS p ON p.PackInstallId = r.PackInstallId
             WHERE (%(namespace)s IS NULL OR p.Namespace = %(namespace)s)
               AND (%(event_kind)s IS NULL OR r.EventKind = %(event_kind)s)) AS s
      JOIN _System_ConnectorEvent AS e FORCE INDEX (UX_Event_Idempotency)
        ON e.Namespace = s.Namespace AND e.EventKind = s.EventKind AND e.IdempotencyKey = %(idempotency_key)s
     ORDER BY e.EventId
     LIMIT 50
    """,
    returns=Returns.ROWS,
)


def _find_by_prefix(name: str, parts: tuple[tuple[str, str, str, str], ...]) -> Statement:
    """Return the search by the first characters of an id: at most a window of each index, and whether it was full."""
    texts = []
    for columns, source, id_column, rule in parts:
        keys = (
            f"SELECT {columns} FROM {source} WHERE {id_column} >= %(first_id)s AND {id_column} <= %(last_id)s"
            f" ORDER BY {id_column}"
        )
        texts += [
            f"(SELECT 'found' AS What, s.EventId FROM ({keys} LIMIT %(window)s) AS s"
            f" WHERE {rule} AND {id_column.replace('k.', 's.')} LIKE %(ending)s"
            f" AND (%(namespace)s IS NULL OR s.Namespace = %(namespace)s) LIMIT %(limit)s)",
            f"(SELECT 'more' AS What, s.EventId FROM ({keys} LIMIT %(last)s, 1) AS s)",
        ]
    return Statement(name=name, text=" UNION ALL ".join(texts), returns=Returns.ROWS)


_DEAD_WORK: Final = "s.State IN ('dead', 'reconciled_legacy_terminal')"
_BY_WORK_ID: Final = (
    "k.WorkId, k.EventId, k.State, k.Namespace",
    "_System_ConnectorWorkItem AS k FORCE INDEX (PRIMARY)",
    "k.WorkId",
    _DEAD_WORK,
)
_BY_EVENT_OF_WORK: Final = (
    "k.EventId, k.State, k.Namespace",
    "_System_ConnectorWorkItem AS k FORCE INDEX (UX_WorkItem_Event)",
    "k.EventId",
    _DEAD_WORK,
)
_BY_EVENT_ID: Final = (
    "k.EventId, k.Status, k.Namespace",
    "_System_ConnectorEvent AS k FORCE INDEX (PRIMARY)",
    "k.EventId",
    "s.Status = 'dead'",
)
FIND_DEAD_BY_PREFIX = _find_by_prefix("FIND_DEAD_BY_PREFIX", (_BY_WORK_ID, _BY_EVENT_OF_WORK, _BY_EVENT_ID))
FIND_EVENT_DEAD_BY_PREFIX = _find_by_prefix("FIND_EVENT_DEAD_BY_PREFIX", (_BY_EVENT_ID,))
READ_WORK_ROW = Statement(
    name="READ_WORK_ROW",
    text=f"""
    SELECT 'd' AS Stream, {WORK_COLUMNS}, w.RouteId, w.RunAfter, w.CancelRequestedAt, w.CreatedAt
      FROM _System_ConnectorWorkItem AS w {WORK_CONTEXT}
     WHERE w.WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)
READ_EVENT_ROW = Statement(
    name="READ_EVENT_ROW",
    text=f"""
    SELECT 'e' AS Stream, {EVENT_COLUMNS}, e.RouteId
      FROM _System_ConnectorEvent AS e {EVENT_CONTEXT}
     WHERE e.EventId = %(event_id)s
    """,
    returns=Returns.ROW,
)
READ_INPUT_START = Statement(
    name="READ_INPUT_START",
    text="SELECT InputStartOrdinal FROM _System_ConnectorWorkItem WHERE WorkId = %(work_id)s",
    returns=Returns.ROW,
)
LIST_CANDIDATES_OF_EVENTS = Statement(
    name="LIST_CANDIDATES_OF_EVENTS",
    text="""
    SELECT EventId, WorkId, WorkType, State, Attempt, MaxAttempts, ReplayOfWorkId,
           CASE WHEN ProjectionKey IS NULL THEN 'per_event' ELSE 'source_projection' END AS ExecutionClass
      FROM _System_ConnectorWorkItem
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId, WorkId
    """,
    returns=Returns.ROWS,
)
