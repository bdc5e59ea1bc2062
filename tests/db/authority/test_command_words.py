"""`manage.py dlq`: what its text says, where a word would mislead."""

from __future__ import annotations

import pytest

from integration.authority import service
from tests.support.authority import MARIA, World
from tests.support.dlq import dlq, operator

pytestmark = pytest.mark.django_db
NOWHERE = "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0"


def test_plan__prints_a_code_on_what_refuses_alone():
    world, name = World(), operator("rolf", "Replayer")
    lines = dlq("plan", name, world.work("succeeded")).out.splitlines()
    agreed = [line for line in lines if line.startswith("ok  ")]
    assert "ok  The row is there." in agreed
    assert not [line for line in agreed if "not_found" in line or "permission_denied" in line]
    assert [line.split(":")[0] for line in lines if line.startswith("NO  ")] == ["NO  not_dead"]


def test_show__of_an_unknown_id_says_that_there_is_no_such_row():
    World()
    ended = dlq("show", operator("vera", "Viewer"), NOWHERE)
    assert (ended.code, ended.err) == (4, "not_found: There is no such row.\n")


def test_show__calls_the_child_a_child_and_the_original_what_it_replays():
    world, name = World(), operator("vera", "Viewer")
    ref = world.work()
    done = service.replay(ref, actor=MARIA, reason="first")
    assert f"\nchild {done.child_work_id} (pending)\n" in dlq("show", name, ref).out
    assert f"\nreplays {ref.id} (dead)\n" in dlq("show", name, done.child_work_id).out


def test_list__counts_in_the_singular_too():
    world, name = World(), operator("vera", "Viewer")
    world.work(Attempt=1)
    row, count = dlq("list", name, "", "--count").out.splitlines()
    assert "\t1 attempt" in row
    assert "attempts" not in row
    assert count == "1 row matches."
