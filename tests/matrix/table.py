"""The decision table: what the contract says of each cell. Written from the documents, not from the program.

A line names the values for which it speaks; the first line that speaks for a cell decides it. Sections are those of
the replay-authority contract unless another document is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.matrix.cells import DIMENSIONS, NO_ITEM, UNENDED_STATES, Cell

#: What a line may answer besides a refusal's code: who had authority over what was replayed.
REPLAYED: Final = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table.

    Attributes:
        name: Short and stable.
        when: Dimension -> the values for which the line speaks; `not` in front of a value means every other one.
        answer: A refusal's code, or `replayed` and the owner.
        source: The document's section.
        says: What it says there, in short.
        evidence: The statements of docs/evidence.tsv that its cells prove.
        is_open: The documents leave it open, and this line is the decision taken.
    """

    name: str
    when: Mapping[str, tuple[str, ...]]
    answer: str
    source: str
    says: str
    evidence: tuple[str, ...] = ()
    is_open: bool = False

    def speaks_for(self, cell: Cell) -> bool:
        """Return whether all the line's conditions hold for a cell."""
        return all(getattr(cell, name) in _allowed(name, values) for name, values in self.when.items())

    @property
    def is_refusal(self) -> bool:
        """Whether nothing is written."""
        return not self.answer.startswith(REPLAYED)


@cache
def _allowed(dimension: str, values: tuple[str, ...]) -> frozenset[str]:
    """Return the values that a condition means."""
    if values[0].startswith("not "):
        return frozenset(DIMENSIONS[dimension]) - {value.removeprefix("not ") for value in values}
    return frozenset(values)


_ITEM_OWNS: Final = {"attempt": ("1+",)}
_EVENT_OWNS: Final = {"attempt": ("0",)}
_MIRROR_OWNED: Final = {**_EVENT_OWNS, "item_state": (f"not {NO_ITEM}",)}
_ALONE: Final = {**_EVENT_OWNS, "item_state": (NO_ITEM,)}
_PROJECTION: Final = {"execution": ("source_projection",)}

