"""What the documents leave open, and how it was decided; where two refusals meet, which is said. Pure.

Each decision names its cells: a test holds the answers against the table, and the page counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.matrix.cells import NO_ITEM, Cell
from tests.matrix.table import REPLAYED, decide

_BRIDGE: Final = ("awaiting_legacy_outcome", "legacy_outcome_unknown")
_REFUSED_FOR_ROUTE: Final = ("route_not_live", "execution_class_changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One point.

    Attributes:
        cells: Whether it is about a cell.
        question: What the documents do not say.
        answers: What the table says of its cells: codes, or `replayed` for any owner.
        why: The reason.
    """

    cells: Callable[[Cell], bool]
    question: str
    answers: tuple[str, ...]
    why: str


def _owned_by_item(cell: Cell) -> bool:
    return cell.attempt == "1+"


def _mirror(cell: Cell) -> bool:
    return cell.attempt == "0" and cell.item_state != NO_ITEM


def _let_through(cell: Cell) -> bool:
    """Return whether nothing but its route and its source can refuse a cell."""
    return decide(cell).answer in {
        *_REFUSED_FOR_ROUTE,
        "route_snapshot_unavailable",
        "active_generation_in_scope",
        "event_only_successor",
    } or decide(cell).answer.startswith(REPLAYED)


DECISIONS: Final[tuple[Decision, ...]] = (
    Decision(
        cells=lambda cell: cell.item_state == "reconciled_legacy_terminal",
        question="a reconciled WorkItem: by gate 2 an unclaimed one leaves the authority to its Event",
        answers=("legacy_reconciled",),
        why="durable-work 11.1: it is immutable and its identity is never reused; said first, whatever the Event is",
    ),
    Decision(
        cells=lambda cell: (
            _mirror(cell)
            and cell.event_status == "dead"
            and cell.item_state in {"cancelled", *_BRIDGE}
            and cell.event_replayed == "null"
        ),
        question="a dead Event's unclaimed mirror that is cancelled, or fenced by a rollback",
        answers=("mirror_conflict",),
        why="'otherwise conflicting': only pending, retry, blocked and dead are named as states that may be ended",
    ),
    Decision(
        cells=lambda cell: _owned_by_item(cell) and cell.item_state in _BRIDGE,
        question="a claimed WorkItem that a rollback has fenced",
        answers=("not_dead",),
        why="its end is the legacy executor's to tell; until then it has not ended",
    ),
    Decision(
        cells=lambda cell: (
            (
                _owned_by_item(cell)
                and cell.item_replayed == "set"
                and cell.item_state not in {"dead", "reconciled_legacy_terminal"}
            )
            or (
                cell.attempt == "0"
                and cell.event_replayed == "set"
                and cell.event_status != "dead"
                and cell.item_state != "reconciled_legacy_terminal"
            )
        ),
        question="a mark on a row that is not dead, which nobody writes",
        answers=("not_dead",),
        why="step 5 asks for the state before it reserves; either code is right, and the state is what an operator can see",
    ),
    Decision(
        cells=lambda cell: (
            _owned_by_item(cell)
            and (cell.item_state, cell.item_replayed, cell.event_replayed) == ("dead", "set", "set")
        ),
        question="a claimed row with both marks",
        answers=("already_replayed",),
        why="the row's own reservation (step 5) before the Event's fence (step 6): it names the child",
    ),
    Decision(
        cells=lambda cell: (
            _mirror(cell)
            and (cell.event_status, cell.event_replayed) == ("dead", "set")
            and cell.item_state != "reconciled_legacy_terminal"
        ),
        question="a replayed Event, whatever its mirror is",
        answers=("already_replayed",),
        why="the reservation's owner is asked before what else would have to be ended",
    ),
    Decision(
        cells=lambda cell: _let_through(cell) and cell.execution == "per_event" and cell.route == "live",
        question="a per-event row while a generation or an Event of its source is to run",
        answers=(REPLAYED,),
        why="the scope is asked under 'Source-projection replay' alone; a lane's order holds the child back, if anything",
    ),
    Decision(
        cells=lambda cell: (
            _let_through(cell)
            and cell.item_state != NO_ITEM
            and cell.route == "snapshot_missing"
            and cell.successor == "none"
        ),
        question="a lost snapshot of a row that has a WorkItem",
        answers=(REPLAYED,),
        why="step 7: the generation's identity tells the class, the snapshot is asked of Event-only rows alone",
    ),
    Decision(
        cells=lambda cell: (
            _let_through(cell)
            and (cell.item_state, cell.execution, cell.route) == (NO_ITEM, "per_event", "snapshot_missing")
        ),
        question="a lost snapshot of an Event-only row that was per-event",
        answers=("route_snapshot_unavailable",),
        why="it has a source lane, so that without the snapshot nobody can prove that it was",
    ),
    Decision(
        cells=lambda cell: (
            _let_through(cell)
            and cell.execution == "source_projection"
            and cell.successor != "none"
            and cell.route in {"swept", "changed_class"}
        ),
        question="a projection whose route is gone or changed, and whose source has something to run",
        answers=_REFUSED_FOR_ROUTE,
        why="step 8 before the scope: the source may come to its end by itself, the route will not come back",
    ),
    Decision(
        cells=lambda cell: (
            _let_through(cell)
            and (cell.execution, cell.successor, cell.route) == ("source_projection", "queued", "live")
        ),
        question="a queued successor with no active generation before it, which no program leaves behind",
        answers=("active_generation_in_scope",),
        why="it is nonterminal; the sweeper that gives it its key is not the replay's to wait for",
    ),
)


def agrees(decision: Decision, cell: Cell) -> bool:
    """Return whether the table says of a decision's cell what the decision says."""
    return decide(cell).answer.partition(":")[0] in decision.answers
