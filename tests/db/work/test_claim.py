from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from integration.storage.db import Tx
from integration.work.claim import Claim, Claimed, LostWhy, claim, claim_next, claim_some
from tests.db.work.conftest import candidates
from tests.support.work import (
    Pack,
    attempt_rows,
    change,
    event_row,
    item_row,
    make_due,
    query,
)

pytestmark = pytest.mark.django_db


def test_claim__takes_the_event_over_and_installs_lease_and_epoch(pack, process, queue):
    (work_id,) = pack.admit()
    before = item_row(work_id)
    event_before = event_row(before["EventId"])

    taken = claim_next(process, queue)

    assert isinstance(taken, Claim)
    assert (taken.work_id, taken.attempt, taken.epoch) == (work_id, 1, 1)
    after = item_row(work_id)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"State", "Attempt", "OwnershipEpoch", "LeaseOwner", "LeaseToken", "LeaseUntil", "UpdatedAt"}
    assert (after["State"], after["LeaseToken"]) == ("processing", taken.lease_token)
    assert after["LeaseUntil"] - after["UpdatedAt"] == timedelta(seconds=60), "both by the database's clock"
    event_after = event_row(before["EventId"])
    assert {name for name in event_after if event_after[name] != event_before[name]} == {"ExecutionOwner"}
    assert event_after["ExecutionOwner"] == "work_item"
    assert [(row["Attempt"], row["OwnershipEpoch"], row["FinishedAt"]) for row in attempt_rows(work_id)] == [
        (1, 1, None)
    ]


def test_claim__of_nothing_due_returns_none(process, queue):
    assert claim_next(process, queue) is None


@pytest.mark.evidence("K-05")
def test_claim__before_run_after_is_refused_by_candidates_and_by_the_statement(pack, process, queue):
    (work_id,) = pack.admit()
    item = candidates()[work_id]
    change(
        "UPDATE _System_ConnectorWorkItem SET RunAfter = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE WorkId = %s",
        work_id,
    )

    assert claim_next(process, queue) is None
    assert claim((item,), process.fence_for(pack.pack_id)) == Claimed(lost=LostWhy.RACE)
    assert item_row(work_id)["State"] == "pending"

    make_due(work_id)
    assert claim_next(process, queue) is not None


@pytest.mark.evidence("K-05")
def test_later_claim__before_run_after_is_refused(pack, process, take, queue):
    from integration.states import FailureClass
    from integration.work.finish import retry

    (work_id,) = pack.admit()
    retry(take(work_id), FailureClass.FLOW_ERROR, after_seconds=60)

    assert claim_next(process, queue) is None
    make_due(work_id)
    item = candidates()[work_id]
    change(
        "UPDATE _System_ConnectorWorkItem SET RunAfter = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE WorkId = %s",
        work_id,
    )
    assert claim((item,), process.fence_for(pack.pack_id)) == Claimed(lost=LostWhy.RACE)

    make_due(work_id)
    assert claim_next(process, queue) is not None
    assert item_row(work_id)["Attempt"] == 2


@pytest.mark.parametrize(
    ("table", "assignment"),
    [
        ("_System_ConnectorEvent", "ExecutionOwner = 'work_item'"),
        ("_System_ConnectorEvent", "Status = 'processing'"),
        ("_System_ConnectorEvent", "Status = 'processed'"),
        ("_System_ConnectorEvent", "Status = 'skipped'"),
        ("_System_ConnectorEvent", "Status = 'dead'"),
        ("_System_ConnectorEvent", "ClaimToken = 'x'"),
        ("_System_ConnectorEvent", "ReplayedAt = UTC_TIMESTAMP(6)"),
        ("_System_ConnectorWorkItem", "Attempt = 1"),
        ("_System_ConnectorWorkItem", "OwnershipEpoch = 1"),
        ("_System_ConnectorWorkItem", "LeaseToken = 'x'"),
        ("_System_ConnectorWorkItem", "ProjectionKey = REPEAT('a', 64)"),
        ("_System_ConnectorWorkItem", "RollbackExecutionFenceId = REPEAT('a', 36)"),
        ("_System_ConnectorWorkItem", "State = 'blocked'"),
    ],
)
def test_first_claim__binds_everything_it_relies_on(pack, process, table, assignment):
    (work_id,) = pack.admit()
    item = candidates()[work_id]
    change(f"UPDATE {table} SET {assignment} WHERE EventId = %s", item.event_id)
    before, event_before = item_row(work_id), event_row(item.event_id)

    assert claim((item,), process.fence_for(pack.pack_id)) == Claimed(lost=LostWhy.RACE)

    assert (item_row(work_id), event_row(item.event_id)) == (before, event_before)
    assert attempt_rows(work_id) == []


