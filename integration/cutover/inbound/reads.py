"""What an inbound cutover is decided on, read from rows alone; the caller's locks make it hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from integration import errors
from integration.catalog.reads import RouteDefinition, get_route
from integration.cutover import receipts
from integration.cutover.inbound.claimers import Kind, list_claimers
from integration.cutover.inbound.policy import MOVED, Facts, Obstacle, find_obstacles
from integration.projection.coverage import read_cutoffs
from integration.states import (
    NONTERMINAL_STATES,
    TERMINAL_EVENT_STATUSES,
    EventStatus,
    ExecutionClass,
    ExecutionOwner,
    WorkItemState,
)
from integration.storage import probe
from integration.storage.db import Reader, Row
from integration.storage.probe import Capabilities
from integration.storage.sql import cutovers, scheduler_leases
from integration.storage.sql.scheduler_leases import EVENT_EXECUTOR, SEIZED
from integration.storage.statements import Statement
from integration.work.reap import SLACK_SECONDS

OPEN_STATUSES: Final = frozenset(EventStatus) - TERMINAL_EVENT_STATUSES


class Without(StrEnum):
    """Why an Event has no work, by what its route says."""

    #: Its route makes a WorkItem of each Event.
    PER_EVENT = "per_event"
    #: Its route coalesces Events into ranges.
    RANGE = "range"
    #: The route is not there, or this build cannot read it.
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the pack's tables hold in all, counted without locks.

    Attributes:
        events: Events by owner and status, `owner/status`.
        work_items: WorkItems by state.
    """

    events: dict[str, int]
    work_items: dict[str, int]


def read_history(reader: Reader, pack_install_id: str) -> History:
    """Count a pack's Events and WorkItems, ended ones too; once a cutover, before its locks."""
    by_id = {"pack_install_id": pack_install_id}
    events = _count_events(reader, pack_install_id, ExecutionOwner, EventStatus)
    items = reader.fetch_all(cutovers.COUNT_WORK_ITEMS_OF_PACK, {**by_id, "states": tuple(sorted(WorkItemState))})
    return History(
        events={f"{row['ExecutionOwner']}/{row['Status']}": row["Found"] for row in events},
        work_items={row["State"]: row["Found"] for row in items},
    )


def read_facts(reader: Reader, pack: Row, *, is_attested: bool) -> Facts:
    """Read what stands in the way of a pack's forward cutover.

    Args:
        reader: A transaction that holds the pack and its claimers, or a reader, whose answer may be old at once.
        pack: The incarnation's row.
        is_attested: The operator said that no unregistered process can claim.

    Returns:
        The facts; of a database without a complete schema, only that.
    """
    pack_install_id = pack["PackInstallId"]
    missing = missing_of(probe.capabilities(fresh=True))
    if missing:
        return Facts(pack_status=pack["Status"], missing_schema=len(missing), is_attested=is_attested)
    by_id = {"pack_install_id": pack_install_id}
    states = reader.fetch_all(cutovers.COUNT_WORK_ITEMS_OF_PACK, {**by_id, "states": tuple(sorted(NONTERMINAL_STATES))})
    items = {row["State"]: row["Found"] for row in states}
    running = Counter(claimer.kind for claimer in list_claimers(reader, pack_install_id) if claimer.ended is None)
    without = count_events_without_work(reader, pack_install_id)
    left_behind = _fetch(reader, cutovers.COUNT_MIRRORS_LEFT_BEHIND, pack_install_id)
    endless = _fetch(reader, cutovers.COUNT_ENDLESS_CLAIMS, pack_install_id)
    lost = _fetch(reader, cutovers.COUNT_LOST_WORK_ITEMS, pack_install_id)
    return Facts(
        pack_status=pack["Status"],
        receipt_faults=receipts.count_faults(reader, pack_install_id),
        is_attested=is_attested,
        is_stopped=is_stopped(reader, pack_install_id),
        executors=running.total() - running[Kind.WORK_ITEM],
        workers=running[Kind.WORK_ITEM],
        events_processing=_sum(_count_events(reader, pack_install_id, ExecutionOwner, [EventStatus.PROCESSING])),
        event_claims=_count(reader, cutovers.COUNT_EVENT_CLAIMS, pack_install_id),
        events_to_materialize=without[Without.PER_EVENT],
        events_without_range=without[Without.RANGE],
        events_without_route=without[Without.ROUTE],
        ambiguous_events=_count(reader, cutovers.COUNT_AMBIGUOUS_EVENTS, pack_install_id),
        mirrors_left_behind=left_behind["Found"],
        left_behind_id=left_behind["WorkId"],
        endless_claims=endless["Found"],
        endless_claim_id=endless["EventId"],
        work_items_lost=lost["Found"],
        lost_id=lost["WorkId"],
        work_items_processing=items.get(WorkItemState.PROCESSING, 0),
        outcomes_awaited=items.get(WorkItemState.AWAITING_LEGACY_OUTCOME, 0),
        outcomes_unknown=items.get(WorkItemState.LEGACY_OUTCOME_UNKNOWN, 0),
        outcomes_unconfirmed=_count(reader, cutovers.COUNT_UNCONFIRMED_OUTCOMES, pack_install_id),
        unclosed_rollbacks=_count(reader, cutovers.COUNT_UNCLOSED_ROLLBACKS, pack_install_id),
    )


