"""What a bulk replay takes: rows by a filter or by their ids, frozen, in the order in which they are replayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from integration import errors
from integration.authority import reads
from integration.authority.listing import DeadFilters, DeadRow
from integration.authority.values import OwnerAmbiguous, Ref
from integration.batches.values import LARGEST, LARGEST_BY_ID
from integration.scopes import EVERYWHERE, Scope
from integration.states import WorkItemState
from integration.storage import db
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.values import digest_parts, plain

#: Pages that one selection looks at, at most.
_MOST_PAGES: Final = 200
_PAGE: Final = 500
_UNKNOWN: Final = (2**63, 2**63, datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """One row that is to be replayed, and under which incarnation and route version it died."""

    ref: Ref
    namespace: str | None = None
    event_kind: str | None = None
    source_lane: str | None = None
    incarnation: int | None = None
    route_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A frozen selection.

    Attributes:
        items: The rows, by incarnation and ordinal: every source lane is in the order in which its inputs came.
        asked: What was asked for, by name.
        is_capped: There may be more rows that match.
        left_out: Rows that match and that nothing could replay.
        arrived: Rows that match and died after the list was looked at; they are not among `items`.
        stale: Rows that were named by id and can be replayed no more as they are; they are among `items`.
        digest: Over the rows, in their order.
    """

    items: tuple[Selected, ...]
    asked: Mapping[str, Any]
    is_capped: bool
    left_out: int
    digest: str
    arrived: int = 0
    stale: int = 0


def read_now(*, using: str = "default") -> datetime:
    """Return the database's time, aware UTC: a list that is read next shows all that died until then.

    Locks: none.
    """
    row = db.read(using).fetch_one(READ_DATABASE_TIME)
    if row is None:
        raise errors.InvariantBroken
    now: datetime = row["Now"]
    return now


def select(
    filters: DeadFilters | None = None,
    refs: Iterable[Ref] | None = None,
    *,
    cap: int = LARGEST,
    seen_at: datetime | None = None,
    within: Scope = EVERYWHERE,
    using: str = "default",
) -> Selection:
    """Read what a bulk replay would take now.

    Args:
        filters: What to narrow the dead rows to; replayed ones are left out by themselves.
        refs: Rows by id, in place of a filter.
        cap: Rows at most; of more, the latest to die are taken.
        seen_at: When the list was looked at, aware UTC: what died since is counted and not taken. Rows by id are
            those that were seen.
        within: Where the bulk replay may take rows from; a row elsewhere is none.
        using: The database alias.

    Returns:
        The rows, sorted and without duplicates.

    Raises:
        InvalidInput: Neither or both of filter and ids, a cap out of range, too many ids, a filter on replayed rows,
            or a reader who has to name a namespace.

    Locks: none.
    """
    if (filters is None) == (refs is None):
        message = "A bulk replay takes a filter or ids."
        raise errors.InvalidInput(message, field="selection")
    if not 1 <= cap <= LARGEST:
        message = f"A bulk replay has 1 to {LARGEST} rows."
        raise errors.InvalidInput(message, field="cap")
    if refs is not None:
        return _by_id(tuple(refs), within, using)
    if filters is None:
        raise errors.InvariantBroken
    return _by_filter(filters, cap, seen_at, within, using)


def _by_filter(filters: DeadFilters, cap: int, seen_at: datetime | None, within: Scope, using: str) -> Selection:
    if filters.replayed:
        message = "What was replayed is not replayed again."
        raise errors.InvalidInput(message, field="replayed")
    filters = dataclasses.replace(filters, replayed=False)
    rows: dict[str, DeadRow] = {}
    left_out, arrived, cursor = 0, 0, None
    for _ in range(_MOST_PAGES):
        page = reads.list_dead(filters, cursor, _PAGE, within=within, using=using)
        left_out += sum(len(rejected.work_ids) for rejected in page.rejected)
        for row in page.rows:
            if not row.is_actionable:
                left_out += 1
            elif seen_at is not None and row.terminal_at is not None and row.terminal_at > seen_at:
                arrived += 1
            else:
                rows[row.ref.id] = row
        cursor = page.older
        if cursor is None or len(rows) > cap:
            break
    taken = list(rows.values())[:cap]
    asked = {name: value for name, value in plain(filters).items() if value is not None and name != "replayed"}
    if seen_at is not None:
        asked |= {"seen_at": plain(seen_at), "arrived_since": arrived}
    selection = _frozen([(_place(row), _selected(row)) for row in taken], asked)
    is_capped = cursor is not None or len(rows) > cap
    return dataclasses.replace(selection, is_capped=is_capped, left_out=left_out, arrived=arrived)


def _by_id(refs: tuple[Ref, ...], within: Scope, using: str) -> Selection:
    if len(refs) > LARGEST_BY_ID:
        message = f"At most {LARGEST_BY_ID} rows are named by id; use a filter."
        raise errors.InvalidInput(message, field="ids", found=len(refs))
    found: dict[str, tuple[tuple[Any, ...], Selected]] = {}
    stale: set[str] = set()
    for ref in refs:
        try:
            row = reads.get_detail(ref, within=within, using=using).row
        except (errors.NotFound, OwnerAmbiguous):
            # It keeps its place in the ledger, which tells what became of it.
            found.setdefault(ref.id, (_UNKNOWN, Selected(ref=ref)))
            stale.add(ref.id)
        else:
            found.setdefault(row.ref.id, (_place(row), _selected(row)))
            if not (row.is_actionable and row.state == WorkItemState.DEAD):
                stale.add(row.ref.id)
    return dataclasses.replace(_frozen(list(found.values()), {"ids": len(found)}), stale=len(stale))


def _place(row: DeadRow) -> tuple[Any, ...]:
    return (row.incarnation or 0, row.lane_ordinal or 0, row.received_at)


def _selected(row: DeadRow) -> Selected:
    return Selected(
        ref=row.ref,
        namespace=row.namespace,
        event_kind=row.event_kind,
        source_lane=row.source_lane,
        incarnation=row.incarnation,
        route_version=row.route_version,
    )


def _frozen(placed: list[tuple[tuple[Any, ...], Selected]], asked: Mapping[str, Any]) -> Selection:
    items = tuple(item for _, item in sorted(placed, key=lambda entry: (entry[0], entry[1].ref.id)))
    return Selection(
        items=items,
        asked=asked,
        is_capped=False,
        left_out=0,
        digest=digest_parts(*(str(item.ref) for item in items)),
    )
