"""The claim's index read page by page: what one look reads is bounded, however much of it is left out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from integration.states import WorkItemState, stored
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql.work_port import PackStatements
from integration.work.families import Family

#: How many entries of the index a page has for each row that a look may take from it.
ENTRIES_PER_ROW: Final = 8
#: An IN list must not be empty; no id, lane or key has this form.
NOTHING: Final = ("-",)
#: What a pack that the look has not met may add of each state, and how many entries of its index are read for that.
_PACK_SHARE: Final = 8
_PACK_PAGE: Final = 256
_STATES: Final = (WorkItemState.PENDING, WorkItemState.RETRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An entry of the index, or a place before the first one."""

    run_after: datetime
    queue_class: str
    work_id: str


#: Before every entry.
START: Final = Place(run_after=datetime(1970, 1, 2, tzinfo=UTC), queue_class="", work_id="")


def _at_start() -> dict[WorkItemState, Place]:
    return dict.fromkeys(_STATES, START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Which rows a look may take when several processes claim; without arguments all of them.

    Attributes:
        count: Into how many slots the rows are divided.
        own: The slots that are looked at.
    """

    count: int = 1
    own: tuple[int, ...] = (0,)


@dataclass(slots=True, kw_only=True)
class Walk:
    """One walk along the index from its beginning to its end.

    Attributes:
        places: How far it has come, by state.
        blocked: The source lanes that it leaves out, since their heads are not due or not theirs to claim.
        busy: The target lanes that it leaves out, since an item of them is claimed.
        is_through: Nothing followed the last page.
    """

    places: dict[WorkItemState, Place] = field(default_factory=_at_start)
    blocked: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    is_through: bool = False

    def find_ends(self, family: Family, *, limit: int) -> list[Row]:
        """Return the last entry of the next page of each state, from the index alone; none when nothing follows.

        Args:
            family: Whose table is read.
            limit: As for `next_rows`.
        """
        after = _params("after", self.places)
        return db.read().fetch_all(family.statements.list_page_ends, {**after, "page": limit * ENTRIES_PER_ROW})

    def next_rows(
        self,
        family: Family,
        *,
        closed_packs: Collection[str],
        limit: int,
        slots: Slots = Slots(),
        ends: list[Row] | None = None,
    ) -> list[Row]:
        """Read the next page and come to its end, or to the last row that the limit lets through.

        The page's end is found first: what becomes due meanwhile lies behind it or is met by the next walk, and
        nothing between two pages is passed over.

        Args:
            family: Whose table is read.
            closed_packs: Packs whose rows are left out.
            limit: How many rows at most from each state; a page has `ENTRIES_PER_ROW` times as many entries.
            slots: Which rows are this claimer's.
            ends: What `find_ends` has just returned, if it was asked.

        Returns:
            The candidates' rows of the page, pending ones first; none when all of it is left out or nothing follows.
        """
        reader = db.read()
        after = _params("after", self.places)
        found = self.find_ends(family, limit=limit) if ends is None else ends
        self.is_through = not found
        if not found:
            return []
        ends_of_page = {**self.places, **{_state(row): _place(row) for row in found}}
        rows = reader.fetch_all(
            family.statements.list_candidates,
            {
                **after,
                **_params("to", ends_of_page),
                "slots": slots.count,
                "own_slots": slots.own,
                "closed_packs": closed_packs or NOTHING,
                "family": family.name,
                "blocked_lanes": self.blocked or NOTHING,
                "busy_targets": self.busy or NOTHING,
                "limit": limit,
            },
        )
        for state in _STATES:
            taken = [row for row in rows if _state(row) is state]
            if len(taken) >= limit:
                ends_of_page[state] = max(
                    map(_place, taken), key=lambda place: (place.run_after, place.queue_class, place.work_id)
                )
        self.places = ends_of_page
        return rows

    def rows_of_pack(self, packs: PackStatements, pack_install_id: str) -> list[Row]:
        """Read the oldest due rows of one pack, wherever the walk has come to.

        Args:
            packs: The statements of the table.
            pack_install_id: The pack.

        Returns:
            A few pending and a few retried candidates, lanes that the walk leaves out excepted.
        """
        return db.read().fetch_all(
            packs.list_candidates,
            {
                "pack_install_id": pack_install_id,
                "blocked_lanes": self.blocked or NOTHING,
                "busy_targets": self.busy or NOTHING,
                "page": _PACK_PAGE,
                "limit": _PACK_SHARE,
            },
        )


def _state(row: Row) -> WorkItemState:
    return stored(WorkItemState, row["State"])


def _place(row: Row) -> Place:
    return Place(run_after=row["RunAfter"], queue_class=row["QueueClass"], work_id=row["WorkId"])


def _params(side: str, places: dict[WorkItemState, Place]) -> dict[str, object]:
    return {
        name: value
        for state in _STATES
        for name, value in (
            (f"{state}_{side}", places[state].run_after),
            (f"{state}_{side}_class", places[state].queue_class),
            (f"{state}_{side}_id", places[state].work_id),
        )
    }
