"""Lock-free statements of the dead-letter list: two owners' dead rows, each a keyset range of its own index.

A part reads at most `<stream>_window` keys from its index and only then joins and filters, so that a filter
that nothing matches cannot walk the whole history. Streams: `d` WorkItem rows that died, `l` WorkItem rows that a
legacy outcome ended, `e` Event rows under the Event executor. A database without the additive columns has the third
only. Rows whose writer left no terminal time have statements of their own, `*_UNDATED_*`: they end the list, by id.

A list tells two more things in rows of their own, which hold a key and nothing else: `<stream>.last` is the last key
of a window that was full, `<stream>.undated` is there when a list that goes down has undated rows below it.

None of them reads a payload, a token, a worker's name or a failure text.
"""

from __future__ import annotations

from typing import Final

from integration.storage.statements import Returns, Statement

_WORK_COLUMNS: Final = """
       w.WorkId, w.EventId, w.State, w.WorkType, w.OrgId, w.Namespace, w.PackInstallId, p.PackName, p.PackVersion,
       p.Incarnation, e.Provider, w.EventKind, w.RouteVersion,
       CASE WHEN w.ProjectionKey IS NULL THEN 'per_event' ELSE 'source_projection' END AS ExecutionClass,
       w.SourceLane, w.TargetLane, w.LaneOrdinal, w.Attempt, w.MaxAttempts, w.FailureCount, w.FirstFailedAt,
       w.LastFailedAt, w.TerminalAt, w.ReplayedAt, w.ReplayOfWorkId, e.ReplayOfEventId, e.IdempotencyKey,
       e.DeliveryId, e.DeliverySequence, e.OccurredAt, e.ReceivedAt, o.Outcome AS LegacyOutcome"""
# TiDB mixes no literal with a column of another collation in a UNION (1271): both parts write literals.
_EVENT_COLUMNS: Final = """
       NULL AS WorkId, e.EventId, e.Status AS State, e.WorkType, e.OrgId, e.Namespace, e.PackInstallId, p.PackName,
       p.PackVersion, p.Incarnation, e.Provider, e.EventKind, e.RouteVersion,
       CASE t.ExecutionClass WHEN 'per_event' THEN 'per_event' WHEN 'source_projection' THEN 'source_projection' END
           AS ExecutionClass,
       e.SourceLane, e.TargetLane, e.LaneOrdinal, e.RetryCount AS Attempt, NULL AS MaxAttempts,
       e.RetryCount AS FailureCount,
       NULL AS FirstFailedAt, NULL AS LastFailedAt, e.TerminalAt, e.ReplayedAt, NULL AS ReplayOfWorkId,
       e.ReplayOfEventId, e.IdempotencyKey, e.DeliveryId, e.DeliverySequence, e.OccurredAt, e.ReceivedAt,
       NULL AS LegacyOutcome"""
#: A key in the place of a row: what a list tells of its windows besides its rows.
_KEY_COLUMNS: Final = """
       s.Id AS WorkId, NULL AS EventId, NULL AS State, NULL AS WorkType, NULL AS OrgId, NULL AS Namespace,
       NULL AS PackInstallId, NULL AS PackName, NULL AS PackVersion, NULL AS Incarnation, NULL AS Provider,
       NULL AS EventKind, NULL AS RouteVersion, NULL AS ExecutionClass, NULL AS SourceLane, NULL AS TargetLane,
       NULL AS LaneOrdinal, NULL AS Attempt, NULL AS MaxAttempts, NULL AS FailureCount, NULL AS FirstFailedAt,
       NULL AS LastFailedAt, s.TerminalAt, NULL AS ReplayedAt, NULL AS ReplayOfWorkId, NULL AS ReplayOfEventId,
       NULL AS IdempotencyKey, NULL AS DeliveryId, NULL AS DeliverySequence, NULL AS OccurredAt, NULL AS ReceivedAt,
       NULL AS LegacyOutcome"""
_EVENT_OF_WORK: Final = """
       JOIN _System_ConnectorEvent AS e ON e.EventId = w.EventId"""
_PACK_OF_WORK: Final = """
       LEFT JOIN _System_ConnectorPackInstall AS p ON p.PackInstallId = w.PackInstallId"""
_OUTCOME_OF_WORK: Final = """
       LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o ON o.EventId = w.EventId AND o.WorkType = w.WorkType"""
_WORK_CONTEXT: Final = f"{_EVENT_OF_WORK}{_PACK_OF_WORK}{_OUTCOME_OF_WORK}"
_EVENT_CONTEXT: Final = """
       LEFT JOIN _System_ConnectorPackInstall AS p ON p.PackInstallId = e.PackInstallId
       LEFT JOIN _System_ConnectorRoute AS t ON t.RouteId = e.RouteId"""
