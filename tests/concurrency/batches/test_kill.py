"""SIGKILL in the middle of a bulk replay, and two runners at once: one child each, and totals that add up."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from integration.batches import service
from integration.batches.reads import get_batch
from integration.batches.values import Batch, Totals
from tests.support.authority import World, rows_of
from tests.support.batches import assert_whole, batch_of, children_by_original, replayer, run_to_rest
from tests.support.processes import Command, manage, race, start_function
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACER = "tests.concurrency.batches.racers:run_batches"
DONE_BEFORE, ROWS = 2, 6


def in_the_middle() -> Batch:
    """Return a batch of six rows, two of which are replayed."""
    actor, world = replayer(), World()
    for _ in range(ROWS):
        world.work()
    batch = batch_of(actor, canary=DONE_BEFORE)
    run_to_rest()
    assert get_batch(batch.id).totals == Totals(replayed=DONE_BEFORE, left=ROWS - DONE_BEFORE)
    return service.go(batch.id, actor=actor)


def start(database_url: str, **options: object) -> Command:
    return start_function(RACER, {}, database_url, **options)


@pytest.mark.parametrize(
    ("point", "noted", "children"),
    [
        ("replay.decided", 0, 0),
        ("replay.recorded", 0, 0),
        ("replay.after_commit", 0, 1),
        ("batch.replayed", 0, 1),
        ("batch.noted", 1, 1),
    ],
)
def test_kill__in_the_middle_of_a_batch__the_next_runner_goes_on_where_it_was(
    database_url: str, tmp_path: Path, point: str, noted: int, children: int
):
    batch = in_the_middle()
    killed = start(database_url, failpoint=point, folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == point
    between = get_batch(batch.id)
    assert (between.state, between.totals) == (
        "running",
        Totals(replayed=DONE_BEFORE + noted, left=ROWS - DONE_BEFORE - noted),
    )
    assert children_by_original().total() == DONE_BEFORE + children

    assert race(RACER, [{}], database_url) == [ROWS - DONE_BEFORE - noted]
    assert_whole(batch)


def test_kill__without_the_items_name__the_ledger_would_be_wrong(database_url: str, tmp_path: Path):
    """The negative control: what was replayed and not noted would be told as lost to somebody else."""
    batch = in_the_middle()
    killed = start(database_url, failpoint="batch.replayed", folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    race(RACER, [{"named": False}], database_url)
    assert get_batch(batch.id).totals == Totals(replayed=ROWS - 1, lost_race=1)
    assert children_by_original().total() == ROWS


def test_runners__of_several_processes__end_each_row_once(database_url: str):
    batch = in_the_middle()
    # Nobody dies here: no lease may run out, or two would note the same row.
    ended = race(RACER, [{"lease_seconds": 300}] * 3, database_url)
    assert sum(ended) == ROWS - DONE_BEFORE
    assert_whole(batch)


def test_runners__that_ignore_each_others_lease__still_make_one_child_each(database_url: str):
    batch = in_the_middle()
    ended = race(RACER, [{"leased": False}] * 3, database_url)
    assert sum(ended) >= ROWS - DONE_BEFORE
    race(RACER, [{}], database_url)
    assert_whole(batch)


def test_worker__that_is_killed_in_the_middle__is_followed_by_one_that_replays_the_rest(database_url: str):
    actor, installation = replayer(), Installation()
    for _ in range(ROWS):
        installation.work()
    # Slow enough to be met in the middle, on a busy machine too.
    batch = batch_of(actor, per_minute=60)
    quiet = {"LOCKHOUSE_LOG_LEVEL": "WARNING"}
    killed = manage(["work", "--roles", "batches", "--lease-seconds", "1"], database_url, **quiet)
    deadline = time.monotonic() + 240
    while get_batch(batch.id).totals.done < DONE_BEFORE:
        assert time.monotonic() < deadline
        assert killed.process.poll() is None
        time.sleep(0.02)
    killed.process.kill()
    assert killed.wait() == -signal.SIGKILL
    between = get_batch(batch.id).totals
    assert DONE_BEFORE <= between.done < ROWS
    assert between.done + between.left == ROWS

    after = manage(["work", "--roles", "batches,claim,reap", "--until-idle", "--json"], database_url, **quiet)
    assert after.wait() == 0, after.output
    assert_whole(batch)
    children = rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")
    assert {child["State"] for child in children} == {"succeeded"}
