"""What R8's pairs of operations meet at: a small world, kept as rows, so that every schedule starts from the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections

from batteries import books, kernel
from integration.authority import service
from integration.authority.values import Ref, Refused, Replayed
from integration.catalog import reads
from integration.catalog.activation import activate_pack
from integration.catalog.service import install_pack
from integration.ingress.service import materialize_ready
from integration.projection.sweep import find_keyless_heads
from integration.states import FailureClass
from integration.storage import db
from integration.storage.locks import lock_pack
from integration.storage.sql import routes
from integration.values import SYSTEM_ACTOR
from integration.work import claim as claims
from integration.work import finish
from tests.support import admission, cleaning, webhooks
from tests.support.authority import BORIS, MARIA
from tests.support.work import change, query

ORIGINAL, OTHER = 1, 2
Row = dict[str, Any]
_BURIED: Final = frozenset({"owned", "projection"})
REPLAYS: Final = ("owned", "mirror", "event_only", "projection", "projection_mirror")
#: In which order two of them come about in one lane.
_ORDER: Final = ("owned", "projection", "event_only", "mirror", "projection_mirror")
#: How the replay of another kind is called.
OF: Final = "replay of "
PARTNERS: Final = ("claim", "completion", "admission", "rotation", "sweep")


@dataclass
class World:
    """Rows, and the operations that meet at them.

    Attributes:
        rows: Every row by table.
        operations: What can be run, by name; `replay` and `replay again` are two operators'.
        original_id: The Event of the original, where there is one.
        uncovered: Events that no WorkItem executes from the beginning.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    operations: dict[str, Callable[[], Any]] = field(default_factory=dict)
    original_id: str = ""
    uncovered: frozenset[str] = frozenset()

    def keep(self) -> None:
        """Remember the rows as they are."""
        self.uncovered = frozenset(books.uncovered_events())
        tables = query(
            "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
            " AND (TABLE_NAME LIKE '\\_System\\_%%' OR TABLE_NAME LIKE 'console\\_audit%%')"
        )
        computed = {
            (row["t"], row["c"])
            for row in query(
                "SELECT TABLE_NAME AS t, COLUMN_NAME AS c FROM information_schema.COLUMNS"
                " WHERE TABLE_SCHEMA = DATABASE() AND GENERATION_EXPRESSION <> ''"
            )
        }
        self.rows = {
            name: [
                {column: value for column, value in row.items() if (name, column) not in computed}
                for row in query(f"SELECT * FROM `{name}`")
            ]
            for name in (row["name"] for row in tables)
        }

    def restore(self, tables: Iterable[str]) -> None:
        """Give some tables their rows back."""
        with connections["default"].cursor() as cursor:
            cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
            for table in sorted(tables):
                rows = self.rows[table]
                cursor.execute(f"DELETE FROM `{table}`")
                if rows:
                    columns = ", ".join(f"`{name}`" for name in rows[0])
                    marks = ", ".join(["%s"] * len(rows[0]))
                    cursor.executemany(
                        f"INSERT INTO `{table}` ({columns}) VALUES ({marks})", [list(row.values()) for row in rows]
                    )
            cursor.execute("SET FOREIGN_KEY_CHECKS = 1")
        reads.forget_all()


def make(kind: str, partner: str) -> World:
    """Make the world in which a replay of a kind meets a partner; for two partners of each other, kind is `work`."""
    cleaning.empty_database()
    reads.forget_all()
    world = World()
    is_projection = kind in {"work", "projection", "projection_mirror"}
    document = admission.document() if is_projection else webhooks.pack()
    pack_id = webhooks.activate(document)
    newer = admission.document(admission.NEWER) if is_projection else webhooks.variant("demo", admission.NEWER)
    next_id = install_pack(newer, actor=SYSTEM_ACTOR).pack_install_id
    process = kernel.register()
    admission.inputs(ORIGINAL)
    materialize_ready()
    (candidate,) = kernel.candidates(process, 1)
    fence = kernel.fence_of(process, candidate)
    world.original_id = candidate.event_id
    if kind in _BURIED or kind == "work":
        (held,) = claims.claim((candidate,), fence).claims
        if kind == "work":
            world.operations["completion"] = lambda: finish.complete(held)
        elif partner == "completion":
            world.operations["completion"] = lambda: finish.bury(held, FailureClass.FLOW_REJECTED)
        else:
            finish.bury(held, FailureClass.FLOW_REJECTED)
    else:
        _let_event_die(candidate.event_id, candidate.work_id, keeps_item=kind != "event_only")
    if kind == "work" or (partner == "claim" and "mirror" not in kind):
        candidate = _admit_other(process, OTHER if kind == "work" else ORIGINAL)
    elif partner == "completion" and "completion" not in world.operations:
        (other,) = claims.claim((_admit_other(process, OTHER),), fence).claims
        world.operations["completion"] = lambda: finish.complete(other)
    admission.inputs(ORIGINAL)
    world.operations |= {
        "replay": lambda: service.replay(Ref(id=world.original_id), actor=MARIA, reason="schedule"),
        "replay again": lambda: service.replay(Ref(id=world.original_id), actor=BORIS, reason="schedule"),
        "claim": lambda: claims.claim((candidate,), fence),
        "claim again": lambda: claims.claim((candidate,), fence),
        "admission": materialize_ready,
        "admission again": materialize_ready,
        "rotation": lambda: activate_pack(next_id, actor=SYSTEM_ACTOR),
        "sweep": lambda: db.run(lambda tx: _sweep(tx, pack_id), name="schedule.sweep"),
    }
    if "completion" in world.operations:
        world.operations["completion again"] = world.operations["completion"]
    world.keep()
    return world