def find_unfinished_rollback(reader: Reader, pack: Row) -> tuple[Obstacle, ...]:
    """Return the rollback that has begun to take a moved pack's work back; until it is over nobody claims.

    Args:
        reader: A transaction that holds the pack, or a reader, whose answer may be old at once.
        pack: The incarnation's row; its newest receipt is a forward one.
    """
    unclosed = _count(reader, cutovers.COUNT_UNCLOSED_ROLLBACKS, pack["PackInstallId"])
    return find_obstacles(replace(MOVED, unclosed_rollbacks=unclosed))


def read_coverage(reader: Reader, pack_install_id: str) -> dict[str, Any]:
    """Return how many Events wait and are the Event executor's, and of how many the WorkItem has ended: JSON values."""
    return {
        "owned_by_event": _sum(_count_events(reader, pack_install_id, [ExecutionOwner.EVENT], OPEN_STATUSES)),
        "work_item_ended": _count(reader, cutovers.COUNT_EVENTS_LEFT_BEHIND, pack_install_id),
    }


def count_events_without_work(reader: Reader, pack_install_id: str) -> Counter[Without]:
    """Count the Events that have not ended and that no WorkItem names, by what their route says.

    An input of a source projection that a projection cutover has found covered is not counted: a generation of the old
    protocol took it, so that nobody executes it again.
    """
    found: Counter[Without] = Counter()
    cutoff = read_cutoffs(reader, (pack_install_id,)).get(pack_install_id)
    params = {"pack_install_id": pack_install_id, "cutoff": cutoff}
    for row in reader.fetch_all(cutovers.COUNT_EVENTS_WITHOUT_WORK, params):
        without = _without(row["RouteId"])
        found[without] += row["Found"] - (int(row["UpToCutoff"]) if without is Without.RANGE else 0)
    return found


def list_materializing_routes(reader: Reader, pack_install_id: str) -> dict[str, RouteDefinition]:
    """Return the routes of Events without work that make a WorkItem of each, by id."""
    params = {"pack_install_id": pack_install_id, "cutoff": None}
    rows = reader.fetch_all(cutovers.COUNT_EVENTS_WITHOUT_WORK, params)
    return {row["RouteId"]: get_route(row["RouteId"]) for row in rows if _without(row["RouteId"]) is Without.PER_EVENT}


def is_stopped(reader: Reader, pack_install_id: str) -> bool:
    """Return whether a cutover holds every scheduler lease of a pack, the executor's among them."""
    rows = reader.fetch_all(scheduler_leases.LIST_SCHEDULER_LEASES, {"pack_install_id": pack_install_id})
    owners = {row["LeaseName"]: row["LeaseOwner"] for row in rows}
    return EVENT_EXECUTOR in owners and set(owners.values()) == {SEIZED}


def missing_of(found: Capabilities) -> tuple[str, ...]:
    """Return what the schema lacks of what is declared."""
    return (*found.missing_tables, *found.missing_columns, *found.missing_keys)


def _without(route_id: str) -> Without:
    try:
        route = get_route(route_id)
    except (errors.RouteNotFound, ValueError):
        return Without.ROUTE
    return Without.RANGE if route.execution_class is ExecutionClass.SOURCE_PROJECTION else Without.PER_EVENT


def _count_events(
    reader: Reader, pack_install_id: str, owners: Iterable[ExecutionOwner], statuses: Iterable[EventStatus]
) -> list[Row]:
    params = {"pack_install_id": pack_install_id, "owners": tuple(sorted(owners)), "statuses": tuple(sorted(statuses))}
    return reader.fetch_all(cutovers.COUNT_EVENTS_OF_PACK, params)


def _sum(rows: Sequence[Row]) -> int:
    return sum(row["Found"] for row in rows)


def _fetch(reader: Reader, statement: Statement, pack_install_id: str) -> Row:
    row = reader.fetch_one(statement, {"pack_install_id": pack_install_id, "slack_seconds": SLACK_SECONDS})
    if row is None:
        raise errors.InvariantBroken
    return row


def _count(reader: Reader, statement: Statement, pack_install_id: str) -> int:
    return int(_fetch(reader, statement, pack_install_id)["Found"])
