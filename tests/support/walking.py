"""The walking workload: many sources, a window that walks over them, and what its inputs must have become."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.catalog.documents import PackDocument
from tests.support import admission, webhooks
from tests.support.work import query

SOURCES = 400
FLOW = "tests.walk"
_DEMO_FLOW = "demo.apply_deal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Which source gets an input, step after step.

    Attributes:
        sources: How many sources there are.
        laps: How often the window comes by each.
        width: How many neighbouring sources one step touches; each of them in every step that the window covers it.
    """

    sources: int = SOURCES
    laps: int = 1
    width: int = 8

    @property
    def count(self) -> int:
        """How many inputs there are."""
        return self.sources * self.laps * self.width

    def steps(self) -> Iterator[list[tuple[int, int]]]:
        """Yield each step's inputs as (source, number), the numbers of a source counting up from 1."""
        given: dict[int, int] = defaultdict(int)
        for step in range(self.sources * self.laps):
            touched = [(step + place) % self.sources + 1 for place in range(self.width)]
            inputs = []
            for source in touched:
                given[source] += 1
                inputs.append((source, given[source]))
            yield inputs


def document(flow: str = FLOW) -> PackDocument:
    """Return the demo's pack whose `deal.created` is a projection that a flow reads whole."""
    return admission.document((_DEMO_FLOW, flow))


def body(source: int, number: int, file: str) -> bytes:
    """Return one input; the flow writes to the file what it was given."""
    return webhooks.deal(source, n=number, file=file)


def faults(walk: Walk, written: Path, *, is_projection: bool = True) -> dict[str, Any]:
    """Return what is wrong after everything has ended; empty when nothing is.

    Args:
        walk: What was admitted.
        written: What the executions wrote down.
        is_projection: The inputs belong to ranges; per-event work has one item each instead.
    """
    first = "w.InputStartOrdinal" if is_projection else "w.LaneOrdinal"
    unfinished = query(
        "SELECT State, COUNT(*) AS n FROM _System_ConnectorWorkItem WHERE State <> 'succeeded' GROUP BY State"
    )
    (events,) = query(
        "SELECT COUNT(*) AS n, MIN(LaneOrdinal) AS low, MAX(LaneOrdinal) AS high FROM _System_ConnectorEvent"
    )
    uncovered = query(
        "SELECT COUNT(*) AS n FROM (SELECT e.EventId, COUNT(w.WorkId) AS held FROM _System_ConnectorEvent e"
        " LEFT JOIN _System_ConnectorWorkItem w ON w.PackInstallId = e.PackInstallId AND w.EventKind = e.EventKind"
        " AND w.SourceLane = e.SourceLane AND w.RouteVersion = e.RouteVersion AND w.WorkType = e.WorkType"
        f" AND {first} <= e.LaneOrdinal AND w.LaneOrdinal >= e.LaneOrdinal"
        " GROUP BY e.EventId) AS covered WHERE held <> 1"
    )[0]["n"]
    (selected,) = query(
        "SELECT COUNT(*) AS n FROM _System_ConnectorWorkItem w JOIN _System_ConnectorEvent e ON e.EventId = w.EventId"
        " WHERE e.LaneOrdinal <> w.LaneOrdinal OR e.SourceLane <> w.SourceLane"
    )
    keys = query("SELECT WorkId FROM _System_ConnectorWorkItem WHERE ProjectionActiveKey IS NOT NULL")
    given, twice = _given(written)
    expected = {source: list(range(1, walk.laps * walk.width + 1)) for source in range(1, walk.sources + 1)}
    found: dict[str, Any] = {
        "not succeeded": unfinished,
        "events": None if events["n"] == walk.count else events["n"],
        "ordinals": None if (events["low"], events["high"]) == (1, walk.count) else (events["low"], events["high"]),
        "inputs not in exactly one generation": uncovered,
        "generations whose selected Event is another": selected["n"],
        "active keys left": [row["WorkId"] for row in keys],
        "generations executed twice": twice,
        "sources whose inputs were not given once and in order": sorted(
            source for source in expected if given.get(source) != expected[source]
        ),
    }
    return {name: value for name, value in found.items() if value}


def _given(written: Path) -> tuple[dict[int, list[int]], list[str]]:
    """Return each source's inputs in the order of its generations, and the generations that were executed twice."""
    executed: dict[str, list[list[int]]] = defaultdict(list)
    for line in written.read_text(encoding="ascii").splitlines() if written.exists() else []:
        work_id, numbers = json.loads(line)
        executed[work_id].append(numbers)
    rows = query("SELECT WorkId, SourceLane FROM _System_ConnectorWorkItem ORDER BY SourceLane, LaneOrdinal")
    given: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        for numbers in executed.get(row["WorkId"], [])[:1]:
            given[int(row["SourceLane"].removeprefix("deal:"))] += numbers
    return given, [work_id for work_id, runs in executed.items() if len(runs) > 1]
