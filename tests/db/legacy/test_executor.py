"""The Event executor: what it claims, how an execution ends, what it holds back and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration import errors
from integration.legacy import claim as claims
from integration.legacy import finish
from integration.legacy.claim import claim_event, reclaim_expired
from integration.legacy.lease import LeaseLost, acquire
from integration.legacy.policy import HeldBack
from integration.legacy.process import register_executor
from integration.states import EventStatus, FailureClass
from integration.storage import db
from integration.storage.statements import LockRank
from integration.values import new_id
from integration.work.execute import Verdict
from integration.work.finish import SUMMARIES, Ended
from integration.work.process import ClaimFenced
from tests.support.legacy import LegacyPack, expire_claim, expire_scheduler_lease, make_event_due
from tests.support.work import change, event_row, item_row, query

pytestmark = pytest.mark.django_db
EXECUTOR_FIELDS = ("Status", "RetryCount", "NextRetryAt", "ClaimToken", "ClaimedBy", "ClaimedUntil", "TerminalAt")


@pytest.fixture
def pack() -> LegacyPack:
    pack = LegacyPack()
    pack.route(retry={"max_attempts": 3, "base_seconds": 100.0, "factor": 2.0, "cap_seconds": 500.0, "jitter": 0.0})
    return pack


def whole_database() -> list[list[dict]]:
    return [
        query(f"SELECT * FROM {table} ORDER BY 1")
        for table in ("_System_ConnectorEvent", "_System_ConnectorWorkItem", "_System_ConnectorExecutionAttempt")
    ]


def seconds_until(moment: datetime) -> float:
    (now,) = query("SELECT UTC_TIMESTAMP(6) AS Now")
    return (moment - now["Now"]).total_seconds()


# The claim


def test_claim__takes_the_event_and_nothing_else(pack):
    (event_id,) = pack.events()
    before = event_row(event_id)
    process, lease = pack.hold()
    claimed = claim_event(event_id, process, lease)
    after = event_row(event_id)
    assert (after["Status"], after["ClaimToken"], after["ClaimedBy"]) == (
        "processing",
        claimed.token,
        process.process_id,
    )
    assert 0 < seconds_until(after["ClaimedUntil"]) <= 60
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"Status", "ClaimToken", "ClaimedBy", "ClaimedUntil"}
    assert claimed.token not in repr(claimed)
    assert claimed.attempt == 1


@pytest.mark.parametrize(
    "over",
    [
        {"ExecutionOwner": "work_item"},
        {"Status": "processing", "ClaimToken": "another's"},
        {"Status": "processed"},
        {"Status": "skipped"},
        {"Status": "dead"},
        {"Status": "failed", "NextRetryAt": datetime.now(UTC) + timedelta(days=1)},
        {"ReplayedAt": datetime(2026, 1, 1, tzinfo=UTC)},
        {"ClaimToken": "another's"},
    ],
)
def test_claim__of_what_is_not_due_or_not_the_events_own_changes_nothing(pack, over):
    (event_id,) = pack.events(**over)
    before = whole_database()
    process, lease = pack.hold()
    assert claim_event(event_id, process, lease) is None
    executor = pack.executor()
    change("UPDATE _System_ConnectorSchedulerLease SET LeaseToken = NULL")
    assert executor.round() is False
    assert whole_database() == before


def test_claim__of_another_packs_event_or_of_none_changes_nothing(pack):
    other = LegacyPack(name="other")
    (event_id,) = other.events()
    process, lease = pack.hold()
    assert claim_event(event_id, process, lease) is None
    assert claim_event(new_id(), process, lease) is None
    assert event_row(event_id)["Status"] == "pending"


def test_claim__locks_process_event_mirror_and_lease_in_this_order(pack, monkeypatch):
    (event_id,) = pack.events()
    pack.mirror(event_id)
    traces = []
    demand = claims.leases.demand

    def watched(locked, lease):
        demand(locked, lease)
        traces.append(list(locked.tx.lock_trace))

    monkeypatch.setattr(claims.leases, "demand", watched)
    pack.claim(event_id)
    assert traces == [[LockRank.PROCESS, LockRank.EVENT, LockRank.WORK_ITEM, LockRank.LEAF]]


@pytest.mark.parametrize(
    ("mirrors", "reason"),
    [
        ([{"State": "retry"}], HeldBack.MIRROR),
        ([{"Attempt": 1}], HeldBack.MIRROR),
        ([{"State": "processing", "LeaseToken": "t"}], HeldBack.MIRROR),
        ([{"State": "cancelled"}], HeldBack.MIRROR),
        ([{"State": "dead"}], HeldBack.MIRROR),
        ([{"State": "awaiting_legacy_outcome"}], HeldBack.MIRROR),
        ([{"State": "legacy_outcome_unknown"}], HeldBack.MIRROR),
        ([{"State": "blocked"}], HeldBack.BLOCKED),
        ([{"ProjectionKey": "k" * 64}], HeldBack.QUEUED),
        ([{}, {"WorkType": "workflow_action_apply"}], HeldBack.AMBIGUOUS),
    ],
)
@pytest.mark.evidence("A-35")
def test_round__holds_back_what_its_work_items_forbid_and_changes_nothing(pack, mirrors, reason):
    (event_id,) = pack.events()
    for over in mirrors:
        pack.mirror(event_id, **over)
    executor = pack.executor()
    before = whole_database()
    assert executor.round() is False
    assert executor.report().held_back == {reason: 1}
    assert whole_database() == before


def test_round__keeps_the_order_of_a_lane_over_its_kinds(pack, tmp_path):
    record = tmp_path / "runs"
    pack.flow = "tests.record"
    other = pack.route("deal.created", flow={"name": "tests.record", "version": 1})
    change("UPDATE _System_ConnectorRoute SET Definition = REPLACE(Definition, 'tests.end', 'tests.record')")
    payload = {"file": str(record)}
    (first,) = pack.events(SourceLane="deal:1", payload=payload, Status="failed", RetryCount=1)
    (second,) = pack.events(SourceLane="deal:1", payload=payload, RouteId=other, EventKind="deal.created")
    (apart,) = pack.events(SourceLane="deal:2", payload=payload)
    later = datetime.now(UTC) + timedelta(days=1)
    change("UPDATE _System_ConnectorEvent SET NextRetryAt = %s WHERE EventId = %s", later.replace(tzinfo=None), first)
    executor = pack.executor()
    assert executor.round() is True
    assert record.read_text().split() == [apart]
    assert executor.report().held_back == {HeldBack.LANE: 1}
    make_event_due(first)
    assert executor.round() is True
    assert record.read_text().split() == [apart, first, second]


def test_round__reaches_what_is_due_behind_a_page_of_held_back_events(pack, monkeypatch):
    monkeypatch.setattr("integration.legacy.executor.PAGE", 2)
    held = pack.events(5)
    for event_id in held:
        pack.mirror(event_id, State="cancelled")
    (last,) = pack.events()
    executor = pack.executor()
    assert executor.round() is True
    assert event_row(last)["Status"] == "processed"
    assert executor.report().held_back == {HeldBack.MIRROR: 5}


# How it ends


@pytest.mark.parametrize(
    ("payload", "status", "failure"),
    [
        ({"end": "well"}, "processed", None),
        ({"end": "skip"}, "skipped", None),
        ({"end": "reject"}, "dead", FailureClass.FLOW_REJECTED),
        ({"end": "fail"}, "failed", FailureClass.FLOW_ERROR),
        ({"end": "exit"}, "failed", FailureClass.FLOW_ERROR),
        ({"end": "stop"}, "failed", FailureClass.FLOW_ERROR),
        ({"end": "retry"}, "failed", FailureClass.FLOW_RETRY),
    ],
)
def test_round__ends_an_event_as_its_flow_says(pack, payload, status, failure):
    (event_id,) = pack.events(payload=payload)
    executor = pack.executor()
    assert executor.round() is True
    row = event_row(event_id)
    assert row["Status"] == status
    assert executor.report().ended == {status: 1}
    assert row["LastError"] == (None if failure is None else SUMMARIES[failure])
    assert row["RetryCount"] == (0 if failure is None else 1)
    assert (row["ClaimToken"], row["ClaimedBy"], row["ClaimedUntil"]) == (None, None, None)
    assert (row["TerminalAt"] is None) == (status == "failed")
    assert (row["NextRetryAt"] is None) == (status != "failed")
    assert row["ExecutionOwner"] == "event"
    assert "canary" not in str(row["LastError"])


def test_failed_event__is_tried_again_by_its_routes_policy_until_its_attempts_are_used_up(pack):
    (event_id,) = pack.events(payload={"end": "fail"})
    executor = pack.executor()
    for attempt, wait in ((1, 100), (2, 200)):
        assert executor.round() is True
        row = event_row(event_id)
        assert (row["Status"], row["RetryCount"]) == ("failed", attempt)
        assert wait / 2 < seconds_until(row["NextRetryAt"]) <= wait
        assert executor.round() is False, "it is not due"
        make_event_due(event_id)
    assert executor.round() is True
    row = event_row(event_id)
    assert (row["Status"], row["RetryCount"], row["NextRetryAt"]) == ("dead", 3, None)


def test_flow_that_asks_for_a_later_try__is_given_it(pack):
    (event_id,) = pack.events(payload={"end": "retry"})
    pack.executor().round()
    assert 60 < seconds_until(event_row(event_id)["NextRetryAt"]) <= 120


def test_event__whose_route_is_gone_is_executed_by_its_snapshot(pack):
    (snapshot,) = query("SELECT Definition FROM _System_ConnectorRoute")
    (event_id,) = pack.events(RouteId=new_id(), RouteSnapshot=snapshot["Definition"])
    (lost,) = pack.events(RouteId=new_id())
    pack.executor().round()
    assert event_row(event_id)["Status"] == "processed"
    row = event_row(lost)
    assert (row["Status"], row["LastError"]) == ("failed", SUMMARIES[FailureClass.FLOW_UNKNOWN])


def test_event__whose_payload_cannot_be_opened_fails(pack):
    (event_id,) = pack.events(Payload=b"broken")
    pack.executor().round()
    row = event_row(event_id)
    assert (row["Status"], row["LastError"]) == ("failed", SUMMARIES[FailureClass.PAYLOAD_UNREADABLE])


@pytest.mark.parametrize("ended", [Ended.COMPLETE, Ended.SKIP, Ended.BURY, Ended.RETRY])
def test_end__by_a_token_that_is_no_longer_live_changes_nothing(pack, ended):
    (event_id,) = pack.events()
    work_id = pack.mirror(event_id)
    claimed = pack.claim(event_id)
    change("UPDATE _System_ConnectorEvent SET ClaimToken = 'another' WHERE EventId = %s", event_id)
    before = whole_database()
    with pytest.raises(errors.StaleClaim):
        finish.conclude(claimed, Verdict(ended=ended))
    assert finish.store(claimed, Verdict(ended=ended)) is None
    assert claimed.renew() is False
    assert whole_database() == before
    assert item_row(work_id)["State"] == "pending"


def test_renew__extends_the_claim(pack):
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    expire_claim(event_id)
    assert claimed.renew() is True
    assert 0 < seconds_until(event_row(event_id)["ClaimedUntil"]) <= 60


@pytest.mark.parametrize("status", ["processed", "dead"])
def test_end__whose_commit_was_not_answered_is_settled_by_the_token(pack, status):
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    end = finish.decide_end(Ended.COMPLETE if status == "processed" else Ended.BURY, None, attempt=1, max_attempts=3)
    assert finish._find_end(db.read(), claimed, end) is None
    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE if status == "processed" else Ended.BURY))
    assert finish._find_end(db.read(), claimed, end) is EventStatus(status)
    change(
        "UPDATE _System_ConnectorEvent SET LastError = %s WHERE EventId = %s",
        SUMMARIES[FailureClass.LEASE_LOST],
        event_id,
    )
    with pytest.raises(errors.StaleClaim):
        finish._find_end(db.read(), claimed, end)


# What a lost executor left


def test_reclaim__waits_for_the_claims_end_and_the_slack(pack):
    (event_id,) = pack.events()
    process, lease = pack.hold()
    claim_event(event_id, process, lease)
    before = event_row(event_id)
    assert reclaim_expired(process, lease, slack_seconds=600) == 0
    expire_claim(event_id, seconds=300)
    assert reclaim_expired(process, lease, slack_seconds=600) == 0
    assert event_row(event_id)["ClaimToken"] == before["ClaimToken"]
    expire_claim(event_id, seconds=601)
    assert reclaim_expired(process, lease, slack_seconds=600) == 1
    row = event_row(event_id)
    assert (row["Status"], row["RetryCount"], row["ClaimToken"]) == ("failed", 1, None)
    assert row["LastError"] == SUMMARIES[FailureClass.LEASE_LOST]
    assert claim_event(event_id, process, lease).attempt == 2


@pytest.mark.evidence("A-35")
def test_reclaim__of_an_exhausted_event_ends_it_and_its_mirror(pack):
    (event_id,) = pack.events(RetryCount=2)
    work_id = pack.mirror(event_id)
    process, lease = pack.hold()
    claim_event(event_id, process, lease)
    expire_claim(event_id)
    assert reclaim_expired(process, lease, slack_seconds=5) == 1
    assert event_row(event_id)["Status"] == "dead"
    assert event_row(event_id)["RetryCount"] == 3
    assert item_row(work_id)["State"] == "dead"


def test_reclaim__without_the_lease_changes_nothing(pack):
    (event_id,) = pack.events()
    process, lease = pack.hold()
    claim_event(event_id, process, lease)
    expire_claim(event_id)
    expire_scheduler_lease()
    assert acquire(pack.pack_id, owner="another") is not None
    before = whole_database()
    with pytest.raises(LeaseLost):
        reclaim_expired(process, lease, slack_seconds=5)
    (next_id,) = pack.events()
    with pytest.raises(LeaseLost):
        claim_event(next_id, process, lease)
    assert event_row(next_id)["Status"] == "pending"
    assert whole_database()[0][:1] == before[0]


# Whom it refuses


def test_register__writes_a_row_of_its_own_kind(pack):
    process = register_executor(pack.pack_id, build_version="tests")
    (row,) = query("SELECT * FROM _System_ConnectorClaimProcess")
    assert (row["ProcessId"], row["Kind"], row["PackInstallId"], row["ObservedReceiptId"]) == (
        process.process_id,
        "event_legacy",
        pack.pack_id,
        None,
    )
    process.beat()
    process.stop()
    assert query("SELECT StoppedAt FROM _System_ConnectorClaimProcess")[0]["StoppedAt"] is not None


def test_register__refuses_a_pack_that_was_cut_over_and_one_that_is_not_there(pack):
    pack.cut_over("forward")
    with pytest.raises(ClaimFenced, match="not a rollback"):
        register_executor(pack.pack_id, build_version="tests")
    with pytest.raises(errors.PackNotFound):
        register_executor(new_id(), build_version="tests")
    assert query("SELECT * FROM _System_ConnectorClaimProcess") == []


@pytest.mark.parametrize("how", ["StoppedAt", "EvictedAt", "forward", "rollback"])
def test_claim__by_a_process_that_was_stopped_evicted_or_overtaken_by_a_receipt_changes_nothing(pack, how):
    (event_id,) = pack.events()
    (lost_id,) = pack.events()
    process, lease = pack.hold()
    claim_event(lost_id, process, lease)
    expire_claim(lost_id)
    if how in {"forward", "rollback"}:
        pack.cut_over(how)
    else:
        change(f"UPDATE _System_ConnectorClaimProcess SET {how} = UTC_TIMESTAMP(6)")
    before = whole_database()
    with pytest.raises(ClaimFenced):
        claim_event(event_id, process, lease)
    with pytest.raises(ClaimFenced):
        reclaim_expired(process, lease, slack_seconds=5)
    assert whole_database() == before


def test_end__of_a_claim_is_stored_although_the_process_was_evicted_meanwhile(pack):
    """A cutover waits until nothing is executed; it takes no end away."""
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = UTC_TIMESTAMP(6)")
    assert finish.store(claimed, Verdict(ended=Ended.COMPLETE)) is EventStatus.PROCESSED


def test_round__without_the_scheduler_lease_does_nothing(pack):
    (event_id,) = pack.events()
    assert acquire(pack.pack_id, owner="another") is not None
    assert pack.executor().round() is False
    assert event_row(event_id)["Status"] == "pending"