_PROVIDER_FILTER: Final = """
       AND (%(provider)s IS NULL OR e.Provider = %(provider)s)"""
_OWN_FILTERS: Final = """
       AND (%(org)s IS NULL OR w.OrgId = %(org)s)
       AND (%(pack_name)s IS NULL OR p.PackName = %(pack_name)s)
       AND (%(pack_install_id)s IS NULL OR w.PackInstallId = %(pack_install_id)s)
       AND (%(event_kind)s IS NULL OR w.EventKind = %(event_kind)s)
       AND (%(work_type)s IS NULL OR w.WorkType = %(work_type)s)
       AND (%(source_lane)s IS NULL OR w.SourceLane = %(source_lane)s)
       AND (%(execution_class)s IS NULL
            OR (%(execution_class)s = 'source_projection') = (w.ProjectionKey IS NOT NULL))
       AND (%(min_attempts)s IS NULL OR w.Attempt >= %(min_attempts)s)
       AND (%(max_attempts)s IS NULL OR w.Attempt <= %(max_attempts)s)
       AND (%(replayed)s IS NULL OR (w.ReplayedAt IS NOT NULL) = %(replayed)s)"""
_WORK_FILTERS: Final = f"{_OWN_FILTERS}{_PROVIDER_FILTER}"
_EVENT_FILTERS: Final = """
       AND (%(org)s IS NULL OR e.OrgId = %(org)s)
       AND (%(pack_name)s IS NULL OR p.PackName = %(pack_name)s)
       AND (%(pack_install_id)s IS NULL OR e.PackInstallId = %(pack_install_id)s)
       AND (%(provider)s IS NULL OR e.Provider = %(provider)s)
       AND (%(event_kind)s IS NULL OR e.EventKind = %(event_kind)s)
       AND (%(work_type)s IS NULL OR e.WorkType = %(work_type)s)
       AND (%(source_lane)s IS NULL OR e.SourceLane = %(source_lane)s)
       AND (%(execution_class)s IS NULL OR t.ExecutionClass = %(execution_class)s)
       AND (%(min_attempts)s IS NULL OR e.RetryCount >= %(min_attempts)s)
       AND (%(max_attempts)s IS NULL OR e.RetryCount <= %(max_attempts)s)
       AND (%(replayed)s IS NULL OR (e.ReplayedAt IS NOT NULL) = %(replayed)s)"""
#: The gate's first rule, and the rows that a rollback's legacy outcome ended.
_NOT_WORK_ITEM_OWNED: Final = """
       AND NOT EXISTS (SELECT 1 FROM _System_ConnectorWorkItem AS m
                        WHERE m.EventId = e.EventId AND (m.Attempt > 0 OR m.State = 'reconciled_legacy_terminal'))"""
#: The same as a join that keeps its order: MariaDB would rather read the whole table once for a large window.
_OWNING_WORK_ITEM: Final = """
       LEFT JOIN _System_ConnectorWorkItem AS m
         ON m.EventId = e.EventId AND (m.Attempt > 0 OR m.State = 'reconciled_legacy_terminal')"""
_WORK_KEYS: Final = """SELECT k.WorkId AS Id, k.TerminalAt
                         FROM _System_ConnectorWorkItem AS k FORCE INDEX (IX_WorkItem_Dead)
                        WHERE k.State = '#state'"""
_WORK_KEYS_BY_NAMESPACE: Final = """SELECT k.WorkId AS Id, k.TerminalAt
                         FROM _System_ConnectorWorkItem AS k FORCE INDEX (IX_WorkItem_DeadByNamespace)
                        WHERE k.Namespace = %(namespace)s AND k.State = '#state'"""
_EVENT_KEYS: Final = """SELECT k.EventId AS Id, k.TerminalAt
                         FROM _System_ConnectorEvent AS k FORCE INDEX (IX_Event_Dead)
                        WHERE k.Status = '#state'"""
_EVENT_KEYS_BY_NAMESPACE: Final = """SELECT k.EventId AS Id, k.TerminalAt
                         FROM _System_ConnectorEvent AS k FORCE INDEX (IX_Event_DeadByNamespace)
                        WHERE k.Namespace = %(namespace)s AND k.Status = '#state'"""
# Split predicates: a row constructor, or the second half alone, makes both engines read the whole state. The second
# half need not say "at the same time" again, and must not: TiDB would read two ranges, and a descending scan of two
# ranges gives rows twice inside a transaction that has written.
_OLDER: Final = """
                          AND k.TerminalAt <= %(#_upper_at)s
                          AND (k.TerminalAt < %(#_upper_at)s OR #id < %(#_upper_id)s)
                          AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s
                        ORDER BY k.TerminalAt DESC, #id DESC
                        LIMIT %(#_window)s"""
