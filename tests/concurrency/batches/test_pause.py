"""A pause that meets its runner, other operators, and SIGKILL: nothing is begun after it, and nothing is lost by it."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.batches import service
from integration.batches.reads import get_batch
from integration.batches.values import Batch, Totals
from integration.values import Actor
from tests.concurrency.batches import racers
from tests.support.authority import World
from tests.support.batches import assert_whole, batch_of, children_by_original, entries, replayer
from tests.support.processes import race, start_function

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PLAY = f"{racers.__name__}:play"
RUN = f"{racers.__name__}:run_batches"
ROWS = 4


@pytest.fixture
def operator() -> Actor:
    return replayer()


@pytest.fixture
def batch(operator: Actor) -> Batch:
    world = World()
    for _ in range(ROWS):
        world.work()
    return batch_of(operator)


@pytest.fixture
def meet(database_url: str, tmp_path: Path, batch: Batch, operator: Actor) -> Any:
    def meet_(*parts: dict[str, Any]) -> list[Any]:
        whose = {"batch_id": batch.id, "user_id": operator.user_id}
        given = [{**(whose if part["part"] == "act" else {}), **part, "folder": str(tmp_path)} for part in parts]
        return race(PLAY, given, database_url)

    return meet_


def test_pause__takes_effect_before_the_next_item(meet: Any, batch: Batch, operator: Actor, database_url: str) -> None:
    ended, said = meet(
        {"part": "run", "point": "batch.noted", "times": 2},
        {"part": "act", "verbs": ["pause"]},
    )
    assert (ended, said) == (2, ["paused"])
    paused = get_batch(batch.id)
    assert (paused.state, paused.totals) == ("paused", Totals(replayed=2, left=ROWS - 2))
    assert children_by_original().total() == 2
    service.resume(batch.id, actor=operator)
    assert race(RUN, [{}], database_url) == [ROWS - 2]
    assert_whole(batch)


def test_pause__that_the_runner_does_not_read__stops_nothing(meet: Any, batch: Batch) -> None:
    """The negative control: the runner's question before every item is taken away."""
    ended, said = meet(
        {"part": "run", "point": "batch.noted", "times": 2, "deaf": True},
        {"part": "act", "verbs": ["pause"]},
    )
    assert (ended, said) == (ROWS, ["paused"])
    assert get_batch(batch.id).totals == Totals(replayed=ROWS)


def test_resume__while_an_item_is_under_way__gives_the_batch_to_another_runner(meet: Any, batch: Batch) -> None:
    """The first runner has replayed a row and not noted it when the batch is paused, resumed and run by another one."""
    ended, said = meet(
        {"part": "run", "point": "batch.replayed", "times": 2},
        {"part": "act", "verbs": ["pause", "resume", "run"]},
    )
    assert said == ["paused", "running", f"{ROWS - 1} ended"]
    # Its own two, the second of which the other one had noted already; no further one.
    assert ended == 2
    assert_whole(batch)


def test_operators__who_pause_and_cancel_at_once__are_each_told_what_their_own_press_did(
    meet: Any, batch: Batch
) -> None:
    said = meet(*({"part": "act", "after": "", "verbs": [verb]} for verb in ("pause", "pause", "cancel", "cancel")))
    came_to = Counter(answer for (answer,) in said)
    assert came_to["cancelled"] == 1
    assert came_to["paused"] <= 1
    assert came_to["batch_state"] == 3 - came_to["paused"]
    assert (get_batch(batch.id).state, get_batch(batch.id).totals) == ("cancelled", Totals(left=ROWS))
    told = Counter(outcome for verb in ("paused", "cancelled") for outcome, _, _ in entries(f"replay_batch.{verb}"))
    assert told == {"done": 1 + came_to["paused"], "refused": came_to["batch_state"]}


@pytest.mark.parametrize(("guarded", "state"), [(True, "cancelled"), (False, "paused")])
def test_pause__that_comes_after_a_cancel__is_refused_by_its_own_condition(
    meet: Any, batch: Batch, guarded: bool, state: str
) -> None:
    """With its negative control: a pause that asks for no state would bring a cancelled batch back."""
    meet(
        {"part": "act", "after": "", "verbs": ["cancel"], "before": "there"},
        {"part": "act", "verbs": ["pause"], "guarded": guarded},
    )
    assert get_batch(batch.id).state == state


@pytest.mark.parametrize("killed_at", [("replay.after_commit", 0), ("batch.noted", 1)], ids=lambda at: at[0])
def test_kill__of_a_resumed_batch__leaves_one_that_can_be_paused_and_resumed_again(
    database_url: str, tmp_path: Path, batch: Batch, operator: Actor, killed_at: tuple[str, int]
) -> None:
    point, noted = killed_at
    for verb in (service.pause, service.resume):
        verb(batch.id, actor=operator)
    killed = start_function(RUN, {}, database_url, failpoint=point, folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == point
    paused = service.pause(batch.id, actor=operator)
    assert paused.totals == Totals(replayed=noted, left=ROWS - noted)
    assert race(RUN, [{}], database_url) == [0]
    assert children_by_original().total() == 1
    service.resume(batch.id, actor=operator)
    # The lease went with the pause: nobody waits for the dead one's.
    assert race(RUN, [{"lease_seconds": 300}], database_url) == [ROWS - noted]
    assert_whole(batch)
