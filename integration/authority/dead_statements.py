"""Which statement reads which dead rows, and with what values. Pure.

There are three streams in one order: dead WorkItems (`d`), WorkItems whose dead end the legacy executor decided (`l`),
and dead Events that have authority over their work (`e`).
"""

from __future__ import annotations

from typing import Any, Final

from integration.authority import details
from integration.authority.cursors import FAR_AHEAD, FIRST_UNDATED, LONG_AGO, UNDATED, Place
from integration.authority.listing import DeadFilters
from integration.authority.values import OwnerKind
from integration.storage.db import Row
from integration.storage.sql import dead_counts as counts
from integration.storage.sql import dead_letters as sql
from integration.storage.statements import Statement

_COUNTS: Final[dict[tuple[bool, bool, bool], Statement]] = {
    # Narrowed by a filter, with WorkItems, in one namespace.
    (True, True, False): counts.COUNT_DEAD,
    (True, True, True): counts.COUNT_DEAD_IN_NAMESPACE,
    (True, False, False): counts.COUNT_EVENT_DEAD,
    (True, False, True): counts.COUNT_EVENT_DEAD_IN_NAMESPACE,
    (False, True, False): counts.COUNT_ALL_DEAD,
    (False, True, True): counts.COUNT_ALL_DEAD_IN_NAMESPACE,
    (False, False, False): counts.COUNT_ALL_EVENT_DEAD,
    (False, False, True): counts.COUNT_ALL_EVENT_DEAD_IN_NAMESPACE,
}
#: The same where a provider narrows, by namespace.
_COUNTS_OF_PROVIDER: Final[dict[bool, Statement]] = {
    False: counts.COUNT_DEAD_OF_PROVIDER,
    True: counts.COUNT_DEAD_OF_PROVIDER_IN_NAMESPACE,
}
COUNTS_UNDATED: Final[dict[tuple[bool, bool], Statement]] = {
    (True, False): counts.COUNT_UNDATED,
    (True, True): counts.COUNT_UNDATED_IN_NAMESPACE,
    (False, False): counts.COUNT_EVENT_UNDATED,
    (False, True): counts.COUNT_EVENT_UNDATED_IN_NAMESPACE,
}
#: With WorkItems, in one namespace, towards older rows.
_LISTS: Final[dict[tuple[bool, bool, bool], Statement]] = {
    (True, False, True): sql.LIST_DEAD_OLDER,
    (True, False, False): sql.LIST_DEAD_NEWER,
    (True, True, True): sql.LIST_DEAD_IN_NAMESPACE_OLDER,
    (True, True, False): sql.LIST_DEAD_IN_NAMESPACE_NEWER,
    (False, False, True): sql.LIST_EVENT_DEAD_OLDER,
    (False, False, False): sql.LIST_EVENT_DEAD_NEWER,
    (False, True, True): sql.LIST_EVENT_DEAD_IN_NAMESPACE_OLDER,
    (False, True, False): sql.LIST_EVENT_DEAD_IN_NAMESPACE_NEWER,
}
_UNDATED_LISTS: Final[dict[tuple[bool, bool, bool], Statement]] = {
    (True, False, True): sql.LIST_UNDATED_OLDER,
    (True, False, False): sql.LIST_UNDATED_NEWER,
    (True, True, True): sql.LIST_UNDATED_IN_NAMESPACE_OLDER,
    (True, True, False): sql.LIST_UNDATED_IN_NAMESPACE_NEWER,
    (False, False, True): sql.LIST_EVENT_UNDATED_OLDER,
    (False, False, False): sql.LIST_EVENT_UNDATED_NEWER,
    (False, True, True): sql.LIST_EVENT_UNDATED_IN_NAMESPACE_OLDER,
    (False, True, False): sql.LIST_EVENT_UNDATED_IN_NAMESPACE_NEWER,
}
#: Filters on a row's own columns; namespace and time narrow the index range itself.
ROW_FILTERS: Final = (
    "org",
    "pack_name",
    "pack_install_id",
    "provider",
    "event_kind",
    "work_type",
    "execution_class",
    "source_lane",
    "min_attempts",
    "max_attempts",
    "replayed",
)
WORK_STREAMS: Final = ("d", "l")
STREAMS: Final = ("d", "l", "e")


def place_of(row: Row) -> Place:
    """Return a row's place in the one order of all streams."""
    return Place(at=row["TerminalAt"] or UNDATED, id=row["EventId"] if row["Stream"] == "e" else row["WorkId"])


def is_wanted(filters: DeadFilters, stream: str) -> bool:
    """Return whether the filter's owner can be found in a stream."""
    if filters.owner is None:
        return True
    return (filters.owner == OwnerKind.WORK_ITEM) == (stream in WORK_STREAMS)


def start_params(stream: str, place: Place) -> dict[str, Any]:
    """Give a stream's place under both directions' names; each statement uses one of them."""
    return {
        f"{stream}_upper_at": place.at,
        f"{stream}_upper_id": place.id,
        f"{stream}_lower_at": place.at,
        f"{stream}_lower_id": place.id,
    }


def window_params(stream: str, keys: int, rows: int) -> dict[str, Any]:
    """Return how many keys of a stream are read and how many rows of them are listed; none of either for 0 keys."""
    return {
        f"{stream}_window": keys,
        f"{stream}_last": max(keys - 1, 0),
        f"{stream}_limit": rows if keys else 0,
    }


def undated_start() -> dict[str, Any]:
    """Return where every stream's undated rows begin."""
    return {f"{stream}_upper_id": FIRST_UNDATED.id for stream in STREAMS}


def filter_params(filters: DeadFilters) -> dict[str, Any]:
    """Return the values that every statement takes for a filter; None does not narrow."""
    pack_is_id = filters.pack is not None and details.looks_like_id(filters.pack)
    return {
        "org": filters.org,
        "namespace": filters.namespace,
        "pack_name": None if pack_is_id else filters.pack,
        "pack_install_id": filters.pack if pack_is_id else None,
        "provider": filters.provider,
        "event_kind": filters.event_kind,
        "work_type": filters.work_type,
        "execution_class": filters.execution_class,
        "source_lane": filters.source_lane,
        "min_attempts": filters.min_attempts,
        "max_attempts": filters.max_attempts,
        "replayed": filters.replayed,
        "died_after": filters.died_after or LONG_AGO,
        "died_before": filters.died_before or FAR_AHEAD,
        "is_any_time": filters.is_any_time,
    }


def choose_count(filters: DeadFilters, *, is_narrowed: bool, has_additive: bool) -> Statement:
    """Return the statement that counts dead rows with a terminal time."""
    by_namespace = filters.namespace is not None
    if filters.provider is not None and has_additive:
        return _COUNTS_OF_PROVIDER[by_namespace]
    return _COUNTS[is_narrowed, has_additive, by_namespace]


def choose_list(filters: DeadFilters, *, older: bool, has_additive: bool, is_dated: bool) -> Statement:
    """Return the statement that lists dead rows, of those with a terminal time or of those without."""
    lists = _LISTS if is_dated else _UNDATED_LISTS
    return lists[has_additive, filters.namespace is not None, older]
