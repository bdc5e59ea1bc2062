"""Whatever stops a replay, of every kind, takes all of it back: the reservations first of all.

What fails, fails in the database: a row that another writer left holds the key that the child needs.
"""

from __future__ import annotations

from typing import Any

import pytest

from integration.authority import service
from integration.authority.values import Ref, RefKind, Refused, Replayed
from integration.values import new_id
from tests.db.authority.test_kinds import DEAD_EVENT, event_of
from tests.support.authority import MARIA, World, audit_entries, change, rows_of, system_rows
from tests.support.rows import insert

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
ROUTES, PACKS = "_System_ConnectorRoute", "_System_ConnectorPackInstall"
KINDS = ("work_item", "mirror", "event_only")
CLASSES = ("per_event", "source_projection")


def original(world: World, kind: str) -> Ref:
    made = world.generation if world.execution == "source_projection" else world.work
    if kind == "event_only":
        return world.legacy()
    if kind == "work_item":
        return made("dead")
    return made("pending", Attempt=0, event={**DEAD_EVENT, "TerminalAt": world.now})


def lane_of(ref: Ref) -> str:
    event_id = ref.id if ref.kind is RefKind.EVENT else event_of(ref)
    return str(rows_of(EVENTS, "EventId = %s", event_id)[0]["SourceLane"])


def overtaken(monkeypatch: pytest.MonkeyPatch, act: Any) -> list[dict[str, Any]]:
    """Let something happen between a replay's reading and its first lock; return the rows as that left them."""
    real = service.gather.read_facts
    left: list[dict[str, Any]] = []

    def then(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        act()
        left.append(system_rows())
        return found

    monkeypatch.setattr(service.gather, "read_facts", then)
    return left


def refused(ref: Ref) -> Refused:
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused), answer
    return answer


def succeeds(ref: Ref) -> None:
    assert isinstance(service.replay(ref, actor=MARIA, reason="again"), Replayed)


everything = [
    pytest.mark.parametrize("kind", KINDS),
    pytest.mark.parametrize("execution", CLASSES),
]


def each(function: Any) -> Any:
    for mark in everything:
        function = mark(function)
    return function


@pytest.mark.evidence("A-27")
@each
def test_rotation__before_the_locks_takes_everything_back(monkeypatch: pytest.MonkeyPatch, kind: str, execution: str):
    ref = original(World(execution=execution), kind)
    left = overtaken(monkeypatch, lambda: change(f"UPDATE {PACKS} SET Status = 'retired', ActiveKey = NULL"))
    assert refused(ref).code == "pack_not_active"
    assert [system_rows()] == left
    change(f"UPDATE {PACKS} SET Status = 'active', ActiveKey = 'x'")
    succeeds(ref)


