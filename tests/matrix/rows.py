"""The rows of a cell: a namespace, a pack and a route of its own, an original, and what else of its source is to run.

Rows are collected and stored many at a time; one statement a row would take longer than what is tested.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias
from unittest import mock

from django.db import IntegrityError, connections, transaction

from integration.authority.values import Ref, RefKind
from integration.values import new_id
from tests.matrix.cells import NO_ITEM, UNENDED_STATES, Cell
from tests.matrix.table import breaks_a_key
from tests.support import authority
from tests.support.authority import World

Collected: TypeAlias = list[tuple[str, dict[str, Any]]]

EVENTS: Final = "_System_ConnectorEvent"
ITEMS: Final = "_System_ConnectorWorkItem"
ROUTES: Final = "_System_ConnectorRoute"
LANE: Final = "prospect:1"
ACTIVE_KEY: Final = "UX_WorkItem_ProjectionActive"
_DUPLICATE: Final = 1062
_OTHER_CLASS: Final = {"per_event": "source_projection", "source_projection": "per_event"}
#: What an active successor can be doing, and the attempts that it has made then.
_ACTIVE: Final = (("pending", 0), ("processing", 1), ("retry", 2), ("blocked", 0))
_UNENDED_EVENT: Final = ("pending", "processing", "failed")
SAME: Final = "same"
#: What sets another projection of the same source apart.
OTHERS: Final = ("route", "work type", "companion", "pack")


@dataclass(kw_only=True)
class Case:
    """A cell's rows.

    Attributes:
        cell: The cell.
        namespace: Its own, by which what changes is told from what other cells change.
        event_id: The original's Event.
        work_id: The original's WorkItem, if it has one.
        collected: The rows, by table.
    """

    cell: Cell
    namespace: str
    event_id: str
    work_id: str | None
    collected: Collected

    @property
    def ref(self) -> Ref:
        """What the operator points at: the WorkItem or the Event, by an id that says which or does not."""
        named = [(self.event_id, RefKind.EVENT), (self.event_id, RefKind.ANY)]
        if self.work_id is not None:
            named += [(self.work_id, RefKind.WORK_ITEM), (self.work_id, RefKind.ANY)]
        identity, kind = self.cell.pick(named, of="reference")
        return Ref(id=identity, kind=kind)


def make_case(cell: Cell, *, projection: str | None = None) -> Case:
    """Make a cell's rows, without storing them.

    Args:
        cell: The cell.
        projection: What sets the successor's projection apart; without it, the cell's own choice: another than the
            original's where the key forbids that.
    """
    choices = OTHERS if breaks_a_key(cell) else (SAME, *OTHERS)
    projection = projection or cell.pick(choices, of="projection")
    collected: Collected = []

    def collect(table: str, **values: Any) -> None:
        collected.append((table, values))

    with mock.patch.object(authority, "insert", collect):
        world = World(namespace=f"matrix-{cell.number}", execution=cell.execution)
        event_id, work_id = new_id(), None if cell.item_state == NO_ITEM else new_id()
        _add_original(world, cell, event_id, work_id)
        _add_successor(world, cell, projection)
        _change_route(world, cell, collected)
    return Case(
        cell=cell,
        namespace=world.namespace,
        event_id=event_id,
        work_id=work_id,
        collected=collected,
    )


def _add_original(world: World, cell: Cell, event_id: str, work_id: str | None) -> None:
    is_claimed = cell.attempt == "1+"
    event: dict[str, Any] = {
        "EventId": event_id,
        "SourceLane": LANE,
        "Status": cell.event_status,
        "ExecutionOwner": "work_item" if is_claimed else "event",
        "RetryCount": 2,
        "TerminalAt": None if cell.event_status in _UNENDED_EVENT else world.now,
        "ReplayedAt": _mark(cell.event_replayed, world.now),
    }
    if cell.route == "snapshot_missing":
        event["RouteSnapshot"] = None
    if work_id is None:
        world.event(**event)
        return
    item: dict[str, Any] = {
        "WorkId": work_id,
        "SourceLane": LANE,
        "Attempt": cell.pick((1, 2, 3), of="attempt") if is_claimed else 0,
        "ReplayedAt": _mark(cell.item_replayed, world.now),
    }
    if cell.item_state == "processing" or not is_claimed:
        # A mirror's stale lease has to be gone with it.
        item |= {"LeaseOwner": "process", "LeaseToken": "token", "LeaseUntil": world.now}
    if cell.item_state == "blocked":
        item |= {"BlockedOn": "event:1", "BlockedSince": world.now}
    if cell.execution == "per_event":
        world.work(cell.item_state, event=event, **item)
        return
    key = world.identity(LANE).key()
    item["ProjectionActiveKey"] = key if cell.item_state in UNENDED_STATES else None
    world.generation(cell.item_state, event=event, ProjectionKey=key, **item)


def _add_successor(world: World, cell: Cell, projection: str) -> None:
    if cell.successor == "none":
        return
    if cell.successor == "event_only":
        world.event(SourceLane=LANE, ExecutionOwner="event", Status=cell.pick(_UNENDED_EVENT, of="status"))
        return
    state, attempt = cell.pick(_ACTIVE, of="state") if cell.successor == "active" else ("pending", 0)
    pack_id = world.pack_id
    if projection == "pack":
        pack_id = new_id()
        world.pack(pack_id, status="retired", incarnation=2)
    version = 7 if projection == "route" else 1
    work_type = "workflow_action_apply" if projection == "work type" else "connector_event"
    companion = ("labels", "2") if projection == "companion" else (None, None)
    key = world.identity(
        LANE,
        pack_install_id=pack_id,
        route_version=version,
        work_type=work_type,
        companion_pack_name=companion[0],
        companion_pack_version=companion[1],
    ).key()
    shared = {"PackInstallId": pack_id, "RouteVersion": version, "WorkType": work_type}
    world.generation(
        state,
        event=shared,
        SourceLane=LANE,
        Attempt=attempt,
        CompanionPackName=companion[0],
        CompanionPackVersion=companion[1],
        ProjectionKey=key,
        ProjectionActiveKey=key if cell.successor == "active" else None,
        **shared,
    )


def _change_route(world: World, cell: Cell, collected: Collected) -> None:
    if cell.route not in {"swept", "changed_class"}:
        return
    for table, values in collected:
        if table == ROUTES:
            values |= {"Status": "swept", "LiveKey": None, "SweptAt": world.now}
    if cell.route == "changed_class":
        world.route(new_id(), world.pack_id, version=2, ExecutionClass=_OTHER_CLASS[cell.execution])


def _mark(value: str, now: datetime) -> datetime | None:
    return now if value == "set" else None


def store(cases: Iterable[Case]) -> None:
    """Store the rows of many cells in one transaction, those of one shape in one statement."""
    shapes: dict[tuple[str, tuple[str, ...]], list[list[Any]]] = defaultdict(list)
    for case in cases:
        for table, values in case.collected:
            # As the database holds them: without their zone.
            row = [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in values.values()]
            shapes[table, tuple(values)].append(row)
    with transaction.atomic(), connections["default"].cursor() as cursor:
        for (table, columns), rows in shapes.items():
            names = ", ".join(f"`{name}`" for name in columns)
            marks = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO `{table}` ({names}) VALUES ({marks})", rows)


def is_refused_by_the_key(cell: Cell) -> bool:
    """Return whether the database refuses a cell's two generations, for the active key that both would hold."""
    try:
        with transaction.atomic():
            store([make_case(cell, projection=SAME)])
            transaction.set_rollback(True)
    except IntegrityError as error:
        return error.args[0] == _DUPLICATE and ACTIVE_KEY in str(error.args[1])
    return False
