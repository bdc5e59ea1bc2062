"""`manage.py dlq batch`: every verb, its rights, its exit codes."""

from __future__ import annotations

import pytest

from integration.batches.reads import get_batch
from tests.support.authority import World, rows_of
from tests.support.batches import outcomes, run_to_rest
from tests.support.commands import Ended, run
from tests.support.dlq import operator

pytestmark = pytest.mark.django_db


def batch(verb: str, name: str, *options: str) -> Ended:
    return run("dlq", "batch", verb, "--as", name, "--json", *options)


def test_command__makes_shows_lets_go_and_lists():
    name, world = operator("rolf", "Replayer"), World()
    for _ in range(3):
        world.work()
    made = batch("create", name, "--namespace", world.namespace, "--reason", "x", "--canary", "1")
    assert (made.code, made.document["state"], made.document["total"]) == (0, "running", 3)
    batch_id = made.document["id"]
    run_to_rest()
    shown = batch("show", name, batch_id)
    assert (shown.document["state"], [item["outcome"] for item in shown.document["items"]]) == (
        "waiting",
        ["replayed", "", ""],
    )
    assert batch("go", name, batch_id).document["state"] == "running"
    run_to_rest()
    assert outcomes(batch_id) == ["replayed"] * 3
    (listed,) = batch("list", name).document["batches"]
    assert (listed["id"], listed["state"]) == (batch_id, "finished")
    words = run("dlq", "batch", "show", "--as", name, batch_id).out
    assert "3 replayed, 0 refused, 0 lost, 0 vanished, 0 left, of 3" in words
    assert "by rolf, because: x" in words


def test_command__cancels():
    name, world = operator("rolf", "Replayer"), World()
    world.work()
    batch_id = batch("create", name, "--all", "--reason", "x").document["id"]
    assert batch("cancel", name, batch_id, "--reason", "wrong").document["state"] == "cancelled"
    again = batch("cancel", name, batch_id)
    assert (again.code, again.document["error"], again.document["state"]) == (3, "batch_state", "cancelled")


def test_command__pauses_and_resumes():
    name, world = operator("rolf", "Replayer"), World()
    world.work()
    batch_id = batch("create", name, "--all", "--reason", "x").document["id"]
    assert batch("pause", name, batch_id, "--reason", "the provider calls").document["state"] == "paused"
    assert (batch("pause", name, batch_id).code, run_to_rest()) == (3, 0)
    assert batch("resume", name, batch_id).document["state"] == "running"
    assert (run_to_rest(), outcomes(batch_id)) == (1, ["replayed"])


def test_command__shows_first_and_refuses_what_drifted():
    name, world = operator("rolf", "Replayer"), World()
    ref = world.work()
    seen = batch("create", name, "--all", "--reason", "x", "--dry-run").document
    assert (seen["items"], rows_of("console_replaybatch")) == (1, [])
    assert (seen["expected"]["sampled"], seen["expected"]["passing"]) == (1, 1)
    words = run("dlq", "batch", "create", "--as", name, "--all", "--reason", "x", "--dry-run").out
    assert "of 1 that were asked 1 would be replayed now" in words
    world.work()
    expected = ("--reason", "x", "--expect-digest", seen["digest"])
    drifted = batch("create", name, "--all", *expected)
    assert (drifted.code, drifted.document["error"]) == (3, "selection_drifted")
    assert batch("create", name, "--ref", str(ref), *expected).code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 2),
        (("--all", "--ref", "nonsense"), 2),
        (("--ref", "nonsense"), 2),
        (("--all", "--cap", "0"), 2),
        (("--all", "--replayed", "yes"), 2),
        (("--namespace", "elsewhere"), 3),
    ],
)
def test_command__of_no_usable_selection_makes_nothing(options: tuple[str, ...], code: int):
    name, world = operator("rolf", "Replayer"), World()
    world.work()
    assert batch("create", name, "--reason", "x", *options).code == code
    assert rows_of("console_replaybatch") == []


@pytest.mark.evidence("A-32")
def test_command__needs_the_right_of_a_replay_for_every_verb_that_writes():
    name, world = operator("rolf", "Replayer"), World()
    viewer, nobody = operator("vera", "Viewer"), operator("nadia")
    world.work()
    batch_id = batch("create", name, "--all", "--reason", "x").document["id"]
    before = get_batch(batch_id)
    verbs = [("create", "--all", "--reason", "x"), ("go", batch_id), ("cancel", batch_id)]
    assert [batch(verb, viewer, *options).code for verb, *options in verbs] == [5, 5, 5]
    reading = [("list",), ("show", batch_id)]
    assert [batch(verb, viewer, *options).code for verb, *options in reading] == [0, 0]
    assert [batch(verb, nobody, *options).code for verb, *options in (*verbs, *reading)] == [5] * 5
    assert (get_batch(batch_id), len(rows_of("console_replaybatch"))) == (before, 1)
    assert batch("show", viewer, "00000000-0000-7000-8000-000000000000").code == 4
