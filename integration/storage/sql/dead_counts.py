"""Lock-free statements that count dead letters: at most `<stream>_window` rows of each stream are looked at."""

from __future__ import annotations

from integration.storage.sql.dead_streams import (
    EVENT_KEYS,
    EVENT_KEYS_BY_NAMESPACE,
    EVENT_OF_WORK,
    NOT_WORK_ITEM_OWNED,
    OUTCOME_OF_WORK,
    OWN_FILTERS,
    PACK_OF_WORK,
    STATES,
    STREAM_RULES,
    WINDOWS,
    WORK_FILTERS,
    WORK_KEYS,
    WORK_KEYS_BY_NAMESPACE,
    matching_rows,
    window_keys,
)
from integration.storage.statements import Returns, Statement


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
        keys = window_keys(stream, WINDOWS[is_dated, True], by_namespace=by_namespace)
        if stream == "e":
            # One Event may have two WorkItems that own it: what is seen is counted without them.
            found = matching_rows("1 AS One", stream, keys, has_work_items=has_work_items)
            parts.append(
                f"(SELECT '{stream}' AS Stream, f.Found, s.Seen, UTC_TIMESTAMP(6) AS Now"
                f" FROM (SELECT COUNT(*) AS Found FROM ({found} LIMIT %({stream}_limit)s) AS a) AS f"
                f" CROSS JOIN (SELECT COUNT(*) AS Seen FROM ({keys}) AS b) AS s)"
            )
        else:
            verdicts = _verdicts(stream, keys, by_provider=by_provider)
            parts.append(
                f"(SELECT '{stream}' AS Stream, COALESCE(SUM(s.IsMatch), 0) AS Found, COUNT(*) AS Seen,"
                f" UTC_TIMESTAMP(6) AS Now FROM ({verdicts}) AS s)"
            )
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


def _verdicts(stream: str, keys: str, *, by_provider: bool) -> str:
    """Return the text that says of each row of a window whether it matches.

    One pass: the window's index leads to the rows themselves, and every join finds at most one row, so that the
    window stays one.
    """
    source, where, window = keys.partition("WHERE")
    source = source.partition("FROM")[2].replace(" AS k ", " AS w ")
    joins, filters = (EVENT_OF_WORK.replace("JOIN", "LEFT JOIN"), WORK_FILTERS) if by_provider else ("", OWN_FILTERS)
    joins += PACK_OF_WORK + (OUTCOME_OF_WORK if stream == "l" else "")
    return (
        f"SELECT /*+ INL_JOIN(e, p, o) */ STRAIGHT_JOIN ({STREAM_RULES[stream]}{filters}) AS IsMatch"
        f" FROM{source}{joins} {where}{window.replace('k.', 'w.')}"
    )


def _count_all(name: str, *, by_namespace: bool, has_work_items: bool = True) -> Statement:
    """Return the count that no filter narrows: one pass over a window; what died is decided by its index alone."""
    work_keys, event_keys = (
        (WORK_KEYS_BY_NAMESPACE, EVENT_KEYS_BY_NAMESPACE) if by_namespace else (WORK_KEYS, EVENT_KEYS)
    )
    parts = []
    for stream in "dle" if has_work_items else "e":
        head = event_keys if stream == "e" else work_keys
        if stream == "d":
            head = head.replace("k.WorkId AS Id, k.TerminalAt", "k.Attempt")
            hint, found, rest = "SELECT", "s.Attempt > 0", ""
        elif stream == "l":
            hint, found = "SELECT /*+ INL_JOIN(w, o) */ STRAIGHT_JOIN", STREAM_RULES[stream]
            rest = (
                " JOIN _System_ConnectorWorkItem AS w ON w.WorkId = s.Id"
                " LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o"
                " ON o.EventId = w.EventId AND o.WorkType = w.WorkType"
            )
        else:
            hint = "SELECT /*+ INL_JOIN(e) */ STRAIGHT_JOIN"
            found = f"e.Status = 'dead'{NOT_WORK_ITEM_OWNED if has_work_items else ''}"
            rest = " JOIN _System_ConnectorEvent AS e ON e.EventId = s.Id"
        keys = (
            f"{head.replace('#state', STATES[stream])}"
            " AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s"
            f" LIMIT %({stream}_window)s"
        )
        parts.append(
            f"({hint} '{stream}' AS Stream, COALESCE(SUM({found}), 0) AS Found, COUNT(*) AS Seen,"
            f" UTC_TIMESTAMP(6) AS Now FROM ({keys}) AS s{rest})"
        )
    return Statement(name=name, text=" UNION ALL ".join(parts), returns=Returns.ROWS)


COUNT_DEAD = _count("COUNT_DEAD", by_namespace=False, by_provider=False)
COUNT_DEAD_IN_NAMESPACE = _count("COUNT_DEAD_IN_NAMESPACE", by_namespace=True, by_provider=False)
COUNT_DEAD_OF_PROVIDER = _count("COUNT_DEAD_OF_PROVIDER", by_namespace=False)
COUNT_DEAD_OF_PROVIDER_IN_NAMESPACE = _count("COUNT_DEAD_OF_PROVIDER_IN_NAMESPACE", by_namespace=True)
COUNT_ALL_DEAD = _count_all("COUNT_ALL_DEAD", by_namespace=False)
COUNT_ALL_DEAD_IN_NAMESPACE = _count_all("COUNT_ALL_DEAD_IN_NAMESPACE", by_namespace=True)

COUNT_EVENT_DEAD = _count("COUNT_EVENT_DEAD", by_namespace=False, has_work_items=False)
COUNT_EVENT_DEAD_IN_NAMESPACE = _count("COUNT_EVENT_DEAD_IN_NAMESPACE", by_namespace=True, has_work_items=False)
COUNT_ALL_EVENT_DEAD = _count_all("COUNT_ALL_EVENT_DEAD", by_namespace=False, has_work_items=False)
COUNT_ALL_EVENT_DEAD_IN_NAMESPACE = _count_all(
    "COUNT_ALL_EVENT_DEAD_IN_NAMESPACE", by_namespace=True, has_work_items=False
)

COUNT_UNDATED = _count("COUNT_UNDATED", by_namespace=False, is_dated=False)
COUNT_UNDATED_IN_NAMESPACE = _count("COUNT_UNDATED_IN_NAMESPACE", by_namespace=True, is_dated=False)

COUNT_EVENT_UNDATED = _count("COUNT_EVENT_UNDATED", by_namespace=False, has_work_items=False, is_dated=False)
COUNT_EVENT_UNDATED_IN_NAMESPACE = _count(
    "COUNT_EVENT_UNDATED_IN_NAMESPACE", by_namespace=True, has_work_items=False, is_dated=False
)
