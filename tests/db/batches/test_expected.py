"""What a bulk replay is said to come to before it is made: a bounded sample, and what drifted since the list was seen."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.authority.listing import DeadFilters
from integration.authority.values import Ref
from integration.batches.expected import expect
from integration.batches.selection import read_now, select
from integration.values import new_id
from tests.support.authority import World, change, system_rows
from tests.support.batches import batch_of, outcomes, replayer, run_to_rest

pytestmark = pytest.mark.django_db


def test_expect__says_of_every_row_what_its_replay_then_comes_to() -> None:
    actor, world = replayer(), World()
    refs = [world.work(), world.work("succeeded"), world.work(ReplayedAt=world.now), Ref(id=new_id())]
    selection = select(refs=refs)
    before = system_rows()
    expected = expect(selection, actor)
    assert before == system_rows()
    assert (expected.sampled, expected.total, expected.passing) == (4, 4, 1)
    assert {one.code: one.count for one in expected.refusals} == {
        "not_dead": 1,
        "already_replayed": 1,
        "not_found": 1,
    }
    assert all(one.sentence and one.next_step for one in expected.refusals)
    batch = batch_of(actor, selection=selection, halt_after=10)
    run_to_rest()
    assert sorted(outcomes(batch.id)) == ["already_replayed", "not_dead", "not_found", "replayed"]


def test_expect__asks_a_bounded_sample_from_all_over_the_order() -> None:
    actor, world = replayer(), World()
    for number in range(9):
        world.work(RouteVersion=1 if number < 6 else 7)
    expected = expect(select(DeadFilters()), actor, sample_rows=3)
    assert (expected.sampled, expected.total, expected.passing) == (3, 9, 3)
    (destination,) = expected.destinations
    assert (destination.count, destination.event_kind, destination.is_changed) == (3, world.kind, True)
    assert (destination.target.incarnation, len(destination.died_under)) == (1, 2)


def test_select__leaves_out_what_died_since_and_keeps_what_does_not_tell_when() -> None:
    world = World()
    old = world.work(TerminalAt=world.now - timedelta(minutes=1))
    undated = world.work()
    change("UPDATE _System_ConnectorWorkItem SET TerminalAt = NULL WHERE WorkId = %s", undated.id)
    seen_at = read_now()
    for _ in range(2):
        world.work(TerminalAt=seen_at + timedelta(seconds=1))
    selection = select(DeadFilters(), seen_at=seen_at)
    assert {item.ref.id for item in selection.items} == {old.id, undated.id}
    assert (selection.arrived, selection.asked["arrived_since"]) == (2, 2)
    assert select(DeadFilters()).arrived == 0


def test_select__counts_the_ids_that_are_not_as_they_were_seen() -> None:
    world = World()
    refs = [world.work(), world.work("succeeded"), world.work(ReplayedAt=world.now), Ref(id=new_id())]
    assert select(refs=refs).stale == 3
