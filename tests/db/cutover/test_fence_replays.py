"""A fence and every kind of replay: of a WorkItem, of a mirror, of an Event alone, of projections, one by one and in bulk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from integration.authority import service as authority
from integration.authority.values import BOTH_PERMISSIONS, Ref, Refused, Replayed
from integration.batches.reads import get_batch
from integration.batches.values import Totals
from integration.cutover.fences import reads, service
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.values import Actor
from tests.support.authority import MARIA, World, rows_of, system_rows
from tests.support.batches import batch_of, replayer, run_to_rest

pytestmark = pytest.mark.django_db
DELIA = Actor(user_id=21, name="delia", permissions=BOTH_PERMISSIONS | {CUTOVER_PERMISSION})
DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "TerminalAt": "2026-01-01"}
PROJECTION = "source_projection"

KINDS: dict[str, tuple[str, Callable[[World], Ref]]] = {
    "work_item": ("per_event", lambda world: world.work()),
    "generation": (PROJECTION, lambda world: world.generation()),
    "mirror": ("per_event", lambda world: world.work("pending", Attempt=0, event=DEAD_EVENT)),
    "mirror_of_projection": (PROJECTION, lambda world: world.generation("pending", Attempt=0, event=DEAD_EVENT)),
    "event_only": ("per_event", lambda world: world.legacy()),
    "event_only_projection": (PROJECTION, lambda world: world.legacy()),
}


def arm(world: World, scope: str = "*") -> str:
    armed = service.arm_fence(world.namespace, scope, reason="Stages are renamed", actor=DELIA)
    return armed.fence.fence_id


def replay(ref: Ref) -> Replayed | Refused:
    return authority.replay(ref, actor=MARIA, reason="mended")


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("scope", ["*", "prospect.updated"])
@pytest.mark.parametrize("kind", KINDS)
def test_replay__of_every_kind_waits_for_the_fence(kind: str, scope: str):
    execution, make = KINDS[kind]
    world = World(execution=execution)
    ref = make(world)
    fence_id = arm(world, scope)
    before = system_rows()
    refused = replay(ref)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts["fence_ids"]) == ("admission_fenced", [fence_id])
    assert system_rows() == before
    service.lift_fence(fence_id, actor=DELIA)
    assert isinstance(replay(ref), Replayed)


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("kind", KINDS)
def test_replay__of_every_kind_is_stopped_by_a_fence_that_was_armed_after_its_look(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    """What the replay has read without locks let it through; what it reads under the pack's lock decides."""
    execution, make = KINDS[kind]
    world = World(execution=execution)
    ref = make(world)
    look = authority.gather.read_facts

    def look_and_be_overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(authority.gather, "read_facts", look)
        found = look(*arguments, **options)
        assert found.facts.fences == ()
        arm(world)
        return found

    monkeypatch.setattr(authority.gather, "read_facts", look_and_be_overtaken)
    refused = replay(ref)
    assert isinstance(refused, Refused)
    assert refused.code == "admission_fenced"
    assert len(rows_of("_System_ConnectorEvent")) == 1


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("kind", KINDS)
def test_replay__of_every_kind_passes_an_override_of_its_event_kind(kind: str):
    execution, make = KINDS[kind]
    world = World(execution=execution)
    ref = make(world)
    fence_id = arm(world)
    service.grant_override(fence_id, world.kind, reason="urgent", actor=DELIA)
    assert isinstance(replay(ref), Replayed)


@pytest.mark.evidence("C-14")
def test_replay__of_a_retired_incarnations_row_is_stopped_too():
    world = World()
    old = "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0"
    world.pack(old, status="retired", incarnation=0)
    ref = world.work(PackInstallId=old, event={"PackInstallId": old})
    armed = service.arm_fence(world.namespace, "*", reason="x", actor=DELIA)
    # Its child goes into the active incarnation, whose row the replay holds; nobody admits into the old one.
    assert armed.waited_for == (world.pack_id,)
    refused = replay(ref)
    assert isinstance(refused, Refused)
    assert refused.code == "admission_fenced"
    service.lift_fence(armed.fence.fence_id, actor=DELIA)
    done = replay(ref)
    assert isinstance(done, Replayed)
    assert done.pack_install_id == world.pack_id


@pytest.mark.evidence("C-14")
def test_bulk_replay__halts_at_the_fence_and_goes_on_behind_it():
    actor, world = replayer(), World()
    for _ in range(5):
        world.work()
    fence_id = arm(world)
    batch = batch_of(actor, halt_after=2)
    run_to_rest()
    halted = get_batch(batch.id)
    assert (halted.state, halted.halt_code, halted.totals) == ("halted", "admission_fenced", Totals(refused=2, left=3))
    (waiting,) = reads.read_status().waiting
    assert waiting.replays_refused == 2
    assert len(rows_of("_System_ConnectorEvent")) == 5
    service.lift_fence(fence_id, actor=DELIA)
    from integration.batches.service import go

    go(batch.id, actor=actor)
    run_to_rest()
    assert get_batch(batch.id).totals == Totals(refused=2, replayed=3)
    assert reads.read_status(world.namespace).waiting[0].replays_refused == 0
