"""What an operator lists and counts: dead rows of both owners in one order, without locks.

Each owner's rows are a keyset range of their own index. A scan reads windows of keys and filters them; it
stops at a bound and says so, so that no filter can make a page walk the whole history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from integration import errors
from integration.authority import details
from integration.authority.cursors import FIRST_UNDATED, LONG_AGO, START, UNDATED, Cursor, Place
from integration.authority.dead_statements import (
    COUNTS_UNDATED,
    ROW_FILTERS,
    STREAMS,
    choose_count,
    choose_list,
    filter_params,
    is_wanted,
    place_of,
    start_params,
    undated_start,
    window_params,
)
from integration.authority.details import get_detail
from integration.authority.lineage import lineage
from integration.authority.listing import (
    CappedCount,
    DeadFilters,
    DeadPage,
    DeadRow,
    RejectedRows,
)
from integration.authority.search import SEARCH_ROWS, find_event_ids
from integration.authority.several import add_up, split
from integration.authority.values import OwnerKind
from integration.merging import merge
from integration.scopes import EVERYWHERE, Scope
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import dead_letters as sql

__all__ = ["COUNT_CAP", "PAGE_ROWS", "count_dead", "get_detail", "lineage", "list_dead"]

PAGE_ROWS: Final = 50
LARGEST_PAGE: Final = 500
COUNT_CAP: Final = 10_000
#: Keys of one owner that a page reads at most, in growing windows; the last one tells "searched back to".
WINDOWS: Final = (200, 2_000, 8_000)
#: Keys of one stream whose rows a filtered count looks at: each costs some microseconds, and a page waits for them.
NARROWED_WINDOW: Final = 5_000


@dataclass(slots=True, kw_only=True)
class _Scan:
    """One stream's progress through its index."""

    stream: str
    start: Place
    rows: list[Row]
    is_done: bool = False
    bound: Place | None = None
    has_undated: bool = False


def list_dead(
    filters: DeadFilters,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
    *,
    within: Scope = EVERYWHERE,
    oldest_first: bool = False,
    using: str = "default",
) -> DeadPage:
    """Return one page of dead rows of both owners, latest death first unless the oldest are asked for first.

    Args:
        filters: What to narrow the list to.
        cursor: `newer` or `older` of another page; None for the first page.
        limit: Rows on the page, 1 to 500.
        within: Where the reader may look; one statement for each namespace, at most 20.
        oldest_first: Turn the one order round: rows without a terminal time begin it then.
        using: The database alias.

    Returns:
        The rows, the duplicates that were left out, and the neighbours' cursors. A search by id or key is one
        page without neighbours.

    Raises:
        InvalidInput: The cursor or the limit is not valid, or the reader has to name a namespace.

    Locks: none.
    Rule: A-01.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        message = f"A page has 1 to {LARGEST_PAGE} rows."
        raise errors.InvalidInput(message, field="limit")
    reader = db.read(using)
    has_additive = capabilities(using).has_additive
    parts = split(filters, within)
    if filters.search is not None:
        return _search(reader, parts, has_additive=has_additive)
    first = _from_oldest(filters) if oldest_first else START
    position = first if cursor is None else Cursor.decode(cursor)
    finds = [_find(reader, part, position, limit, has_additive=has_additive) for part in parts]
    found, bound = merge(finds, key=place_of, descending=position.is_older)
    has_more = len(found) > limit
    found = found[:limit]
    newer, older = _neighbours(position, found, bound=bound, has_more=has_more, is_first=position == first)
    if position.is_older == oldest_first:
        if len(found) < limit and bound is None:
            # There is less than a page before this one: the first page shows it whole.
            return list_dead(filters, None, limit, within=within, oldest_first=oldest_first, using=using)
        found.reverse()
    rows, rejected = _compose(reader, found, has_additive=has_additive)
    stopped = bound is not None and not has_more
    return DeadPage(
        rows=rows,
        rejected=rejected,
        newer=newer,
        older=older,
        searched_back_to=bound.at if stopped and bound is not None else None,
    )


def count_dead(
    filters: DeadFilters, cap: int = COUNT_CAP, *, within: Scope = EVERYWHERE, using: str = "default"
) -> CappedCount:
    """Count dead rows up to a cap.

    Args:
        filters: What to narrow the count to.
        cap: Where counting stops.
        within: Where the reader may look.
        using: The database alias.

    Returns:
        The count, and whether there may be more: the cap was reached, or the search's bound. A filter on the rows'
        own columns is counted among the latest 5,000 of each owner; namespace and time narrow what they are taken from.

    Raises:
        InvalidInput: The reader has to name a namespace.

    Locks: none.
    """
    reader = db.read(using)
    has_additive = capabilities(using).has_additive
    parts = split(filters, within)
    if filters.search is not None:
        page = _search(reader, parts, has_additive=has_additive)
        return CappedCount(count=len(page.rows), is_capped=len(page.rows) >= SEARCH_ROWS or page.is_search_cut)
    return add_up(parts, lambda part, most: _count(reader, part, most, has_additive=has_additive), cap)


def _count(reader: Reader, filters: DeadFilters, cap: int, *, has_additive: bool) -> CappedCount:
    """Count what one filter finds, in one range of each stream's index."""
    by_namespace = filters.namespace is not None
    params = filter_params(filters)
    is_narrowed = any(params[name] is not None for name in ROW_FILTERS)
    statement = choose_count(filters, is_narrowed=is_narrowed, has_additive=has_additive)
    # Without a filter every key counts but for the few that the other owner has: one more than the cap is enough.
    window = NARROWED_WINDOW if is_narrowed else cap + 1
    for stream in STREAMS:
        params |= start_params(stream, START.place)
        params |= window_params(stream, window if is_wanted(filters, stream) else 0, cap + 1)
    parts = reader.fetch_all(statement, params)
    found = sum(int(part["Found"]) for part in parts)
    searched = sum(int(part["Seen"]) for part in parts)
    # Beyond the cap no further row changes the answer.
    if filters.is_any_time and found <= cap:
        undated = reader.fetch_all(COUNTS_UNDATED[has_additive, by_namespace], params | undated_start())
        parts += undated
        found += sum(int(part["Found"]) for part in undated)
    is_bound = found <= cap and any(int(part["Seen"]) >= window for part in parts)
    return CappedCount(
        count=min(found, cap),
        is_capped=found > cap or is_bound,
        searched=searched if is_bound else None,
        read_at=min(part["Now"] for part in parts),
    )