def test_first_claim__takes_an_event_that_failed_under_the_event_executor(pack, process, queue):
    (work_id,) = pack.admit()
    change("UPDATE _System_ConnectorEvent SET Status = 'failed', RetryCount = 2")
    assert claim_next(process, queue) is not None
    assert event_row(item_row(work_id)["EventId"])["Status"] == "failed"


def test_claim__locks_process_event_work_item_in_this_order(pack, process, monkeypatch):
    pack.admit()
    traces = {}
    from integration.work import claim as module

    run = module.db.run

    def traced(unit, *, name, **options):
        def kept(tx: Tx):
            traces[name] = tx.lock_trace
            return unit(tx)

        return run(kept, name=name, **options)

    monkeypatch.setattr(module.db, "run", traced)
    (item,) = candidates().values()
    fence = process.fence_for(pack.pack_id)
    assert claim((item,), fence).claims
    assert [rank.name for rank in traces["work.claim"]] == ["PROCESS", "EVENT", "EVENT", "WORK_ITEM"]


@pytest.mark.parametrize("column", ["StoppedAt", "EvictedAt"])
def test_claim__by_a_stopped_or_evicted_process_is_fenced(pack, process, column):
    (work_id,) = pack.admit()
    item = candidates()[work_id]
    fence = process.fence_for(pack.pack_id)
    change(
        f"UPDATE _System_ConnectorClaimProcess SET {column} = UTC_TIMESTAMP(6) WHERE ProcessId = %s", fence.process_id
    )

    assert claim((item,), fence) == Claimed(lost=LostWhy.FENCED)
    assert item_row(work_id)["State"] == "pending"


def test_claim__with_an_older_receipt_is_fenced_and_a_new_fence_observes_the_new_one(pack, process, queue):
    (work_id,) = pack.admit()
    item = candidates()[work_id]
    fence = process.fence_for(pack.pack_id)
    receipt = pack.cut_over("forward")

    assert claim((item,), fence) == Claimed(lost=LostWhy.FENCED)
    assert item_row(work_id)["State"] == "pending"

    assert claim_next(process, queue) is None
    process.clock = lambda: 10**9
    taken = claim_next(process, queue)
    assert taken is not None
    (row,) = query("SELECT * FROM _System_ConnectorClaimProcess WHERE ProcessId = %s", taken.lease_owner)
    assert (row["ObservedReceiptId"], row["PackInstallId"]) == (receipt, pack.pack_id)


def test_claim__after_a_rollback_receipt_is_fenced(pack, process):
    (work_id,) = pack.admit()
    item = candidates()[work_id]
    fence = process.fence_for(pack.pack_id)
    pack.cut_over("rollback")

    assert claim((item,), fence) == Claimed(lost=LostWhy.FENCED)
    process.drop_fence(fence)
    process.clock = lambda: 10**9
    assert process.fence_for(pack.pack_id) is None


def test_fence__of_a_pack_without_receipt_is_not_given(db, process):
    other = Pack(namespace="other", direction=None)
    other.admit()
    assert process.fence_for(other.pack_id) is None
    assert process.closed_pack_ids() == (other.pack_id,)


