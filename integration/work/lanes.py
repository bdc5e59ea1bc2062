"""Which source lanes are held up, and by which head: what an operator has to look at before anything behind it runs.

A lane is one incarnation's: its items are claimed one after the other, by their position. What is looked at is a sample
of what has not ended; of each lane in it the head is read exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.states import WorkItemState, stored
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import lanes as sql
from integration.storage.sql import work_items
from integration.work.reads import PackName, pack_names
from integration.work.rules import rules_of

#: How many items of each state are sampled, the longest waiting first.
SAMPLE: Final = 1_000
#: Of how many lanes of the sample the head is read, those with most items first.
MOST_LANES: Final = 300
#: How many lanes a page shows.
SHOWN: Final = 100


class Hold(StrEnum):
    """What holds a lane up; in the order in which an operator wants to know."""

    #: A dead item of a route that stops its lane; a replay lets it go on.
    DEAD = "dead"
    #: A rollback has given the head to the legacy executor.
    LEGACY = "legacy"
    #: The head waits for an item of another lane.
    BLOCKED = "blocked"
    #: The head failed and waits for its next attempt.
    RETRY = "retry"


_HOLD_OF_STATE: Final = {
    WorkItemState.BLOCKED: Hold.BLOCKED,
    WorkItemState.RETRY: Hold.RETRY,
    WorkItemState.AWAITING_LEGACY_OUTCOME: Hold.LEGACY,
    WorkItemState.LEGACY_OUTCOME_UNKNOWN: Hold.LEGACY,
}
_ORDER: Final = tuple(Hold)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFilters:
    """What a list of lanes is narrowed to; None means everything.

    Attributes:
        namespace: A namespace, exact.
    """

    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The item that a lane waits for."""

    work_id: str
    state: WorkItemState
    event_kind: str
    attempt: int
    max_attempts: int
    run_after: datetime
    terminal_at: datetime | None
    blocked_on: str | None
    blocked_since: datetime | None
    target_lane: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A source lane that is held up.

    Attributes:
        namespace: Its namespace.
        pack: Its incarnation; None if the pack row is gone.
        source_lane: Its name.
        hold: What holds it up.
        head: The item that does.
        behind: How many sampled items wait behind it; there may be more.
    """

    namespace: str
    pack: PackName | None
    source_lane: str
    hold: Hold
    head: Head
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """What a look at the lanes found.

    Attributes:
        held: Lanes that are held up: by what holds them, and of those the longest first.
        is_cut: More are held up than are listed.
        flowing: Further lanes in which items wait behind one that runs or may be claimed.
        is_known: False where the schema does not hold the items' positions.
    """

    held: tuple[Lane, ...] = ()
    is_cut: bool = False
    flowing: int = 0
    is_known: bool = True


def read_lanes(
    filters: LaneFilters | None = None,
    *,
    within: Scope = EVERYWHERE,
    sample: int = SAMPLE,
    shown: int = SHOWN,
) -> LaneReport:
    """Return the lanes that are held up.

    Args:
        filters: What to narrow the list to.
        within: Where the reader may look, at most 20 namespaces; they share the sample.
        sample: How many items of each state are looked at, the longest waiting first.
        shown: How many lanes are returned at the most.

    Raises:
        InvalidInput: The reader has to name a namespace.

    Locks: none.
    """
    if not capabilities().has_ranges:
        return LaneReport(is_known=False)
    reader = db.read()
    found = _sample(reader, names_to_read(within, filters.namespace if filters else None), sample)
    if not found:
        return LaneReport()
    heads = _heads(reader, [row["WorkId"] for row in found])
    stopped = _stopped(reader, found, heads)
    packs = pack_names(row["PackInstallId"] for row in found)
    held, flowing = [], 0
    for row in found:
        # What ended between two statements holds nothing up.
        head, behind = heads.get(row["WorkId"]), int(row["Found"]) - 1
        if row["WorkId"] in stopped:
            held.append(_lane(row, packs, Hold.DEAD, stopped[row["WorkId"]], behind + 1))
        elif head is not None and (hold := _hold_of(head, behind)) is not None:
            held.append(_lane(row, packs, hold, head, behind))
        elif behind:
            flowing += 1
    held.sort(key=lambda lane: (_ORDER.index(lane.hold), -lane.behind))
    return LaneReport(held=tuple(held[:shown]), is_cut=len(held) > shown, flowing=flowing)


def _sample(reader: Reader, names: Collection[str] | None, sample: int) -> list[Row]:
    """Return the lanes of a sample, those with most items first: of everything, or of some namespaces alone."""
    params = {"cap": sample, "lanes": MOST_LANES}
    if names is None:
        return reader.fetch_all(sql.LIST_SAMPLED_LANES, params)
    params["cap"] = max(1, sample // max(1, len(names)))
    statement = sql.LIST_SAMPLED_LANES_OF_NAMESPACE
    found = [row for name in names for row in reader.fetch_all(statement, {**params, "namespace": name})]
    found.sort(key=lambda row: (-int(row["Found"]), row["WorkId"]))
    return found[:MOST_LANES]


def _hold_of(head: Row, behind: int) -> Hold | None:
    hold = _HOLD_OF_STATE.get(stored(WorkItemState, head["State"]))
    # An item that will be tried again holds up nobody while it is alone.
    return None if hold is Hold.RETRY and not behind else hold


def _heads(reader: Reader, work_ids: Sequence[str]) -> dict[str, Row]:
    """Return the head of each item's lane, by the item."""
    firsts = {
        row["WorkId"]: [row[state.value] for state in WorkItemState if row.get(state.value) is not None]
        for row in reader.fetch_all(sql.LIST_FIRST_OF_LANES, {"work_ids": tuple(work_ids)})
    }
    items = _items(reader, (first for found in firsts.values() for first in found))
    heads = {}
    for work_id, found in firsts.items():
        rows = [items[first] for first in found if first in items and items[first]["LanePosition"] is not None]
        if rows:
            heads[work_id] = min(rows, key=lambda row: row["LanePosition"])
    return heads


