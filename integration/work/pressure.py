"""Queue depth, rates and lane pressure, read from the WorkItems each time.

Nothing here is kept between two readings, in this process or in a table: a figure that could differ from the rows
would be a second authority over the queue.

Rule: K-13.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from integration.states import NONTERMINAL_STATES, TERMINAL_STATES, WorkItemState, stored
from integration.storage import db
from integration.storage.probe import capabilities
from integration.storage.sql import pressure as sql
from integration.work.families import CONNECTOR, FAMILIES

SHORT_SECONDS: Final = 60
LONG_SECONDS: Final = 300
#: Where counting stops, in rows of each state: entries of an index alone, and rows that are looked up.
COVERED_CAP: Final = 10_000
LOOKED_UP_CAP: Final = 2_000
_DUE_STATES: Final = (WorkItemState.PENDING, WorkItemState.RETRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPressure:
    """What one family's WorkItems say of its queue.

    Attributes:
        depth: How many items stand in each nonterminal state.
        oldest_due_seconds: How long the longest waiting due item could have been claimed; 0.0 when none is due.
        ended_short: How many ended within the last `SHORT_SECONDS`, by outcome.
        ended_long: The same of the last `LONG_SECONDS`.
        ended_per_second: The rate of each outcome over `LONG_SECONDS`; where the count stopped at its cap, over the
            time that the counted ends took.
        in_lanes: How many of the sampled items stand in a source lane.
        behind_heads: How many of those wait behind an earlier one of their lane and incarnation.
        capped: For "depth", "ended" and "lanes" whether counting stopped at a cap: the family has at least what is
            said. Families of one table share its caps.
    """

    depth: dict[WorkItemState, int]
    oldest_due_seconds: float
    ended_short: dict[WorkItemState, int]
    ended_long: dict[WorkItemState, int]
    ended_per_second: dict[WorkItemState, float]
    in_lanes: int
    behind_heads: int
    capped: dict[str, bool]

    @property
    def unended(self) -> int:
        """How many items have not ended."""
        return sum(self.depth.values())

    @property
    def succeeded_per_minute(self) -> float:
        """How many items a minute succeed."""
        return 60 * self.ended_per_second.get(WorkItemState.SUCCEEDED, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Where counting stops, in rows of each state.

    Attributes:
        covered: For what an index tells alone.
        looked_up: For what reads rows.
    """

    covered: int = COVERED_CAP
    looked_up: int = LOOKED_UP_CAP


def read_pressure(caps: Caps | None = None) -> dict[str, FamilyPressure]:
    """Read the pressure of every family.

    Args:
        caps: Where counting stops; the usual caps when None.

    Returns:
        The families' figures by name, all families, in their order. Rows of a family that this build does not know
        are left out.

    Raises:
        UnknownState: Another build wrote a state that this one does not know.

    Locks: none.
    Rule: K-13.
    """
    caps = caps or Caps()
    others = [name for name in FAMILIES if name != CONNECTOR.name]
    # An end's time came with a later vintage than the table.
    has_ends = capabilities().has_additive
    return {
        **_read_table(sql.CONNECTOR, [CONNECTOR.name], caps.covered, caps.looked_up, has_ends=has_ends),
        **_read_table(sql.INTEGRATION, others, caps.looked_up, caps.looked_up, has_ends=True),
    }


def _read_table(
    statements: sql.PressureStatements, families: list[str], cap: int, lane_cap: int, *, has_ends: bool
) -> dict[str, FamilyPressure]:
    reader = db.read()
    spans = {"short_seconds": SHORT_SECONDS, "long_seconds": LONG_SECONDS, "cap": cap}
    depth = reader.fetch_all(statements.read_depth, {"cap": cap})
    ended = reader.fetch_all(statements.read_ended, spans) if has_ends else []
    lanes = {row["WorkFamily"]: row for row in reader.fetch_all(statements.read_lanes, {"cap": lane_cap})}
    ended_capped = _at_cap(ended, "FoundLong", cap)
    spans_of_states = _spans(ended, ended_capped)
    capped = {
        "depth": bool(_at_cap(depth, "Found", cap)),
        "ended": bool(ended_capped),
        "lanes": bool(_at_cap(depth, "Found", min(cap, lane_cap))),
    }
    return {
        family: FamilyPressure(
            depth=_by_state(_of(family, depth), "Found", NONTERMINAL_STATES),
            oldest_due_seconds=_oldest_due(_of(family, depth)),
            ended_short=_by_state(_of(family, ended), "FoundShort", TERMINAL_STATES),
            ended_long=_by_state(_of(family, ended), "FoundLong", TERMINAL_STATES),
            ended_per_second={
                state: count / spans_of_states.get(state, LONG_SECONDS)
                for state, count in _by_state(_of(family, ended), "FoundLong", TERMINAL_STATES).items()
            },
            in_lanes=int(lanes[family]["InLanes"]) if family in lanes else 0,
            behind_heads=int(lanes[family]["Behind"]) if family in lanes else 0,
            capped=capped,
        )
        for family in families
    }


def _of(family: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["WorkFamily"] == family]


def _by_state(
    rows: Iterable[dict[str, Any]], column: str, states: frozenset[WorkItemState]
) -> dict[WorkItemState, int]:
    found = {stored(WorkItemState, row["State"]): int(row[column]) for row in rows}
    return {state: found.get(state, 0) for state in WorkItemState if state in states}


def _oldest_due(rows: Iterable[dict[str, Any]]) -> float:
    waits = [int(row["DueMicroseconds"]) for row in rows if row["State"] in _DUE_STATES]
    return max([0, *waits]) / 1_000_000


def _at_cap(rows: Iterable[dict[str, Any]], column: str, cap: int) -> frozenset[str]:
    """Return the states whose rows, of all families together, reach a cap."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["State"]] = totals.get(row["State"], 0) + int(row[column])
    return frozenset(state for state, total in totals.items() if total >= cap)


def _spans(ended: Iterable[dict[str, Any]], capped: frozenset[str]) -> dict[WorkItemState, float]:
    """Return over how many seconds the ends of each capped state were counted, at least one."""
    spans: dict[WorkItemState, float] = {}
    for row in ended:
        if row["State"] in capped:
            state = stored(WorkItemState, row["State"])
            spans[state] = max(spans.get(state, 1.0), int(row["SpanMicroseconds"]) / 1_000_000)
    return spans