@pytest.mark.evidence("A-28")
@each
def test_sweep__before_the_locks_takes_everything_back(monkeypatch: pytest.MonkeyPatch, kind: str, execution: str):
    ref = original(World(execution=execution), kind)
    left = overtaken(monkeypatch, lambda: change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL"))
    assert refused(ref).code == "route_not_live"
    assert [system_rows()] == left
    change(f"UPDATE {ROUTES} SET Status = 'live', LiveKey = 'x'")
    succeeds(ref)


@pytest.mark.evidence("A-29", "A-33")
@each
def test_event_insert__that_the_database_refuses_takes_everything_back(kind: str, execution: str):
    world = World(execution=execution)
    ref = original(world, kind)
    event_id = ref.id if ref.kind is RefKind.EVENT else event_of(ref)
    other = world.event(IdempotencyKey=f"replay:{event_id}", SourceLane="another", Status="processed")
    before = system_rows()
    answer = refused(ref)
    assert (answer.code, answer.facts["cause"]) == ("materialization_failed", "conflict")
    assert system_rows() == before
    assert [entry["outcome"] for entry in audit_entries()] == ["refused"]
    change(f"DELETE FROM {EVENTS} WHERE EventId = %s", other)
    succeeds(ref)


@pytest.mark.evidence("A-30", "A-33")
@each
def test_work_item_insert__that_the_database_refuses_takes_everything_back(
    monkeypatch: pytest.MonkeyPatch, kind: str, execution: str
):
    world = World(execution=execution)
    ref = original(world, kind)
    taken: str = world.work("succeeded", SourceLane="another").id
    if execution == "source_projection":
        # Whoever holds the active key that the child needs: an ended row of another source, as no writer leaves it.
        key = world.identity(lane_of(ref)).key()
        if kind == "mirror":
            change(f"UPDATE {ITEMS} SET ProjectionActiveKey = NULL WHERE WorkId = %s", ref.id)
        change(f"UPDATE {ITEMS} SET ProjectionActiveKey = %s WHERE WorkId = %s", key, taken)
    else:
        ids = iter([taken, new_id()])
        monkeypatch.setattr(service, "new_id", lambda: next(ids))
    before = system_rows()
    answer = refused(ref)
    assert (answer.code, answer.facts["cause"]) == ("materialization_failed", "conflict")
    assert system_rows() == before
    assert [entry["outcome"] for entry in audit_entries()] == ["refused"]
    monkeypatch.undo()
    change(f"UPDATE {ITEMS} SET ProjectionActiveKey = NULL WHERE WorkId = %s", taken)
    succeeds(ref)


@pytest.mark.evidence("A-26")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_event_only", [False, True])
def test_successor__that_appears_before_the_locks_is_met_under_them(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_event_only: bool
):
    world = World(execution="source_projection")
    ref = original(world, kind)
    lane = lane_of(ref)

    def appear() -> None:
        if is_event_only:
            world.event(SourceLane=lane, ExecutionOwner="event", Status="pending")
        else:
            world.generation("pending", SourceLane=lane, Attempt=0, ProjectionKey="5" * 64)

    left = overtaken(monkeypatch, appear)
    assert refused(ref).code == ("event_only_successor" if is_event_only else "active_generation_in_scope")
    assert [system_rows()] == left
    assert rows_of(EVENTS, "ReplayedAt IS NOT NULL") == []
    assert rows_of(ITEMS, "ReplayedAt IS NOT NULL") == []


@pytest.mark.evidence("A-15")
def test_work_item__that_appears_before_the_locks_of_an_event_alone_takes_the_authority(
    monkeypatch: pytest.MonkeyPatch,
):
    """The Event alone is materialized, claimed and dead by the time of the lock: the WorkItem is replayed then."""
    world = World(execution="source_projection")
    ref = world.legacy()
    lane = lane_of(ref)
    made: list[Ref] = []
    overtaken(monkeypatch, lambda: made.append(world.generation("dead", event_id=ref.id, SourceLane=lane)))
    done = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(done, Replayed)
    assert done.original == made[0]
    assert rows_of(EVENTS, "EventId = %s", ref.id)[0]["ReplayedAt"] is None


def test_mirror__that_moved_on_to_another_event_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch):
    """An old writer moved the never-claimed generation to a newer Event between the reading and the lock."""
    world = World(execution="source_projection")
    ref = original(world, "mirror")
    newer = world.event(SourceLane=lane_of(ref), ExecutionOwner="event", Status="pending")
    change(f"UPDATE {EVENTS} SET Status = 'processed' WHERE EventId = %s", newer)

    def move() -> None:
        change(f"UPDATE {EVENTS} SET Status = 'failed' WHERE EventId = %s", newer)
        change(f"UPDATE {ITEMS} SET EventId = %s WHERE WorkId = %s", newer, ref.id)

    left = overtaken(monkeypatch, move)
    answer = refused(ref)
    assert answer.code == "not_dead"
    assert [system_rows()] == left


def test_row__that_moves_in_every_try_is_a_lost_race_in_the_trail_too(monkeypatch: pytest.MonkeyPatch):
    ref = original(World(execution="source_projection"), "mirror")
    before = system_rows()

    def move(*_: Any, **__: Any) -> None:
        raise service.locked.Moved

    monkeypatch.setattr(service.locked, "lock_original", move)
    answer = refused(ref)
    assert (answer.code, answer.winner) == ("lost_race", None)
    assert "Read the plan again" in answer.next_step
    assert system_rows() == before
    assert [(entry["outcome"], entry["actor_name"]) for entry in audit_entries()] == [("lost", "maria")]
    monkeypatch.undo()
    succeeds(ref)


def test_trail__of_a_replay_that_was_taken_back_tells_of_the_original():
    world = World()
    ref = original(world, "mirror")
    event_id = event_of(ref)
    insert(
        EVENTS,
        **{
            **rows_of(EVENTS, "EventId = %s", event_id)[0],
            "EventId": new_id(),
            "IdempotencyKey": f"replay:{event_id}",
            "LaneOrdinal": 999,
            "Status": "processed",
        },
    )
    refused(ref)
    (entry,) = audit_entries()
    assert (entry["action"], entry["ref_kind"], entry["ref_id"], entry["outcome"]) == (
        "event.replayed",
        "event",
        event_id,
        "refused",
    )