_NEWER: Final = """
                          AND k.TerminalAt >= %(#_lower_at)s
                          AND (k.TerminalAt > %(#_lower_at)s OR #id > %(#_lower_id)s)
                          AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s
                        ORDER BY k.TerminalAt, #id
                        LIMIT %(#_window)s"""
_UNDATED_OLDER: Final = """
                          AND k.TerminalAt IS NULL AND #id < %(#_upper_id)s
                        ORDER BY #id DESC
                        LIMIT %(#_window)s"""
_UNDATED_NEWER: Final = """
                          AND k.TerminalAt IS NULL AND #id > %(#_lower_id)s
                        ORDER BY #id
                        LIMIT %(#_window)s"""
#: Whether there is any.
_UNDATED: Final = """
                          AND k.TerminalAt IS NULL
                        LIMIT 1"""
_WINDOWS: Final = {
    (True, True): _OLDER,
    (True, False): _NEWER,
    (False, True): _UNDATED_OLDER,
    (False, False): _UNDATED_NEWER,
}
_STATES: Final = {"d": "dead", "l": "reconciled_legacy_terminal", "e": "dead"}
_STREAM_RULES: Final = {"d": "w.Attempt > 0", "l": "o.Outcome = 'dead'"}


def _keys(stream: str, window: str, *, by_namespace: bool) -> str:
    """Return the text that reads one window of a stream's index."""
    if stream == "e":
        head, id_column = (_EVENT_KEYS_BY_NAMESPACE if by_namespace else _EVENT_KEYS), "k.EventId"
    else:
        head, id_column = (_WORK_KEYS_BY_NAMESPACE if by_namespace else _WORK_KEYS), "k.WorkId"
    text = head.replace("#state", _STATES[stream]) + window.replace("#id", id_column)
    return text.replace("#", stream)


def _matches(columns: str, stream: str, keys: str, *, has_work_items: bool, is_whole: bool = True) -> str:
    """Return the text that joins a window's rows and filters them; if not whole, without the Events of WorkItems."""
    # The window is small and the rest is by primary key: neither engine may turn the join round.
    tables = "e, p, t, o, m" if stream == "e" else "w, e, p, t, o, m" if is_whole else "w, p, o"
    hint = f"SELECT /*+ INL_JOIN({tables}) */ STRAIGHT_JOIN"
    if stream == "e":
        join, gate = (_OWNING_WORK_ITEM, " AND m.WorkId IS NULL") if has_work_items else ("", "")
        return (
            f"{hint} {columns} FROM ({keys}) AS s JOIN _System_ConnectorEvent AS e ON e.EventId = s.Id"
            f"{_EVENT_CONTEXT}{join} WHERE e.Status = 'dead'{gate}{_EVENT_FILTERS}"
        )
    context, filters = _WORK_CONTEXT, _WORK_FILTERS
    if not is_whole:
        context = _PACK_OF_WORK + (_OUTCOME_OF_WORK if stream == "l" else "")
        filters = _OWN_FILTERS
    return (
        f"{hint} {columns} FROM ({keys}) AS s JOIN _System_ConnectorWorkItem AS w ON w.WorkId = s.Id"
        f"{context} WHERE w.State = '{_STATES[stream]}' AND {_STREAM_RULES[stream]}{filters}"
    )


def _list(
    name: str, *, by_namespace: bool, older: bool, has_work_items: bool = True, is_dated: bool = True
) -> Statement:
    order = "DESC" if older else "ASC"
    streams = "dle" if has_work_items else "e"
    window = _WINDOWS[is_dated, older]
    parts = []
    for stream in streams:
        columns = f"'{stream}' AS Stream, {_EVENT_COLUMNS if stream == 'e' else _WORK_COLUMNS}"
        keys = _keys(stream, window, by_namespace=by_namespace)
        text = _matches(columns, stream, keys, has_work_items=has_work_items)
        parts.append(f"({text} ORDER BY s.TerminalAt {order}, s.Id {order} LIMIT %({stream}_limit)s)")
    told = {"last": window.replace("LIMIT %(#_window)s", "LIMIT %(#_last)s, 1")}
    if is_dated and older:
        told["undated"] = _UNDATED
    for what, text in told.items():
        parts += [
            f"(SELECT '{stream}.{what}' AS Stream, {_KEY_COLUMNS}"
            f" FROM ({_keys(stream, text, by_namespace=by_namespace)}) AS s)"
            for stream in streams
        ]
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