def _find(
    reader: Reader, filters: DeadFilters, position: Cursor, limit: int, *, has_additive: bool
) -> tuple[list[Row], Place | None]:
    """Find a page's rows and one more: first where the cursor stands, then beyond the border of the undated ones."""
    at_undated = position.place.at == UNDATED
    if at_undated and not filters.is_any_time:
        return [], None
    scans = _scan(reader, filters, position, limit, has_additive=has_additive, is_dated=not at_undated)
    found, bound = _merged(scans, position)
    if bound is not None or len(found) > limit or at_undated == position.is_older or not filters.is_any_time:
        return found, bound
    if position.is_older and not any(scan.has_undated for scan in scans):
        return found, None
    beyond = Cursor(place=Place(at=LONG_AGO, id="") if at_undated else FIRST_UNDATED, is_older=position.is_older)
    scans = _scan(reader, filters, beyond, limit, has_additive=has_additive, is_dated=at_undated)
    more, bound = _merged(scans, beyond)
    return found + more, bound


def _scan(
    reader: Reader, filters: DeadFilters, position: Cursor, limit: int, *, has_additive: bool, is_dated: bool
) -> list[_Scan]:
    """Read every stream until it has a page and one row, or its end, or the bound."""
    scans = {
        stream: _Scan(stream=stream, start=position.place, rows=[], is_done=not is_wanted(filters, stream))
        for stream in (STREAMS if has_additive else ("e",))
    }
    listing = choose_list(filters, older=position.is_older, has_additive=has_additive, is_dated=is_dated)
    base = filter_params(filters)
    for window in (max(window, 2 * limit) for window in WINDOWS):
        going = [scan for scan in scans.values() if not scan.is_done]
        if not going:
            break
        params = dict(base)
        for scan in scans.values():
            params |= start_params(scan.stream, scan.start)
            params |= window_params(scan.stream, 0 if scan.is_done else window, limit + 1 - len(scan.rows))
        told: dict[str, Row] = {}
        for row in reader.fetch_all(listing, params):
            stream, _, what = row["Stream"].partition(".")
            if what:
                told[row["Stream"]] = row
            else:
                scans[stream].rows.append(row)
        for scan in going:
            scan.has_undated = f"{scan.stream}.undated" in told
            _advance(scan, told.get(f"{scan.stream}.last"), limit)
    return list(scans.values())


