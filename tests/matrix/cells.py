"""The cells: what an original's rows, its source and its route can hold, value by value. Pure.

Nothing here or in `table` asks the program what its states are: a test holds these lists against its enums.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

Choice = TypeVar("Choice")

#: The Event has no WorkItem: not a state, and beside the matrix's 11.
NO_ITEM: Final = "(none)"

EVENT_STATUSES: Final = ("pending", "processing", "failed", "processed", "skipped", "dead")
ITEM_STATES: Final = (
    "pending",
    "processing",
    "retry",
    "blocked",
    "succeeded",
    "skipped",
    "dead",
    "cancelled",
    "awaiting_legacy_outcome",
    "reconciled_legacy_terminal",
    "legacy_outcome_unknown",
)
#: States that a WorkItem may still leave; a projection's generation holds its active key in them.
UNENDED_STATES: Final = (
    "pending",
    "processing",
    "retry",
    "blocked",
    "awaiting_legacy_outcome",
    "legacy_outcome_unknown",
)
MARKS: Final = ("null", "set")

#: Dimension -> its values, in the order in which the cells are numbered.
DIMENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "event_status": EVENT_STATUSES,
    "item_state": (*ITEM_STATES, NO_ITEM),
    "attempt": ("0", "1+"),
    "event_replayed": MARKS,
    "item_replayed": MARKS,
    "execution": ("per_event", "source_projection"),
    "successor": ("none", "active", "queued", "event_only"),
    "route": ("live", "swept", "changed_class", "snapshot_missing"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination.

    Attributes:
        event_status: The original Event's `Status`.
        item_state: Its WorkItem's `State`, or that it has none.
        attempt: The WorkItem's `Attempt`.
        event_replayed: Whether `Event.ReplayedAt` is set.
        item_replayed: Whether `WorkItem.ReplayedAt` is set.
        execution: The original's execution class.
        successor: What else of the source is to run: a generation that holds its active key, one that waits for it,
            or an Event without a WorkItem.
        route: What became of the route: still live, swept with nothing in its place, replaced by one of the other
            class; or live with the original's own snapshot lost.
    """

    event_status: str
    item_state: str
    attempt: str
    event_replayed: str
    item_replayed: str
    execution: str
    successor: str
    route: str

    def __str__(self) -> str:
        """Return the values in the order of the dimensions."""
        return " / ".join(self.values().values())

    def values(self) -> dict[str, str]:
        """Return the cell's value in each dimension."""
        return {name: getattr(self, name) for name in DIMENSIONS}

    @property
    def number(self) -> int:
        """The cell's place among all products of the dimensions."""
        place = 0
        for name, value in self.values().items():
            place = place * len(DIMENSIONS[name]) + DIMENSIONS[name].index(value)
        return place

    def pick(self, choices: Sequence[Choice], *, of: str) -> Choice:
        """Choose a detail that no dimension names: always the same for a cell, and evenly over all of them."""
        return choices[zlib.crc32(f"{of}: {self}".encode()) % len(choices)]


def is_possible(values: dict[str, str]) -> bool:
    """Return whether some of a cell's values can stand together: without a WorkItem nothing is said of one."""
    if values.get("item_state") != NO_ITEM:
        return True
    return values.get("attempt", "0") == "0" and values.get("item_replayed", "null") == "null"


@cache
def all_cells() -> tuple[Cell, ...]:
    """Return every cell, by number."""
    products = (dict(zip(DIMENSIONS, values, strict=True)) for values in itertools.product(*DIMENSIONS.values()))
    return tuple(Cell(**values) for values in products if is_possible(values))
