"""Pause and resume: which state lets whom do what, and what a pause leaves as it was."""

from __future__ import annotations

import pytest

from integration.batches import service
from integration.batches.reads import get_batch
from integration.batches.runner import Runner
from integration.batches.values import BatchState, BatchStateRefused, Totals
from tests.support.authority import World, change
from tests.support.batches import batch_of, entries, ledger, outcomes, replayer, run_to_rest

pytestmark = pytest.mark.django_db
#: Verb -> from which state to which.
MOVES = {
    "pause": {"running": "paused"},
    "resume": {"paused": "running"},
    "go": {"waiting": "running", "halted": "running"},
    "cancel": dict.fromkeys(("running", "paused", "waiting", "halted"), "cancelled"),
}
PAST = {"pause": "paused", "resume": "resumed", "go": "continued", "cancel": "cancelled"}


@pytest.mark.parametrize("verb", MOVES)
def test_states__every_verb_in_every_state_moves_or_is_refused_and_leaves_its_entry(verb: str) -> None:
    actor, world = replayer(), World()
    world.work()
    batch = batch_of(actor)
    for state in BatchState:
        change("UPDATE console_replaybatch SET state = %s WHERE id = %s", state.value, batch.id)
        told = len(entries(f"replay_batch.{PAST[verb]}"))
        to = MOVES[verb].get(state.value)
        if to is None:
            with pytest.raises(BatchStateRefused):
                getattr(service, verb)(batch.id, actor=actor)
        else:
            assert getattr(service, verb)(batch.id, actor=actor).state == to
        assert get_batch(batch.id).state == (to or state)
        outcome, ref_id, _ = entries(f"replay_batch.{PAST[verb]}")[told]
        assert (outcome, ref_id) == ("refused" if to is None else "done", batch.id)


def test_pause__keeps_a_runner_from_beginning_and_holds_up_nobody_who_waits_for_rest() -> None:
    actor, world = replayer(), World()
    for _ in range(3):
        world.work()
    batch = batch_of(actor)
    seen = iter([False, False, True])
    assert Runner().round(lambda: next(seen)) == 1
    paused = service.pause(batch.id, actor=actor, reason="A call from the provider")
    assert (paused.state, paused.totals, Runner().is_idle()) == ("paused", Totals(replayed=1, left=2), True)
    assert run_to_rest() == 0
    service.resume(batch.id, actor=actor)
    assert run_to_rest() == 2
    assert (get_batch(batch.id).state, get_batch(batch.id).totals) == ("finished", Totals(replayed=3))


def test_resume__is_no_go_after_the_canary() -> None:
    actor, world = replayer(), World()
    for _ in range(3):
        world.work()
    batch = batch_of(actor, canary=1)
    service.pause(batch.id, actor=actor)
    assert service.resume(batch.id, actor=actor).is_past_canary is False
    run_to_rest()
    assert (get_batch(batch.id).state, outcomes(batch.id)) == ("waiting", ["replayed", "left", "left"])


def test_resume__counts_on_what_repeats() -> None:
    actor, world = replayer(), World()
    for _ in range(5):
        world.work()
    world.fence()
    batch = batch_of(actor, halt_after=3)
    seen = iter([False, False, False, True])
    assert Runner().round(lambda: next(seen)) == 2
    service.pause(batch.id, actor=actor)
    service.resume(batch.id, actor=actor)
    run_to_rest()
    halted = get_batch(batch.id)
    assert (halted.state, halted.totals) == ("halted", Totals(refused=3, left=2))


def test_resume__keeps_the_pace() -> None:
    actor, world = replayer(), World()
    for _ in range(2):
        world.work()
    batch = batch_of(actor, per_minute=1)
    assert run_to_rest() == 1
    service.pause(batch.id, actor=actor)
    service.resume(batch.id, actor=actor)
    assert run_to_rest(Runner()) == 0
    assert len([item for item in ledger(batch.id) if item["ended_at"]]) == 1
