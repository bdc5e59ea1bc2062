"""Read the trail, page by page, and verify it, stream by stream, without locks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from integration import errors
from integration.audit.listing import AuditFilters, AuditPage, Entry
from integration.audit.policy import GENESIS_DIGEST, entry_digest
from integration.merging import merge
from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import audit
from integration.storage.sql import audit_lists as lists
from integration.storage.statements import Statement

PAGE_ROWS: Final = 50
LARGEST_PAGE: Final = 500
_CHUNK: Final = 1000
_LONG_AGO: Final = datetime(1000, 1, 1, tzinfo=UTC)
_FAR_AHEAD: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
#: Keys that a page of more than one filter reads at most, in growing windows.
_WINDOWS: Final = (200, 2_000, 8_000)
#: The filter whose index is read -> the statements towards older and towards newer entries; the first that is given
#: counts, and those that match least come first. A namespace comes before all others: who may read the entries of some
#: namespaces only must not learn from where a search stopped how many there are elsewhere.
_LISTS: Final[dict[str, tuple[Statement, Statement]]] = {
    "namespace": (lists.LIST_AUDIT_OF_NAMESPACE_OLDER, lists.LIST_AUDIT_OF_NAMESPACE_NEWER),
    "ref": (lists.LIST_AUDIT_OF_REF_OLDER, lists.LIST_AUDIT_OF_REF_NEWER),
    "actor": (lists.LIST_AUDIT_OF_ACTOR_OLDER, lists.LIST_AUDIT_OF_ACTOR_NEWER),
    "action": (lists.LIST_AUDIT_OF_ACTION_OLDER, lists.LIST_AUDIT_OF_ACTION_NEWER),
    "outcome": (lists.LIST_AUDIT_OF_OUTCOME_OLDER, lists.LIST_AUDIT_OF_OUTCOME_NEWER),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Place:
    """A key of the trail, and whether a page goes to older or to newer entries from it; it is left out itself."""

    at: datetime
    id: str
    is_older: bool

    def __str__(self) -> str:
        return f"{'>' if self.is_older else '<'}{self.at.isoformat()}~{self.id}"


#: Keys in the order in which they were read, and where the search stopped if it did so at its bound.
_Found = tuple[list[_Place], _Place | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """The first place in a stream where the chain does not hold.

    Attributes:
        stream: The stream's name.
        seq: The entry at which it breaks.
        what: `missing`, `predecessor` or `content`.
    """

    stream: str
    seq: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What a verification found.

    Attributes:
        entry_count: Entries read.
        heads: Stream -> digest of its last entry; keep them elsewhere to notice a cut-off tail.
        breaks: One for each stream that does not hold.
    """

    entry_count: int
    heads: dict[str, str]
    breaks: tuple[ChainBreak, ...]