def test_claim_next__serves_the_pack_that_another_packs_backlog_hides(pack, process):
    from integration.work.candidates import CandidateQueue

    pack.admit(12)
    late = Pack(namespace="late")
    (hidden,) = late.admit(RunAfter=datetime.now(UTC) - timedelta(seconds=1))
    queue = CandidateQueue(process, window=4)

    first_two = [queue.take(1)[0].work_id for _ in range(2)]

    assert hidden in first_two


@pytest.mark.evidence("K-06")
def test_claim_next__never_passes_an_earlier_item_of_the_lane(pack, process, queue):
    from integration.states import FailureClass
    from integration.work.finish import complete, retry

    first, second = pack.admit(2, SourceLane="deal:1")
    other = pack.admit(SourceLane="deal:2")[0]

    taken = [claim_next(process, queue), claim_next(process, queue)]
    assert {claim.work_id for claim in taken} == {first, other}
    assert claim_next(process, queue) is None

    head = next(claim for claim in taken if claim.work_id == first)
    retry(head, FailureClass.FLOW_ERROR, after_seconds=600)
    assert claim_next(process, queue) is None, "a head that waits for its retry holds the lane"

    make_due(first)
    again = claim_next(process, queue)
    assert again.work_id == first
    complete(again)
    assert claim_next(process, queue).work_id == second


@pytest.mark.evidence("K-06")
def test_claim_next__looks_past_a_long_lane_that_is_blocked(pack, process):
    from integration.work.candidates import CandidateQueue

    lane = pack.admit(10, SourceLane="deal:1")
    free = pack.admit(SourceLane="deal:2")[0]
    queue = CandidateQueue(process, window=4)

    assert claim_next(process, queue).work_id == lane[0]
    assert claim_next(process, queue).work_id == free
    assert claim_next(process, queue) is None


@pytest.mark.evidence("K-06")
def test_claim_next__an_older_incarnation_comes_first_in_the_lane(db, process):
    older = Pack(namespace="lanes", incarnation=1, status="retired")
    newer = Pack(namespace="lanes", incarnation=2, org_id=older.org_id)
    (after,) = newer.admit(SourceLane="deal:1")
    (before,) = older.admit(SourceLane="deal:1")
    from integration.work.candidates import CandidateQueue

    queue = CandidateQueue(process)
    assert claim_next(process, queue).work_id == before
    assert claim_next(process, queue) is None
    assert item_row(after)["State"] == "pending"


def test_look__asks_about_an_older_incarnation_lane_by_lane_only_while_that_has_work(db, process):
    from integration.work.candidates import CandidateQueue
    from integration.work.finish import complete

    older = Pack(namespace="lanes", incarnation=1, status="retired")
    newer = Pack(namespace="lanes", incarnation=2, org_id=older.org_id)
    older.admit(SourceLane="deal:1")
    for number in range(1, 9):
        newer.admit(SourceLane=f"deal:{number}")
    queue = CandidateQueue(process)
    first = claim_next(process, queue)
    assert first.item.pack_install_id == older.pack_id

    def asked() -> int:
        queue.forget()
        with CaptureQueriesContext(connections["default"]) as sent:
            assert len(queue.take(100)) > 0
        return sum("LIMIT 1" in query["sql"] and older.pack_id in query["sql"] for query in sent.captured_queries)

    assert asked() == 9, "of the incarnation, and of each lane"
    complete(first)
    assert asked() == 1, "it has ended"
    assert asked() == 0, "and never begins again"


@pytest.mark.evidence("K-07")
def test_claim__of_a_busy_target_lane_is_lost_on_the_unique_key(pack, process, queue):
    from integration.work.finish import complete

    one, two = pack.admit(2, TargetLane="account:9")
    items = candidates()
    fence = process.fence_for(pack.pack_id)
    (held,) = claim((items[one],), fence).claims
    assert item_row(one)["TargetLaneActiveKey"] == items[one].target_lane_key

    before = item_row(two)
    assert claim((items[two],), fence) == Claimed(lost=LostWhy.TARGET_LANE)
    assert item_row(two) == before
    assert attempt_rows(two) == []
    assert claim_next(process, queue) is None

    complete(held)
    assert item_row(one)["TargetLaneActiveKey"] is None
    assert claim_next(process, queue).work_id == two