LINES: Final[tuple[Line, ...]] = (
    Line(
        name="reconciled",
        when={"item_state": ("reconciled_legacy_terminal",)},
        answer="legacy_reconciled",
        source="durable-work 11.1 step 5; DESIGN 6",
        says="a reconciled WorkItem is immutable and never reopened, reset or reused, claimed or not",
        is_open=True,
    ),
    # The WorkItem owns: it was claimed.
    Line(
        name="item not dead",
        when={**_ITEM_OWNS, "item_state": ("not dead",)},
        answer="not_dead",
        source="Ownership gate 1; Replay transaction, steps 4 and 5",
        says="terminal `dead` state is required of the WorkItem, whatever the Event's status",
    ),
    Line(
        name="item replayed",
        when={**_ITEM_OWNS, "item_replayed": ("set",)},
        answer="already_replayed",
        source="Replay transaction, step 5; Invariant 3",
        says="the WorkItem's `ReplayedAt` is the reservation, and there is one child",
    ),
    Line(
        name="event fence",
        when={**_ITEM_OWNS, "event_replayed": ("set",)},
        answer="event_replay_fence",
        source="Replay transaction, steps 2 and 6; Invariant 1",
        says="a committed pre-cut `Event.ReplayedAt` fails closed",
        evidence=("A-17",),
    ),
    # The Event owns: its WorkItem was never claimed, or there is none.
    Line(
        name="event not dead",
        when={**_EVENT_OWNS, "event_status": ("not dead",)},
        answer="not_dead",
        source="Ownership gate 2 and 3; Replay transaction, legacy generation",
        says="the Event's `dead` state is the authority, whatever the mirror's state",
    ),
    Line(
        name="event replayed",
        when={**_EVENT_OWNS, "event_replayed": ("set",)},
        answer="already_replayed",
        source="Replay transaction, legacy generation",
        says="the Event's `ReplayedAt` compare-and-set is the reservation",
    ),
    Line(
        name="mirror ran",
        when={**_EVENT_OWNS, "item_state": ("processing", "succeeded", "skipped")},
        answer="mirror_conflict",
        source="Replay transaction, zero-attempt mirror",
        says="a processing, processed or skipped zero-attempt mirror fails closed",
        evidence=("A-06",),
    ),
    Line(
        name="mirror otherwise",
        when={**_EVENT_OWNS, "item_state": ("cancelled", "awaiting_legacy_outcome", "legacy_outcome_unknown")},
        answer="mirror_conflict",
        source="Replay transaction, zero-attempt mirror",
        says="an otherwise conflicting mirror fails closed: every state but pending, retry, blocked and dead",
        evidence=("A-06",),
        is_open=True,
    ),
    Line(
        name="mirror replayed",
        when={**_EVENT_OWNS, "item_replayed": ("set",)},
        answer="mirror_conflict",
        source="Replay transaction, zero-attempt mirror",
        says="an already-replayed zero-attempt mirror fails closed",
        evidence=("A-06",),
    ),
    # Whoever owns: where the replay goes.
    Line(
        name="route swept",
        when={"route": ("swept",)},
        answer="route_not_live",
        source="Replay transaction, step 8",
        says="the current route version must be live",
    ),
    Line(
        name="snapshot missing",
        when={**_ALONE, "route": ("snapshot_missing",)},
        answer="route_snapshot_unavailable",
        source="Replay transaction, step 7",
        says="an Event-only row with a source lane derives its class from its route snapshot and fails closed without",
        evidence=("A-13",),
    ),
    Line(
        name="claimed projection to per-event",
        when={**_ITEM_OWNS, **_PROJECTION, "route": ("changed_class",)},
        answer="execution_class_changed",
        source="Source-projection replay, third paragraph",
        says="a target route that changed to per-event invocation is a conflict",
        evidence=("A-11",),
    ),
    Line(
        name="Event-only projection to per-event",
        when={**_ALONE, **_PROJECTION, "route": ("changed_class",)},
        answer="execution_class_changed",
        source="Source-projection replay, third paragraph",
        says="the same of an Event without a WorkItem",
        evidence=("A-12",),
    ),
    Line(
        name="mirrored projection to per-event",
        when={**_MIRROR_OWNED, **_PROJECTION, "route": ("changed_class",)},
        answer="execution_class_changed",
        source="Source-projection replay, third paragraph",
        says="the same of a zero-attempt mirror",
        evidence=("A-36",),
    ),
    Line(
        name="per-event to projection",
        when={"execution": ("per_event",), "route": ("changed_class",)},
        answer="execution_class_changed",
        source="Replay transaction, step 8",
        says="the route must retain the class, the other way round as well",
    ),
    # A projection's source scope.
    Line(
        name="active successor",
        when={**_PROJECTION, "successor": ("active",)},
        answer="active_generation_in_scope",
        source="Source-projection replay, second paragraph",
        says="any other nonterminal generation of the scope is a conflict, and nothing is consumed",
        evidence=("A-07", "A-09", "A-26"),
    ),
    Line(
        name="queued successor",
        when={**_PROJECTION, "successor": ("queued",)},
        answer="active_generation_in_scope",
        source="Source-projection replay, second paragraph",
        says="queued successors, whose active key is null, are included",
        evidence=("A-26",),
    ),
    Line(
        name="Event-only successor",
        when={**_PROJECTION, "successor": ("event_only",)},
        answer="event_only_successor",
        source="Source-projection replay, fourth paragraph",
        says="a nonterminal Event of the scope without a WorkItem fails closed",
        evidence=("A-10",),
    ),
    # Nothing refuses.
    Line(
        name="item replay",
        when=_ITEM_OWNS,
        answer=f"{REPLAYED}: work_item",
        source="Replay transaction, steps 5 to 9; Invariants 1 and 8",
        says="the WorkItem is marked, the Event left alone, the child names the WorkItem",
        evidence=("A-16", "A-19", "A-20", "A-22", "A-33"),
    ),
    Line(
        name="Event-only replay",
        when=_ALONE,
        answer=f"{REPLAYED}: event_only",
        source="Ownership gate 3; Replay transaction, legacy generation",
        says="the Event is marked; the child has no WorkItem lineage",
        evidence=("A-08",),
    ),
    Line(
        name="mirror replay",
        when=_MIRROR_OWNED,
        answer=f"{REPLAYED}: mirror",
        source="Ownership gate 2; Replay transaction, zero-attempt mirror; Invariant 6",
        says="the Event is marked, the mirror ended with it, the child names the mirror",
        evidence=("A-04",),
    ),
)


@cache
def decide(cell: Cell) -> Line:
    """Return the line that decides a cell."""
    return next(line for line in LINES if line.speaks_for(cell))


def refusals_for(cell: Cell) -> tuple[str, ...]:
    """Return every code that some line has for a cell, the first one first."""
    return tuple(dict.fromkeys(line.answer for line in LINES if line.is_refusal and line.speaks_for(cell)))


def breaks_a_key(cell: Cell) -> bool:
    """Return whether the unique active key forbids a cell, if the successor is of the original's own projection.

    A generation that has not ended holds `ProjectionActiveKey`; a second one of the same projection cannot.
    """
    return cell.execution == "source_projection" and cell.successor == "active" and cell.item_state in UNENDED_STATES


def count_answers(cells: Iterable[Cell]) -> Counter[str]:
    """Return how many of the cells have each answer."""
    return Counter(decide(cell).answer for cell in cells)