def list_entries(
    filters: AuditFilters,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
    *,
    within: Scope = EVERYWHERE,
    oldest_first: bool = False,
    using: str = "default",
) -> AuditPage:
    """Return one page of the trail, newest first unless the oldest are asked for first.

    Args:
        filters: What to narrow it to.
        cursor: `newer` or `older` of another page; None for the first page.
        limit: Entries on the page, 1 to 500.
        within: Where the reader may read it, at most 20 namespaces; entries of none are for readers of everywhere.
        oldest_first: Turn the order round.
        using: The database alias.

    Returns:
        The entries, and the neighbours' cursors.

    Raises:
        InvalidInput: The cursor or the limit is not valid, or the reader has to name a namespace.

    Locks: none.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        message = f"A page has 1 to {LARGEST_PAGE} entries."
        raise errors.InvalidInput(message, field="limit")
    first = _Place(at=_LONG_AGO if oldest_first else _FAR_AHEAD, id="", is_older=not oldest_first)
    start = first if cursor is None else _parse(cursor)
    reader = db.read(using)
    names = names_to_read(within, filters.namespace)
    parts = (filters,) if names is None else [replace(filters, namespace=name) for name in names]
    finds = [_find(reader, part, start, limit) for part in parts]
    keys, bound = merge(finds, key=lambda place: place, descending=start.is_older)
    beyond = keys[limit - 1] if len(keys) > limit else bound
    keys = keys[:limit]
    onward = None if beyond is None else str(beyond)
    # The page that was come from is on the other side of the first key, or of where nothing was found.
    edge = keys[0] if keys else start
    back = None if cursor is None else str(_Place(at=edge.at, id=edge.id, is_older=not start.is_older))
    if start.is_older == oldest_first:
        keys.reverse()
    return AuditPage(
        entries=_read(reader, keys),
        newer=back if start.is_older else onward,
        older=onward if start.is_older else back,
        searched_to=bound.at if bound is not None and beyond is bound else None,
    )


def _find(reader: Reader, filters: AuditFilters, start: _Place, limit: int) -> _Found:
    """Return the keys of a page and one more, and where the search stopped if it did so at its bound."""
    values = {name: getattr(filters, name) for name in _LISTS}
    given = [name for name, value in values.items() if value is not None]
    statements = _LISTS[given[0]] if given else (lists.LIST_AUDIT_OLDER, lists.LIST_AUDIT_NEWER)
    statement = statements[0 if start.is_older else 1]
    params = {**values, "since": filters.since or _LONG_AGO, "until": filters.until or _FAR_AHEAD}
    # One filter is the index itself: every key of the window is an entry of the page.
    windows = _WINDOWS if len(given) > 1 else (limit + 1,)
    found: list[_Place] = []
    bound: _Place | None = start
    for window in (max(window, limit + 1) for window in windows):
        if bound is None or len(found) > limit:
            break
        room = limit + 1 - len(found)
        params |= {"at": bound.at, "id": bound.id, "window": window, "last": window - 1, "limit": room}
        bound = None
        for row in reader.fetch_all(statement, params):
            place = _Place(at=row["at"], id=row["id"], is_older=start.is_older)
            if row["What"] == "last":
                bound = place
            else:
                found.append(place)
    return found, bound


def _read(reader: Reader, keys: list[_Place]) -> tuple[Entry, ...]:
    if not keys:
        return ()
    ids = [key.id for key in keys]
    rows = {row["id"]: row for row in reader.fetch_all(lists.READ_AUDIT_ENTRIES, {"ids": tuple(ids)})}
    return tuple(_entry(rows[entry_id]) for entry_id in ids)


def _entry(row: Row) -> Entry:
    return Entry(**{**row, "facts": _facts(row["facts"])})


def _facts(text: str) -> dict[str, Any]:
    """Return an entry's facts; what somebody wrote past this program may be no document, and is not shown."""
    try:
        facts: Any = json.loads(text or "{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _parse(cursor: str) -> _Place:
    try:
        moment, entry_id = cursor[1:].split("~")
        at = datetime.fromisoformat(moment)
        if cursor[0] not in "<>" or at.tzinfo is None or len(entry_id) > 36 or not entry_id.isascii():
            raise ValueError(cursor)  # noqa: TRY301 - one message for every fault of a cursor
        return _Place(at=at.astimezone(UTC), id=entry_id, is_older=cursor[0] == ">")
    except (ValueError, OverflowError) as error:
        message = "The page's cursor is not one of this list."
        raise errors.InvalidInput(message, field="cursor") from error


def verify_chain(*, using: str = "default") -> ChainReport:
    """Recompute every digest of every stream.

    Returns:
        The number of entries, each stream's head, and the first break of each stream that has one.
    """
    reader = db.read(using)
    count = 0
    heads: dict[str, str] = {}
    breaks: list[ChainBreak] = []
    for stream_row in reader.fetch_all(audit.LIST_AUDIT_STREAMS):
        stream = stream_row["stream"]
        seq, previous, broken = 0, GENESIS_DIGEST, False
        while not broken:
            rows = reader.fetch_all(audit.LIST_AUDIT_STREAM_AFTER, {"stream": stream, "seq": seq, "limit": _CHUNK})
            if not rows:
                break
            for row in rows:
                count += 1
                what = _fault(row, seq=seq, previous=previous)
                if what is not None:
                    breaks.append(ChainBreak(stream=stream, seq=row["seq"], what=what))
                    broken = True
                    break
                seq, previous = row["seq"], row["digest"]
        heads[stream] = previous
    return ChainReport(entry_count=count, heads=heads, breaks=tuple(breaks))


def _fault(row: db.Row, *, seq: int, previous: str) -> str | None:
    if row["seq"] != seq + 1:
        return "missing"
    if row["previous_digest"] != previous:
        return "predecessor"
    if row["digest"] != entry_digest(row):
        return "content"
    return None
