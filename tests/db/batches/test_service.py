"""A bulk replay as it is made: what is selected, frozen, counted and refused."""

from __future__ import annotations

from typing import Any

import pytest

from integration import errors
from integration.authority.listing import DeadFilters
from integration.authority.values import BULK_PERMISSIONS, Ref
from integration.batches import service
from integration.batches.reads import get_batch, list_batches, list_items
from integration.batches.selection import select
from integration.batches.values import BatchNotFound, BatchStateRefused, SelectionDrifted, SelectionEmpty, Totals
from integration.values import Actor, new_id
from tests.support.authority import World, rows_of, system_rows
from tests.support.batches import batch_of, entries, ledger, replayer, run_to_rest

pytestmark = pytest.mark.django_db


def test_create__freezes_what_was_selected_and_replays_nothing_by_itself():
    actor, world = replayer(), World()
    refs = [world.work() for _ in range(3)]
    world.work("succeeded")
    before = system_rows()
    batch = batch_of(actor, canary=1)
    world.work()
    assert (batch.state, batch.total, batch.totals, batch.is_capped) == ("running", 3, Totals(left=3), False)
    assert [row["ref_id"] for row in ledger(batch.id)] == [ref.id for ref in refs]
    assert [item.position for item in list_items(batch.id)] == [1, 2, 3]
    assert entries("replay_batch.created") == [("done", batch.id, "rolf")]
    assert {name: rows for name, rows in system_rows().items() if rows != before[name]}.keys() == {
        "_System_ConnectorEvent",
        "_System_ConnectorWorkItem",
    }
    assert len(rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")) == 0


def test_select__orders_every_lane_by_incarnation_and_ordinal():
    world = World()
    late, early = world.work(), world.work()
    ordinals = {late.id: 70, early.id: 7}
    from tests.support.authority import change

    for work_id, ordinal in ordinals.items():
        change("UPDATE _System_ConnectorWorkItem SET LaneOrdinal = %s WHERE WorkId = %s", ordinal, work_id)
        change(
            "UPDATE _System_ConnectorEvent SET LaneOrdinal = %s WHERE EventId = "
            "(SELECT EventId FROM _System_ConnectorWorkItem WHERE WorkId = %s)",
            ordinal,
            work_id,
        )
    for selection in (select(DeadFilters()), select(refs=[late, early])):
        assert [item.ref.id for item in selection.items] == [early.id, late.id]


def test_select__by_ids_takes_each_row_once_and_keeps_a_place_for_what_is_not_there():
    world = World()
    ref, gone = world.work(), Ref(id=new_id())
    (row,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref.id)
    selection = select(refs=[ref, gone, Ref(id=row["EventId"]), ref, gone])
    assert [item.ref.id for item in selection.items] == [ref.id, gone.id]


def test_select__says_that_it_stopped_at_the_cap():
    world = World()
    for _ in range(3):
        world.work()
    selection = select(DeadFilters(), cap=2)
    assert (len(selection.items), selection.is_capped) == (2, True)
    assert select(DeadFilters(), cap=3).is_capped is False


def test_select__leaves_out_what_nothing_can_replay():
    world = World()
    world.work()
    world.work(ReplayedAt=world.now)
    world.outcome(world.work("reconciled_legacy_terminal"), "dead")
    selection = select(DeadFilters())
    assert (len(selection.items), selection.left_out) == (1, 1)


@pytest.mark.parametrize(
    "over",
    [
        {"reason": " "},
        {"canary": -1},
        {"halt_after": 0},
        {"per_minute": -1},
        {"idempotency_key": ""},
        {"canary": 10**6},
    ],
)
def test_create__of_bad_values_writes_nothing(over: dict[str, Any]):
    actor, world = replayer(), World()
    world.work()
    with pytest.raises(errors.InvalidInput):
        batch_of(actor, **over)
    assert rows_of("console_replaybatch") == rows_of("console_replaybatchitem") == []


@pytest.mark.parametrize(
    "arguments", [{}, {"filters": DeadFilters(), "refs": []}, {"filters": DeadFilters(replayed=True)}]
)
def test_select__wants_a_filter_or_ids(arguments: dict[str, Any]):
    with pytest.raises(errors.InvalidInput):
        select(**arguments)


def test_create__of_nothing_is_refused():
    with pytest.raises(SelectionEmpty):
        batch_of(replayer())


def test_create__refuses_a_selection_that_drifted():
    actor, world = replayer(), World()
    world.work()
    seen = select(DeadFilters())
    world.work()
    with pytest.raises(SelectionDrifted):
        batch_of(actor, expected_digest=seen.digest)
    assert rows_of("console_replaybatch") == []
    now = select(DeadFilters())
    assert batch_of(actor, expected_digest=now.digest).total == 2


def test_create__of_the_same_request_is_one_batch():
    actor, other, world = replayer(), replayer("ana"), World()
    world.work()
    first = batch_of(actor, idempotency_key="k")
    assert batch_of(actor, idempotency_key="k").id == first.id
    assert batch_of(other, idempotency_key="k").id != first.id
    assert len(entries("replay_batch.created")) == 2


@pytest.mark.evidence("A-32")
@pytest.mark.parametrize("verb", ["create", "go", "cancel"])
def test_every_verb__needs_the_right_to_replay_in_bulk(verb: str):
    actor, world = replayer(), World()
    world.work()
    batch = batch_of(actor)
    for missing in sorted(BULK_PERMISSIONS):
        nobody = Actor(user_id=99, name="vera", permissions=BULK_PERMISSIONS - {missing})
        with pytest.raises(errors.NotAllowed):
            batch_of(nobody) if verb == "create" else getattr(service, verb)(batch.id, actor=nobody)
    assert len(rows_of("console_replaybatch")) == 1
    assert get_batch(batch.id) == batch


def test_go__and_cancel_are_refused_where_they_mean_nothing_and_leave_an_entry():
    actor, world = replayer(), World()
    world.work()
    batch = batch_of(actor)
    with pytest.raises(BatchStateRefused):
        service.go(batch.id, actor=actor)
    run_to_rest()
    for verb in (service.go, service.cancel):
        with pytest.raises(BatchStateRefused):
            verb(batch.id, actor=actor)
        with pytest.raises(BatchNotFound):
            verb(new_id(), actor=actor)
    assert get_batch(batch.id).state == "finished"
    assert [outcome for outcome, _, _ in entries("replay_batch.continued")] == ["refused", "refused"]
    assert [outcome for outcome, _, _ in entries("replay_batch.cancelled")] == ["refused"]


def test_list__goes_from_the_newest_to_the_oldest():
    actor, world = replayer(), World()
    world.work()
    made = [batch_of(actor).id for _ in range(3)]
    first = list_batches(limit=2)
    assert [batch.id for batch in first.batches] == [made[2], made[1]]
    second = list_batches(first.older, limit=2)
    assert ([batch.id for batch in second.batches], second.older) == ([made[0]], None)