def _advance(scan: _Scan, last: Row | None, limit: int) -> None:
    """Note where a stream's window ended: at a page and one row, at the end of the index, or at a key to go on from."""
    if last is None or len(scan.rows) > limit:
        scan.is_done, scan.bound = True, None
    else:
        scan.start = scan.bound = Place(at=last["TerminalAt"] or UNDATED, id=last["WorkId"])


def _merged(scans: Iterable[_Scan], position: Cursor) -> tuple[list[Row], Place | None]:
    return merge(((scan.rows, scan.bound) for scan in scans), key=place_of, descending=position.is_older)


def _from_oldest(filters: DeadFilters) -> Cursor:
    """Return where a list begins that has the oldest rows first."""
    return Cursor(place=Place(at=UNDATED if filters.is_any_time else LONG_AGO, id=""), is_older=False)


def _neighbours(
    position: Cursor, found: list[Row], *, bound: Place | None, has_more: bool, is_first: bool
) -> tuple[str | None, str | None]:
    """Return the cursors of the newer and the older page; `found` is in the direction in which it was read."""
    nearest = place_of(found[0]) if found else position.place
    beyond = place_of(found[-1]) if has_more else bound
    back = None if is_first else Cursor(place=nearest, is_older=not position.is_older).encode()
    onward = None if beyond is None else Cursor(place=beyond, is_older=position.is_older).encode()
    return (back, onward) if position.is_older else (onward, back)


def _compose(
    reader: Reader, found: list[Row], *, has_additive: bool
) -> tuple[tuple[DeadRow, ...], tuple[RejectedRows, ...]]:
    """Make the page's rows; more than one dead row of an Event is reported instead."""
    candidates = details.read_candidates(reader, (row["EventId"] for row in found), has_additive=has_additive)
    rows: list[DeadRow] = []
    rejected: dict[str, RejectedRows] = {}
    for row in found:
        of_event = candidates.get(row["EventId"], [])
        dead = [item for item in of_event if details.is_dead_candidate(item)]
        if row["Stream"] != "e" and len(dead) > 1:
            rejected[row["EventId"]] = RejectedRows(
                event_id=row["EventId"],
                work_ids=tuple(item["WorkId"] for item in dead),
                sentence=f"{len(dead)} dead WorkItems name one Event: none of them can be replayed.",
            )
        else:
            rows.append(details.make_row(row, of_event))
    return tuple(rows), tuple(rejected.values())


def _search(reader: Reader, parts: Sequence[DeadFilters], *, has_additive: bool) -> DeadPage:
    """Find rows by id, the beginning of one, or idempotency key: point reads and short ranges, one page."""
    found: list[Row] = []
    is_cut = False
    for part in parts:
        of_part, is_part_cut = _search_rows(reader, part, has_additive=has_additive)
        found += of_part
        is_cut = is_cut or is_part_cut
    found.sort(key=place_of, reverse=True)
    rows_made, rejected = _compose(reader, found[:SEARCH_ROWS], has_additive=has_additive)
    return DeadPage(
        rows=rows_made, rejected=rejected, newer=None, older=None, searched_back_to=None, is_search_cut=is_cut
    )


def _search_rows(reader: Reader, filters: DeadFilters, *, has_additive: bool) -> tuple[list[Row], bool]:
    """Find the rows of one filter, and whether more ids begin like the text than were looked at."""
    params = filter_params(filters)
    event_ids, is_cut = find_event_ids(reader, filters.search or "", params, has_additive=has_additive)
    found: list[Row] = []
    if event_ids:
        ids = {**params, "event_ids": event_ids}
        candidates = details.read_candidates(reader, event_ids, has_additive=has_additive)
        if has_additive and filters.owner != OwnerKind.EVENT:
            found += reader.fetch_all(sql.LIST_DEAD_WORK_OF_EVENTS, ids)
        if filters.owner != OwnerKind.WORK_ITEM:
            owned = {event_id for event_id, items in candidates.items() if any(map(details.is_owning, items))}
            rows = reader.fetch_all(sql.LIST_DEAD_EVENTS_OF_EVENTS, ids)
            found += [row for row in rows if row["EventId"] not in owned]
    return found, is_cut