def _count(
    name: str,
    *,
    by_namespace: bool,
    has_work_items: bool = True,
    is_dated: bool = True,
    by_provider: bool = True,
) -> Statement:
    """Return the count of what a filter matches; only a provider's is asked of the Events, which cost half of it."""
    parts = []
    for stream in "dle" if has_work_items else "e":
        keys = _keys(stream, _WINDOWS[is_dated, True], by_namespace=by_namespace)
        found = _matches("1 AS One", stream, keys, has_work_items=has_work_items, is_whole=by_provider)
        parts.append(
            f"(SELECT '{stream}' AS Stream, f.Found, s.Seen"
            f" FROM (SELECT COUNT(*) AS Found FROM ({found} LIMIT %({stream}_limit)s) AS a) AS f"
            f" CROSS JOIN (SELECT COUNT(*) AS Seen FROM ({keys}) AS b) AS s)"
        )
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


def _count_all(name: str, *, by_namespace: bool, has_work_items: bool = True) -> Statement:
    """Return the count that no filter narrows: one pass over a window; what died is decided by its index alone."""
    work_keys, event_keys = (
        (_WORK_KEYS_BY_NAMESPACE, _EVENT_KEYS_BY_NAMESPACE) if by_namespace else (_WORK_KEYS, _EVENT_KEYS)
    )
    parts = []
    for stream in "dle" if has_work_items else "e":
        head = event_keys if stream == "e" else work_keys
        if stream == "d":
            head = head.replace("k.WorkId AS Id, k.TerminalAt", "k.Attempt")
            hint, found, rest = "SELECT", "s.Attempt > 0", ""
        elif stream == "l":
            hint, found = "SELECT /*+ INL_JOIN(w, o) */ STRAIGHT_JOIN", _STREAM_RULES[stream]
            rest = (
                " JOIN _System_ConnectorWorkItem AS w ON w.WorkId = s.Id"
                " LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o"
                " ON o.EventId = w.EventId AND o.WorkType = w.WorkType"
            )
        else:
            hint = "SELECT /*+ INL_JOIN(e) */ STRAIGHT_JOIN"
            found = f"e.Status = 'dead'{_NOT_WORK_ITEM_OWNED if has_work_items else ''}"
            rest = " JOIN _System_ConnectorEvent AS e ON e.EventId = s.Id"
        keys = (
            f"{head.replace('#state', _STATES[stream])}"
            " AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s"
            f" LIMIT %({stream}_window)s"
        )
        parts.append(
            f"({hint} '{stream}' AS Stream, COALESCE(SUM({found}), 0) AS Found, COUNT(*) AS Seen"
            f" FROM ({keys}) AS s{rest})"
        )
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


LIST_DEAD_OLDER = _list("LIST_DEAD_OLDER", by_namespace=False, older=True)
LIST_DEAD_NEWER = _list("LIST_DEAD_NEWER", by_namespace=False, older=False)
LIST_DEAD_IN_NAMESPACE_OLDER = _list("LIST_DEAD_IN_NAMESPACE_OLDER", by_namespace=True, older=True)
LIST_DEAD_IN_NAMESPACE_NEWER = _list("LIST_DEAD_IN_NAMESPACE_NEWER", by_namespace=True, older=False)
COUNT_DEAD = _count("COUNT_DEAD", by_namespace=False, by_provider=False)
COUNT_DEAD_IN_NAMESPACE = _count("COUNT_DEAD_IN_NAMESPACE", by_namespace=True, by_provider=False)
COUNT_DEAD_OF_PROVIDER = _count("COUNT_DEAD_OF_PROVIDER", by_namespace=False)
COUNT_DEAD_OF_PROVIDER_IN_NAMESPACE = _count("COUNT_DEAD_OF_PROVIDER_IN_NAMESPACE", by_namespace=True)
COUNT_ALL_DEAD = _count_all("COUNT_ALL_DEAD", by_namespace=False)
COUNT_ALL_DEAD_IN_NAMESPACE = _count_all("COUNT_ALL_DEAD_IN_NAMESPACE", by_namespace=True)