def test_later_claim__closes_the_attempt_before_it(pack, take):
    from integration.states import FailureClass
    from integration.work.finish import retry

    (work_id,) = pack.admit()
    retry(take(work_id), FailureClass.FLOW_ERROR, after_seconds=0)
    make_due(work_id)
    second = take(work_id)

    assert (second.attempt, second.epoch) == (2, 2)
    first, last = attempt_rows(work_id)
    assert first["Outcome"] == "retry"
    assert first["FinishedAt"] == item_row(work_id)["LastFailedAt"]
    assert (last["Outcome"], last["FinishedAt"], last["OwnershipEpoch"]) == (None, None, 2)


def test_later_claim__never_exceeds_the_attempts_allowed(pack, process):
    (work_id,) = pack.admit(MaxAttempts=1)
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1")
    item = candidates()[work_id]
    assert claim((item,), process.fence_for(pack.pack_id)) == Claimed(lost=LostWhy.RACE)


def test_claim__of_several_takes_all_with_one_lock_each(pack, process, queue):
    ids = pack.admit(5)

    taken = claim_some(process, queue, 8)

    assert {claim.work_id for claim in taken} == set(ids)
    assert len({claim.lease_token for claim in taken}) == 1
    for work_id in ids:
        row = item_row(work_id)
        assert (row["State"], row["Attempt"], row["OwnershipEpoch"]) == ("processing", 1, 1)
        assert event_row(row["EventId"])["ExecutionOwner"] == "work_item"
        assert [(row["Attempt"], row["OwnershipEpoch"]) for row in attempt_rows(work_id)] == [(1, 1)]


def test_claim__of_several_of_which_one_changed_wins_the_others_only(pack, process):
    ids = pack.admit(4)
    items = candidates()
    change("UPDATE _System_ConnectorWorkItem SET State = 'blocked' WHERE WorkId = %s", ids[1])
    before = item_row(ids[1])

    claimed = claim([items[work_id] for work_id in ids], process.fence_for(pack.pack_id))

    assert claimed.lost is LostWhy.RACE
    assert {claim.work_id for claim in claimed.claims} == {ids[0], ids[2], ids[3]}
    assert item_row(ids[1]) == before
    assert attempt_rows(ids[1]) == []
    assert [len(attempt_rows(work_id)) for work_id in ids] == [1, 0, 1, 1]


def test_claim_some__after_one_taken_target_lane_claims_the_others_singly(pack, process, queue, monkeypatch):
    from integration.work import candidates as module

    busy = pack.admit(1, TargetLane="account:9")
    (held,) = claim_some(process, queue, 1)
    assert held.work_id == busy[0]
    ids = [pack.admit(1, TargetLane=lane)[0] for lane in ("account:8", "account:9", "account:10")]
    # The lane was taken after it was looked at.
    monkeypatch.setattr(module, "_busy_target_keys", lambda window, family: set())

    taken = claim_some(process, queue, 4)

    assert {claim.work_id for claim in taken} == {ids[0], ids[2]}
    assert item_row(ids[1])["State"] == "pending"


def test_take__mixes_no_packs_and_no_later_claims_into_one_transaction(pack, process, queue):
    other = Pack(namespace="other")
    pack.admit(2)
    other.admit(2)
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1 WHERE WorkId = %s",
        pack.admit(1)[0],
    )
    groups = [[(item.pack_install_id, item.is_first) for item in queue.take(10)] for _ in range(3)]
    assert sorted(groups) == sorted([[(pack.pack_id, True)] * 2, [(other.pack_id, True)] * 2, [(pack.pack_id, False)]])