def make_two(kind: str, other: str) -> World:
    """Make the world in which replays of two kinds meet, of one source where both are projections."""
    cleaning.empty_database()
    reads.forget_all()
    world = World()
    webhooks.activate(admission.document())
    process = kernel.register()
    # A mirror stands at the head of its lane for good: what is to be claimed comes before it.
    originals = {name: _make_original(process, name) for name in sorted((kind, other), key=_ORDER.index)}
    world.operations = {
        "replay": lambda: service.replay(Ref(id=originals[kind]), actor=MARIA, reason="schedule"),
        f"{OF}{other}": lambda: service.replay(Ref(id=originals[other]), actor=BORIS, reason="schedule"),
    }
    world.keep()
    return world


def _make_original(process: Any, kind: str) -> str:
    """Let an input die as a row of a kind; return its Event."""
    known = {row["WorkId"] for row in query("SELECT WorkId FROM _System_ConnectorWorkItem")}
    admission.inputs(ORIGINAL, event=admission.PROJECTED if "projection" in kind else admission.PER_EVENT)
    materialize_ready()
    if kind in _BURIED:
        (candidate,) = kernel.candidates(process, 1)
        (held,) = claims.claim((candidate,), kernel.fence_of(process, candidate)).claims
        finish.bury(held, FailureClass.FLOW_REJECTED)
        return str(candidate.event_id)
    (row,) = [row for row in books.items().values() if row["WorkId"] not in known]
    _let_event_die(row["EventId"], row["WorkId"], keeps_item=kind != "event_only")
    return str(row["EventId"])


def _let_event_die(event_id: str, work_id: str, *, keeps_item: bool) -> None:
    """Leave the Event as its executor does that gave it up, with a mirror that it left behind or with none."""
    change(
        "UPDATE _System_ConnectorEvent SET Status = 'dead', TerminalAt = UTC_TIMESTAMP(6) WHERE EventId = %s",
        event_id,
    )
    if not keeps_item:
        change("DELETE FROM _System_ConnectorWorkItem WHERE WorkId = %s", work_id)


def _admit_other(process: Any, number: int) -> Any:
    known = {row["WorkId"] for row in query("SELECT WorkId FROM _System_ConnectorWorkItem")}
    admission.inputs(number)
    materialize_ready()
    return next(item for item in kernel.candidates(process, 3) if item.work_id not in known)


def _sweep(tx: db.Tx, pack_id: str) -> int:
    lock_pack(tx, pack_id)
    return tx.execute(routes.SWEEP_ROUTES, {"pack_install_id": pack_id})


def broken(world: World, names: tuple[str, str], outcomes: tuple[Any, ...], commits: list[int]) -> list[str]:
    """Return what does not hold after a schedule.

    Args:
        world: Where it began.
        names: The two operations.
        outcomes: What each returned and raised.
        commits: Whose transactions were committed, in order.
    """
    found: list[str] = []
    for name, (value, error) in zip(names, outcomes, strict=True):
        if error is not None and type(error).__name__ not in {"StaleClaim", "CatalogRefused"}:
            found.append(f"{name} raised {type(error).__name__}: {error}")
        if isinstance(value, Refused) and value.code in {"materialization_failed", "schema_unavailable"}:
            found.append(f"{name} was refused as {value.code}")
    replayed = [value for value, _ in outcomes if isinstance(value, Replayed)]
    events = query("SELECT * FROM _System_ConnectorEvent")
    items = books.items()
    children = [row for row in events if row["ReplayOfEventId"] is not None]
    if len({row["ReplayOfEventId"] for row in children}) < len(children) or len(children) != len(replayed):
        found.append(f"{len(children)} children, {len(replayed)} replays")
    marks = [row for row in events if row["ReplayedAt"]] + [
        row for row in items.values() if row["ReplayedAt"] and row["Attempt"] > 0
    ]
    if len(marks) != len(children):
        found.append(f"{len(marks)} reservations, {len(children)} children")
    if any(row["ReplayedAt"] and row["State"] != "dead" for row in items.values()):
        found.append("a replayed generation is not dead")
    gone = {row["EventId"] for row in events if row["ReplayedAt"]}
    if any(row["EventId"] in gone and row["State"] not in books.TERMINAL for row in items.values()):
        found.append("a replayed Event's work can still run")
    for row in query("SELECT PackInstallId, NextLaneOrdinal FROM _System_ConnectorPackInstall"):
        given = [event["LaneOrdinal"] for event in events if event["PackInstallId"] == row["PackInstallId"]]
        if len(given) != len(set(given)) or any(ordinal >= row["NextLaneOrdinal"] for ordinal in given):
            found.append("an ordinal was given twice")
    if books.crooked(items, books.attempts()):
        found.append("attempts, epochs and attempt rows disagree")
    if set(books.uncovered_events()) - world.uncovered:
        found.append("an Event that nothing executes")
    if find_keyless_heads():
        found.append("a generation that nothing can claim")
    found += _after_the_sweep(world, names, events, commits)
    return found


def _after_the_sweep(world: World, names: tuple[str, str], events: list[Row], commits: list[int]) -> list[str]:
    """Nothing is admitted under a route, or into an incarnation, once its end is committed."""
    for index, name in enumerate(names):
        other = 1 - index
        if name not in {"sweep", "rotation"} or index not in commits or other not in commits:
            continue
        old = {row["PackInstallId"] for row in world.rows["_System_ConnectorPackInstall"] if row["Status"] == "active"}
        known = {row["EventId"] for row in world.rows["_System_ConnectorEvent"]}
        is_first = commits.index(index) < commits.index(other)
        if is_first and any(row["EventId"] not in known and row["PackInstallId"] in old for row in events):
            return [f"admitted after the {name}"]
    return []