def _stopped(reader: Reader, lanes: Iterable[Row], heads: dict[str, Row]) -> dict[str, Row]:
    """Return the dead item that stops a lane, by the item that stands for the lane."""
    by_pack: dict[str, dict[str, str]] = defaultdict(dict)
    for row in lanes:
        if row["WorkId"] in heads:
            by_pack[row["PackInstallId"]][heads[row["WorkId"]]["WorkId"]] = row["WorkId"]
    stopped_by: dict[str, str] = {}
    for pack_install_id, items in by_pack.items():
        routes = rules_of(pack_install_id).stopping_routes
        if not routes:
            continue
        params = {"work_ids": tuple(items), "pack_install_ids": (pack_install_id,), "route_ids": routes}
        for row in reader.fetch_all(work_items.LIST_STOPPED, params):
            if row["StoppedBy"] is not None:
                stopped_by[items[row["WorkId"]]] = row["StoppedBy"]
    found = _items(reader, stopped_by.values())
    return {work_id: found[dead] for work_id, dead in stopped_by.items() if dead in found}


def _items(reader: Reader, work_ids: Iterable[str]) -> dict[str, Row]:
    wanted = tuple(sorted(set(work_ids)))
    if not wanted:
        return {}
    return {row["WorkId"]: row for row in reader.fetch_all(sql.LIST_LANE_ITEMS, {"work_ids": wanted})}


def _lane(row: Row, packs: dict[str, PackName], hold: Hold, head: Row, behind: int) -> Lane:
    return Lane(
        namespace=row["Namespace"],
        pack=packs.get(row["PackInstallId"]),
        source_lane=row["SourceLane"],
        hold=hold,
        behind=behind,
        head=Head(
            work_id=head["WorkId"],
            state=stored(WorkItemState, head["State"]),
            event_kind=head["EventKind"],
            attempt=head["Attempt"],
            max_attempts=head["MaxAttempts"],
            run_after=head["RunAfter"],
            terminal_at=head["TerminalAt"],
            blocked_on=head["BlockedOn"],
            blocked_since=head["BlockedSince"],
            target_lane=head["TargetLane"],
        ),
    )