LIST_EVENT_DEAD_OLDER = _list("LIST_EVENT_DEAD_OLDER", by_namespace=False, older=True, has_work_items=False)
LIST_EVENT_DEAD_NEWER = _list("LIST_EVENT_DEAD_NEWER", by_namespace=False, older=False, has_work_items=False)
LIST_EVENT_DEAD_IN_NAMESPACE_OLDER = _list(
    "LIST_EVENT_DEAD_IN_NAMESPACE_OLDER", by_namespace=True, older=True, has_work_items=False
)
LIST_EVENT_DEAD_IN_NAMESPACE_NEWER = _list(
    "LIST_EVENT_DEAD_IN_NAMESPACE_NEWER", by_namespace=True, older=False, has_work_items=False
)
COUNT_EVENT_DEAD = _count("COUNT_EVENT_DEAD", by_namespace=False, has_work_items=False)
COUNT_EVENT_DEAD_IN_NAMESPACE = _count("COUNT_EVENT_DEAD_IN_NAMESPACE", by_namespace=True, has_work_items=False)
COUNT_ALL_EVENT_DEAD = _count_all("COUNT_ALL_EVENT_DEAD", by_namespace=False, has_work_items=False)
COUNT_ALL_EVENT_DEAD_IN_NAMESPACE = _count_all(
    "COUNT_ALL_EVENT_DEAD_IN_NAMESPACE", by_namespace=True, has_work_items=False
)

LIST_UNDATED_OLDER = _list("LIST_UNDATED_OLDER", by_namespace=False, older=True, is_dated=False)
LIST_UNDATED_NEWER = _list("LIST_UNDATED_NEWER", by_namespace=False, older=False, is_dated=False)
LIST_UNDATED_IN_NAMESPACE_OLDER = _list(
    "LIST_UNDATED_IN_NAMESPACE_OLDER", by_namespace=True, older=True, is_dated=False
)
LIST_UNDATED_IN_NAMESPACE_NEWER = _list(
    "LIST_UNDATED_IN_NAMESPACE_NEWER", by_namespace=True, older=False, is_dated=False
)
COUNT_UNDATED = _count("COUNT_UNDATED", by_namespace=False, is_dated=False)
COUNT_UNDATED_IN_NAMESPACE = _count("COUNT_UNDATED_IN_NAMESPACE", by_namespace=True, is_dated=False)

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
COUNT_EVENT_UNDATED = _count("COUNT_EVENT_UNDATED", by_namespace=False, has_work_items=False, is_dated=False)
COUNT_EVENT_UNDATED_IN_NAMESPACE = _count(
    "COUNT_EVENT_UNDATED_IN_NAMESPACE", by_namespace=True, has_work_items=False, is_dated=False
)

#: The search's rows: by Event, whatever their age.
LIST_DEAD_WORK_OF_EVENTS = Statement(
    name="LIST_DEAD_WORK_OF_EVENTS",
    text=f"""
    SELECT CASE WHEN w.State = 'dead' THEN 'd' ELSE 'l' END AS Stream, {_WORK_COLUMNS}
      FROM _System_ConnectorWorkItem AS w {_WORK_CONTEXT}
     WHERE w.EventId IN %(event_ids)s
       AND ((w.State = 'dead' AND w.Attempt > 0) OR (w.State = 'reconciled_legacy_terminal' AND o.Outcome = 'dead'))
       AND ((w.TerminalAt >= %(died_after)s AND w.TerminalAt < %(died_before)s)
            OR (w.TerminalAt IS NULL AND %(is_any_time)s))
       AND (%(namespace)s IS NULL OR w.Namespace = %(namespace)s){_WORK_FILTERS}
     ORDER BY w.TerminalAt DESC, w.WorkId DESC
    """,
    returns=Returns.ROWS,
)
LIST_DEAD_EVENTS_OF_EVENTS = Statement(
    name="LIST_DEAD_EVENTS_OF_EVENTS",
    text=f"""
    SELECT 'e' AS Stream, {_EVENT_COLUMNS}
      FROM _System_ConnectorEvent AS e {_EVENT_CONTEXT}
     WHERE e.EventId IN %(event_ids)s AND e.Status = 'dead'
       AND ((e.TerminalAt >= %(died_after)s AND e.TerminalAt < %(died_before)s)
            OR (e.TerminalAt IS NULL AND %(is_any_time)s))
       AND (%(namespace)s IS NULL OR e.Namespace = %(namespace)s){_EVENT_FILTERS}
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
READ_WORK_ROW = Statement(
    name="READ_WORK_ROW",
    text=f"""
    SELECT 'd' AS Stream, {_WORK_COLUMNS}, w.RouteId, w.RunAfter, w.CancelRequestedAt, w.CreatedAt
      FROM _System_ConnectorWorkItem AS w {_WORK_CONTEXT}
     WHERE w.WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)
READ_EVENT_ROW = Statement(
    name="READ_EVENT_ROW",
    text=f"""
    SELECT 'e' AS Stream, {_EVENT_COLUMNS}, e.RouteId
      FROM _System_ConnectorEvent AS e {_EVENT_CONTEXT}
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
