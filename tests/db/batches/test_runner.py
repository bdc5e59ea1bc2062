"""The runner: each item is the single replay; totals, canary, halt, rate, cancel, rights, leases."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import User
from integration.authority import service as authority
from integration.authority.values import Ref
from integration.batches import service
from integration.batches.reads import get_batch, refusals
from integration.batches.runner import Runner
from integration.batches.selection import select
from integration.batches.values import Totals
from integration.values import new_id
from tests.support.authority import BORIS, World, audit_entries, change, rows_of
from tests.support.batches import batch_of, children_by_original, entries, ledger, outcomes, replayer, run_to_rest

pytestmark = pytest.mark.django_db


def test_item__is_exactly_a_single_replay():
    """The same columns of the child, the same audit entry: what differs is who, why and when."""
    actor, world = replayer(), World()
    by_batch = world.work()
    batch = batch_of(actor)
    assert run_to_rest() == 1
    by_hand = world.work()
    authority.replay(by_hand, actor=actor, reason=batch.reason)

    made = {row["ReplayOfWorkId"]: row for row in rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL")}
    own = {name for name in made[by_hand.id] if name.endswith(("Id", "At")) or name in {"SourceLane", "LaneOrdinal"}}
    own |= {"RunAfter", "LanePosition"}
    assert {k: v for k, v in made[by_batch.id].items() if k not in own} == {
        k: v for k, v in made[by_hand.id].items() if k not in own
    }
    told = {entry["ref_id"]: entry for entry in audit_entries() if entry["action"] == "work_item.replayed"}
    assert len(told) == len(entries("work_item.replayed")) == 2
    assert (told[by_batch.id]["via"], told[by_hand.id]["via"]) == ("batch", "command")
    for name in ("stream", "actor_id", "actor_name", "outcome", "reason", "namespace", "event_kind"):
        assert told[by_batch.id][name] == told[by_hand.id][name], name
    (item,) = ledger(batch.id)
    assert item["child_work_id"] == made[by_batch.id]["WorkId"]
    assert item["child_event_id"] == made[by_batch.id]["EventId"]


def test_batch__ends_every_row_in_one_outcome_and_the_totals_add_up():
    actor, world = replayer(), World()
    good, ended, taken, gone = world.work(), world.work("succeeded"), world.work(), Ref(id=new_id())
    selection = select(refs=[good, ended, taken, gone])
    authority.replay(taken, actor=BORIS, reason="first")
    batch = service.create(selection, actor=actor, reason="x")
    assert run_to_rest() == 4
    batch = get_batch(batch.id)
    assert (batch.state, batch.totals) == ("finished", Totals(replayed=1, refused=1, lost_race=1, vanished=1))
    assert batch.totals.done + batch.totals.left == batch.total == 4
    assert outcomes(batch.id) == ["replayed", "not_dead", "already_replayed", "not_found"]
    assert refusals(batch.id) == {"not_dead": 1}
    assert children_by_original() == {good.id: 1, taken.id: 1}
    assert entries("replay_batch.finished") == [("done", batch.id, "rolf")]


def test_batch__follows_the_order_of_its_lane():
    actor, world = replayer(), World()
    refs = [world.work(SourceLane="prospect:1", event={"SourceLane": "prospect:1"}) for _ in range(4)]
    batch = batch_of(actor)
    run_to_rest()
    made = sorted(
        rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId IS NOT NULL"), key=lambda row: row["LaneOrdinal"]
    )
    assert [row["ReplayOfWorkId"] for row in made] == [ref.id for ref in refs]
    assert [row["ref_id"] for row in ledger(batch.id)] == [ref.id for ref in refs]


def test_canary__waits_for_go():
    actor, world = replayer(), World()
    for _ in range(4):
        world.work()
    batch = batch_of(actor, canary=2)
    run_to_rest()
    assert (get_batch(batch.id).state, outcomes(batch.id)) == ("waiting", ["replayed"] * 2 + ["left"] * 2)
    assert entries("replay_batch.waiting") == [("done", batch.id, "rolf")]
    assert run_to_rest() == 0
    assert service.go(batch.id, actor=actor).is_past_canary
    assert run_to_rest() == 2
    assert (get_batch(batch.id).state, get_batch(batch.id).totals) == ("finished", Totals(replayed=4))
    assert entries("replay_batch.continued") == [("done", batch.id, "rolf")]


def test_canary__of_everything_needs_no_go():
    actor, world = replayer(), World()
    world.work()
    batch = batch_of(actor, canary=5)
    run_to_rest()
    assert get_batch(batch.id).state == "finished"


def test_halt__when_the_same_refusal_repeats_and_go_gives_it_another_try():
    actor, world = replayer(), World()
    for _ in range(6):
        world.work()
    batch = batch_of(actor, halt_after=3)
    fence_id = world.fence()
    run_to_rest()
    halted = get_batch(batch.id)
    assert (halted.state, halted.halt_code, halted.totals) == ("halted", "admission_fenced", Totals(refused=3, left=3))
    assert entries("replay_batch.halted") == [("done", batch.id, "rolf")]
    service.go(batch.id, actor=actor)
    change("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6) WHERE FenceId = %s", fence_id)
    run_to_rest()
    assert (get_batch(batch.id).state, get_batch(batch.id).totals) == ("finished", Totals(refused=3, replayed=3))
    assert not children_by_original().keys() & {row["ref_id"] for row in ledger(batch.id)[:3]}


def test_halt__not_for_refusals_of_different_kinds():
    actor, world = replayer(), World()
    refs = [world.work("succeeded"), Ref(id=new_id()), world.work("succeeded"), Ref(id=new_id())]
    batch = service.create(select(refs=refs), actor=actor, reason="x", halt_after=3)
    run_to_rest()
    assert (get_batch(batch.id).state, sorted(outcomes(batch.id))) == ("finished", ["not_dead"] * 2 + ["not_found"] * 2)


def test_halt__when_the_children_die():
    actor, world = replayer(), World()
    for _ in range(5):
        world.work()
    batch = batch_of(actor, halt_after=2, canary=2)
    run_to_rest()
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'dead', Attempt = 1, TerminalAt = UTC_TIMESTAMP(6) "
        "WHERE ReplayOfWorkId IS NOT NULL"
    )
    # A go after the canary counts anew: what is halted for must happen after it.
    change("UPDATE console_replaybatch SET state = 'running', is_past_canary = 1 WHERE id = %s", batch.id)
    run_to_rest()
    halted = get_batch(batch.id)
    assert (halted.state, halted.halt_code, halted.totals) == ("halted", "child_dead", Totals(replayed=2, left=3))
    service.go(batch.id, actor=actor)
    run_to_rest()
    assert get_batch(batch.id).totals == Totals(replayed=5)


def test_cancel__leaves_the_rest_and_what_was_replayed():
    actor, world = replayer(), World()
    for _ in range(3):
        world.work()
    batch = batch_of(actor)
    seen = iter([False, False, True])
    assert Runner().round(lambda: next(seen)) == 1
    cancelled = service.cancel(batch.id, actor=actor, reason="Wrong kind")
    assert (cancelled.state, cancelled.totals) == ("cancelled", Totals(replayed=1, left=2))
    assert run_to_rest() == 0
    assert len(children_by_original()) == 1
    assert entries("replay_batch.cancelled") == [("done", batch.id, "rolf")]


def test_rate__lets_one_go_and_then_waits():
    actor, world = replayer(), World()
    for _ in range(3):
        world.work()
    batch = batch_of(actor, per_minute=1)
    assert run_to_rest() == 1
    # Another process sees the same: the pace is read from the ledger.
    assert run_to_rest(Runner()) == 0
    change("UPDATE console_replaybatchitem SET ended_at = ended_at - INTERVAL 61 SECOND WHERE outcome <> ''")
    change("UPDATE console_replaybatch SET resumed_at = resumed_at - INTERVAL 61 SECOND")
    assert run_to_rest(Runner()) == 1
    assert (get_batch(batch.id).state, get_batch(batch.id).totals) == ("running", Totals(replayed=2, left=1))


@pytest.mark.evidence("A-32")
def test_rights__that_were_taken_away_halt_it_before_the_next_row():
    actor, world = replayer(), World()
    for _ in range(3):
        world.work()
    batch = batch_of(actor)
    seen = iter([False, False, True])
    Runner().round(lambda: next(seen))
    User.objects.get(username="rolf").groups.clear()
    run_to_rest()
    halted = get_batch(batch.id)
    assert (halted.state, halted.halt_code, halted.totals) == (
        "halted",
        "permission_denied",
        Totals(replayed=1, left=2),
    )
    assert len(children_by_original()) == 1


def test_lease__keeps_a_second_runner_away_until_it_has_run_out():
    actor, world = replayer(), World()
    world.work()
    batch = batch_of(actor)
    first, second = Runner(), Runner()
    assert first._take(batch.id)
    assert not second._take(batch.id)
    assert second.round() == 0
    change("UPDATE console_replaybatch SET lease_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
    assert second.round() == 1
    assert not first._take(batch.id) or first.round() == 0
    assert children_by_original().total() == 1


def test_item__that_was_replayed_and_not_noted_is_noted_and_not_replayed_again():
    actor, world = replayer(), World()
    ref = world.work()
    batch = batch_of(actor)
    run_to_rest()
    (before,) = ledger(batch.id)
    change("UPDATE console_replaybatchitem SET outcome = '', child_work_id = NULL, ended_at = NULL")
    change("UPDATE console_replaybatch SET state = 'running'")
    run_to_rest()
    (after,) = ledger(batch.id)
    assert (after["outcome"], after["child_work_id"]) == ("replayed", before["child_work_id"])
    assert children_by_original() == {ref.id: 1}
    assert len(entries("work_item.replayed")) == 1


def test_idle__is_when_no_batch_runs():
    actor, world = replayer(), World()
    assert Runner().is_idle()
    world.work()
    world.work()
    batch = batch_of(actor, canary=1)
    assert not Runner().is_idle()
    run_to_rest()
    assert Runner().is_idle()
    service.go(batch.id, actor=actor)
    assert not Runner().is_idle()


def test_ledger__costs_a_few_point_statements_an_item():
    """Half of a batch's throughput is the most that its ledger may take; a replay alone is some twenty statements."""
    actor, world = replayer(), World()
    for ref in (world.work(), world.work()):
        with CaptureQueriesContext(connection) as single:
            authority.replay(ref, actor=actor, reason="x", idempotency_key=ref.id)
    costs = []
    for rows in (4, 20):
        for _ in range(rows):
            world.work()
        batch = batch_of(actor, halt_after=2)
        with CaptureQueriesContext(connection) as bulk:
            assert run_to_rest() == rows
        assert get_batch(batch.id).totals == Totals(replayed=rows)
        costs.append(len(bulk))
    an_item = (costs[1] - costs[0]) / 16
    assert an_item - len(single) <= 8
    assert an_item < 2 * len(single)
