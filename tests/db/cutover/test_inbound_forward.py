"""Handing a pack's work to WorkItems: what is made, what is proved, what stands in the way, what is left as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration import errors
from integration.cutover.inbound import forward as steps
from integration.cutover.inbound import materialize as materializing
from integration.cutover.inbound.service import CutoverRefused, abandon
from integration.cutover.inbound.verify import read_status
from integration.legacy.process import register_executor
from integration.storage.statements import LockRank
from integration.values import Actor, new_id
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.process import ClaimFenced, register_process
from tests.support import inbound
from tests.support.inbound import ATTESTED, OWNER, REASON, actions, receipts_of, roll_back, work_of
from tests.support.legacy import LegacyPack, expire_claim
from tests.support.work import change, event_row, insert, item_row, query

pytestmark = pytest.mark.django_db
TABLES = ("Event", "WorkItem", "CutoverReceipt", "ClaimProcess", "SchedulerLease", "PackInstall")


@pytest.fixture
def pack() -> LegacyPack:
    pack = LegacyPack(flow="tests.noop")
    pack.route(retry={"max_attempts": 4}, queue="bulk")
    return pack


def whole_database() -> list[list[dict]]:
    return [query(f"SELECT * FROM _System_Connector{table} ORDER BY 1") for table in TABLES]


def codes(refused: Any) -> list[str]:
    return [obstacle["code"] for obstacle in refused.value.data_fields["obstacles"]]


def proof_of(pack: LegacyPack) -> dict[str, Any]:
    return json.loads(receipts_of(pack)[-1]["Proof"])


def worker() -> Any:
    return register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")


# What is made


@pytest.mark.evidence("C-01", "C-08")
def test_forward__lets_work_items_be_claimed_and_not_before(pack):
    (event_id,) = pack.events()
    work_id = pack.mirror(event_id)
    process = worker()
    assert process.fence_for(pack.pack_id) is None, "no receipt, no claim"
    done = inbound.forward(pack)
    assert (done.is_new, done.owner_generation, done.materialized) == (True, 1, 0)
    process = worker()
    taken = claim_next(process, CandidateQueue(process))
    assert (taken.work_id, event_row(event_id)["ExecutionOwner"]) == (work_id, "work_item")


@pytest.mark.evidence("C-11")
def test_forward__makes_the_work_of_eligible_events_alone(pack):
    eligible = [
        *pack.events(),
        *pack.events(Status="failed", RetryCount=2),
        *pack.events(SourceLane="deal:1", TargetLane="account:1"),
    ]
    others = [
        *pack.events(Status="processed"),
        *pack.events(Status="skipped"),
        *pack.events(Status="dead"),
        *pack.events(ReplayedAt="2026-01-01 00:00:00"),
        *pack.events(ExecutionOwner="work_item"),
    ]
    for state in ("pending", "blocked", "retry", "cancelled", "dead", "succeeded"):
        (mirrored,) = pack.events()
        pack.mirror(mirrored, State=state)
        others.append(mirrored)
    before = {event_id: work_of(event_id) for event_id in others}

    assert inbound.forward(pack).materialized == len(eligible)

    assert {event_id: work_of(event_id) for event_id in others} == before
    for event_id in eligible:
        (item,) = work_of(event_id)
        event = event_row(event_id)
        assert (item["State"], item["Attempt"], item["LeaseToken"]) == ("pending", 0, None)
        assert (item["SubjectKind"], item["SubjectId"], item["WorkType"]) == ("event", event_id, event["WorkType"])
        assert (item["FlowName"], item["MaxAttempts"], item["QueueClass"]) == ("tests.noop", 4, "bulk")
        assert item["OwnerGeneration"] == 1
        for column in ("SourceLane", "TargetLane", "LaneOrdinal", "RouteId", "OrgId", "Namespace", "PackInstallId"):
            assert item[column] == event[column], column
        assert event["ExecutionOwner"] == "event", "the first claim takes it over"


@pytest.mark.evidence("C-11")
def test_forward__makes_work_page_by_page_and_never_twice(pack, monkeypatch):
    monkeypatch.setattr(materializing, "PAGE", 4)
    monkeypatch.setattr(materializing, "BATCH", 3)
    # Equal times, so that a page ends between them.
    event_ids = [*pack.events(5), *pack.events(5, NextRetryAt="2026-01-01"), *pack.events(1, NextRetryAt="2026-01-02")]
    event_ids += [*pack.events(5, Status="failed", NextRetryAt="2026-01-01"), *pack.events(1, Status="failed")]
    assert materializing.materialize(pack.pack_id) == 17
    assert materializing.materialize(pack.pack_id) == 0
    assert [len(work_of(event_id)) for event_id in event_ids] == [1] * 17


@pytest.mark.evidence("C-11")
def test_materialize__of_an_event_that_changed_since_it_was_read_makes_nothing(pack):
    routes = {pack.route_id: materializing.reads.get_route(pack.route_id)}
    ids = [*pack.events(Status="processed"), *pack.events(ClaimToken="t", Status="processing"), *pack.events()]
    pack.mirror(ids[-1])
    other = LegacyPack(namespace="other", flow="tests.noop")
    ids += [*other.events(), new_id()]
    assert materializing._materialize_batch(pack.pack_id, ids, routes) == 0


# What is proved


@pytest.mark.evidence("C-01", "C-02")
def test_receipt__binds_what_the_locks_have_shown(pack):
    stopped, running = (register_executor(pack.pack_id, build_version=build) for build in ("v1", "v2"))
    stopped.stop()
    pack.events(3)
    pack.events(Status="dead")
    mirror_of(pack, {"State": "cancelled"})
    done = inbound.forward(pack)
    (row,) = receipts_of(pack)
    proof = proof_of(pack)
    assert (row["ReceiptId"], row["Direction"], row["WrittenBy"]) == (done.receipt_id, "forward", "owner")
    assert (proof["kind"], proof["attestation"], proof["reason"]) == ("inbound_forward", ATTESTED, REASON)
    assert set(proof["counts"].values()) == {0}
    assert proof["counts"].keys() >= {"events_processing", "event_claims", "claim_transactions", "scheduler_leases"}
    ended = [(one["process_id"], one["kind"], one["build_version"], one["ended"]) for one in proof["processes"]]
    assert ended == [
        (stopped.process_id, "event_legacy", "v1", "stopped"),
        (running.process_id, "event_legacy", "v2", "evicted"),
    ]
    assert proof["processes"][1]["evicted_by"] == "owner"
    assert proof["coverage"] == {
        "owned_by_event": 4,
        "work_item_ended": 1,
        "without_work_item": 0,
        "ambiguous": 0,
    }
    assert proof["schema"]["is_complete"] is True
    assert proof["history"]["events"] == {"event/dead": 1, "event/pending": 4}
    assert actions() == [("claims_stopped", "done"), ("moved_forward", "done")]


@pytest.mark.evidence("C-12")
def test_forward__ends_every_executor_whatever_its_heartbeat_says(pack):
    process, lease = pack.hold()
    change("UPDATE _System_ConnectorClaimProcess SET HeartbeatAt = '2001-01-01 00:00:00'")
    (event_id,) = pack.events()
    inbound.forward(pack)
    with pytest.raises(ClaimFenced):
        steps_claim(event_id, process, lease)
    with pytest.raises(ClaimFenced):
        register_executor(pack.pack_id, build_version="v2")
    (row,) = query("SELECT EvictedAt, EvictedBy, StoppedAt FROM _System_ConnectorClaimProcess")
    assert (row["EvictedAt"] is None, row["EvictedBy"], row["StoppedAt"]) == (False, "owner", None)


def steps_claim(event_id: str, process: Any, lease: Any) -> Any:
    from integration.legacy.claim import claim_event

    return claim_event(event_id, process, lease)


@pytest.mark.evidence("C-12")
def test_executor__that_was_evicted_ends_instead_of_standing_by(pack):
    executor = pack.executor()
    assert executor.round() is False, "nothing is due"
    inbound.forward(pack)
    with pytest.raises(ClaimFenced):
        executor.round()


def test_write_receipt__locks_in_the_order_of_ranks(pack, monkeypatch):
    register_executor(pack.pack_id, build_version="v1")
    trace: list[LockRank] = []
    append = steps.receipts.append
    monkeypatch.setattr(
        steps.receipts, "append", lambda held, **values: (trace.extend(held.tx.lock_trace), append(held, **values))[1]
    )
    order = steps.Order(
        pack_install_id=pack.pack_id, actor=OWNER, reason=REASON, attestation=ATTESTED, receipt_id=new_id()
    )
    steps.stop_claims(order)
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = NULL, EvictedBy = NULL")
    steps.write_receipt(order, pack.namespace, materializing.reads.read_history(materializing.db.read(), pack.pack_id))
    assert trace == [LockRank.NAMESPACE, LockRank.PACK, LockRank.PROCESS]


def test_forward__again_changes_nothing_and_names_the_receipt(pack):
    pack.events(2)
    first = inbound.forward(pack)
    before = whole_database()
    again = inbound.forward(pack)
    assert (again.receipt_id, again.is_new, again.materialized) == (first.receipt_id, False, 0)
    assert whole_database() == before


# What stands in the way


def open_rollback(pack: LegacyPack) -> None:
    insert(
        "_System_ConnectorRollbackFence",
        [
            {
                "FenceId": new_id(),
                "PackInstallId": pack.pack_id,
                "OwnerGeneration": 2,
                "State": "open",
                "OpenKey": pack.pack_id,
                "OpenedAt": "2026-01-01",
                "OpenedBy": "owner",
            }
        ],
    )


def mirror_of(pack: LegacyPack, work: dict[str, Any], **event: Any) -> str:
    (event_id,) = pack.events(**event)
    return pack.mirror(event_id, **work)


def both_types(pack: LegacyPack) -> None:
    (event_id,) = pack.events()
    pack.mirror(event_id)
    pack.mirror(event_id, WorkType="workflow_action_apply")


def edited_receipt(pack: LegacyPack) -> None:
    roll_back(pack)
    change("UPDATE _System_ConnectorCutoverReceipt SET WrittenBy = 'another'")


def projected(pack: LegacyPack) -> None:
    route_id = pack.route("contact.changed", execution="source_projection", source_lane="contact.id")
    change("UPDATE _System_ConnectorRoute SET ExecutionClass = 'source_projection' WHERE RouteId = %s", route_id)
    pack.events(RouteId=route_id, SourceLane="contact:1")


IN_THE_WAY = {
    "pack_not_active": lambda pack: change("UPDATE _System_ConnectorPackInstall SET Status = 'retired'"),
    "receipts_broken": edited_receipt,
    "rollback_unfinished": open_rollback,
    "legacy_outcome_awaited": lambda pack: mirror_of(pack, {"State": "awaiting_legacy_outcome"}),
    "legacy_outcome_unknown": lambda pack: mirror_of(pack, {"State": "legacy_outcome_unknown"}),
    "events_without_route": lambda pack: pack.events(RouteId=new_id()),
    "events_without_range": projected,
    "ambiguous_owner": both_types,
    "mirror_left_behind": lambda pack: mirror_of(pack, {}, Status="processed"),
}


@pytest.mark.evidence("C-01", "C-06")
@pytest.mark.parametrize("code", IN_THE_WAY)
def test_forward__refuses_what_only_a_person_clears_and_changes_nothing(pack, code):
    IN_THE_WAY[code](pack)
    pack.events(2)
    before = whole_database()
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack)
    assert codes(refused) == [code]
    assert whole_database() == before
    assert actions() == [("moved_forward", "refused")]
    assert code in [obstacle.code for obstacle in read_status(pack.pack_id).obstacles]


CLAIM = {"ClaimToken": "t", "ClaimedBy": "an old build", "ClaimedUntil": "2020-01-01"}
#: Claims of Events that no time ends, as an old build or a hand has left them.
ENDLESS: dict[str, dict[str, Any]] = {
    "a token on a pending Event": CLAIM,
    "a token on a failed Event": {"Status": "failed", **CLAIM},
    "no end": {"Status": "processing", **CLAIM, "ClaimedUntil": None},
    "no token": {"Status": "processing", **CLAIM, "ClaimToken": None},
    "of the WorkItem": {"Status": "processing", "ExecutionOwner": "work_item"},
}


@pytest.mark.evidence("C-01", "C-02")
@pytest.mark.parametrize("name", ENDLESS)
def test_forward__does_not_wait_for_a_claim_that_no_time_ends(pack, name):
    event_id, _ = pack.events(**ENDLESS[name])[0], pack.events()
    before = whole_database()
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack, timeout_seconds=3600.0, wait=lambda seconds: pytest.fail("it waits"))
    assert codes(refused) == ["claim_without_end"]
    assert event_id in refused.value.data_fields["obstacles"][0]["sentence"]
    assert whole_database() == before


@pytest.mark.evidence("C-01")
@pytest.mark.parametrize("until", ["2020-01-01", None])
def test_forward__waits_for_a_work_item_no_longer_than_its_lease(pack, until):
    lease = {"LeaseToken": "t", "LeaseOwner": "an old build"}
    event_id, *_ = pack.events(2)
    work_id = pack.mirror(event_id, State="processing", Attempt=1, **lease, LeaseUntil="2100-01-01")
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item' WHERE EventId = %s", event_id)
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack)
    assert codes(refused) == ["work_items_processing"]
    change("UPDATE _System_ConnectorWorkItem SET LeaseUntil = %s WHERE WorkId = %s", until, work_id)
    before = whole_database()
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack, timeout_seconds=3600.0, wait=lambda seconds: pytest.fail("it waits"))
    assert codes(refused) == ["work_items_lost"]
    assert work_id in refused.value.data_fields["obstacles"][0]["sentence"]
    assert whole_database() == before
    assert receipts_of(pack) == []


@pytest.mark.evidence("C-01")
def test_forward__without_an_attestation_is_refused(pack):
    before = whole_database()
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack, attestation=" ")
    assert codes(refused) == ["attestation_missing"]
    assert whole_database() == before


@pytest.mark.evidence("C-02")
def test_forward__waits_for_what_is_executed_and_keeps_everybody_from_claiming(pack):
    event_id, other = pack.events(2)
    claimed = pack.claim(event_id)
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack)
    assert codes(refused) == ["events_processing", "event_claims"]
    assert receipts_of(pack) == []
    assert len(work_of(other)) == 1, "what could be made is made"
    assert worker().fence_for(pack.pack_id) is None
    with pytest.raises(ClaimFenced, match="under way"):
        register_executor(pack.pack_id, build_version="v2")
    # What was claimed before may end.
    end(claimed)
    assert event_row(event_id)["Status"] == "processed"
    assert inbound.forward(pack).is_new
    assert work_of(event_id) == [], "it has ended"


def end(claimed: Any) -> None:
    from integration.legacy import finish
    from integration.work.execute import Verdict
    from integration.work.finish import Ended

    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))


@pytest.mark.evidence("C-02")
def test_forward__takes_back_what_a_lost_executor_holds(pack):
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    expire_claim(event_id)
    done = inbound.forward(pack, timeout_seconds=30.0)
    assert (done.taken_back, done.materialized) == (1, 1)
    row = event_row(event_id)
    assert (row["Status"], row["RetryCount"], row["ClaimToken"]) == ("failed", 1, None)
    with pytest.raises(errors.StaleClaim):
        end(claimed)
    process = worker()
    assert claim_next(process, CandidateQueue(process)).item.event_id == event_id


@pytest.mark.evidence("C-02")
def test_forward__with_another_lease_of_the_pack_takes_it_too(pack):
    change(
        "INSERT INTO _System_ConnectorSchedulerLease (PackInstallId, LeaseName, LeaseOwner, LeaseToken, LeaseUntil,"
        " OwnershipEpoch, UpdatedAt) VALUES (%s, 'custom', 'old build', 't', '2100-01-01', 3, '2026-01-01')",
        pack.pack_id,
    )
    inbound.forward(pack)
    rows = query("SELECT LeaseName, LeaseToken, OwnershipEpoch FROM _System_ConnectorSchedulerLease ORDER BY LeaseName")
    assert [(row["LeaseName"], row["LeaseToken"], row["OwnershipEpoch"]) for row in rows] == [
        ("custom", None, 4),
        ("event_executor", None, 1),
    ]


def test_abandon__gives_the_pack_back_to_its_executor(pack):
    event_id, other = pack.events(2)
    pack.claim(event_id)
    with pytest.raises(CutoverRefused):
        inbound.forward(pack)
    assert abandon(pack.pack_id, actor=OWNER, reason="Not today") is True
    assert abandon(pack.pack_id, actor=OWNER, reason="Not today") is False
    assert pack.claim(other).event_id == other
    assert actions() == [("claims_stopped", "done"), ("moved_forward", "refused"), ("abandoned", "done")]


def test_abandon__of_what_is_done_is_refused(pack):
    inbound.forward(pack)
    with pytest.raises(errors.Refused, match="rollback"):
        abandon(pack.pack_id, actor=OWNER, reason="Not today")


# After a rollback


def reconciled(pack: LegacyPack, *, fence_id: str, **receipt: Any) -> str:
    """Return a WorkItem that a rollback handed over and the Event executor's receipt ended."""
    (event_id,) = pack.events(Status="processed")
    row = {
        "EventId": event_id,
        "WorkType": "connector_event",
        "RollbackFenceId": fence_id,
        "ReceiptVersion": 1,
        "Outcome": "processed",
        "Digest": "a" * 64,
        "WrittenAt": "2026-01-01",
        **receipt,
    }
    insert("_System_ConnectorLegacyOutcomeReceipt", [row])
    return pack.mirror(
        event_id,
        State="reconciled_legacy_terminal",
        RollbackExecutionFenceId=fence_id,
        LegacyOutcomeReceiptVersion=1,
        LegacyOutcomeReceiptDigest="a" * 64,
    )


def closed_fence(pack: LegacyPack) -> str:
    fence_id = new_id()
    insert(
        "_System_ConnectorRollbackFence",
        [
            {
                "FenceId": fence_id,
                "PackInstallId": pack.pack_id,
                "OwnerGeneration": 2,
                "State": "closed",
                "OpenedAt": "2026-01-01",
                "OpenedBy": "owner",
            }
        ],
    )
    return fence_id


@pytest.mark.evidence("C-06", "C-11")
def test_forward__after_a_rollback_leaves_what_the_executor_ended_and_makes_only_what_is_new(pack):
    inbound.forward(pack)
    roll_back(pack)
    ended = reconciled(pack, fence_id=closed_fence(pack))
    before = item_row(ended)
    (event_id,) = pack.events()
    done = inbound.forward(pack)
    assert (done.owner_generation, done.materialized) == (3, 1)
    assert item_row(ended) == before
    assert work_of(event_id)[0]["OwnerGeneration"] == 3
    assert [row["Direction"] for row in receipts_of(pack)] == ["forward", "rollback", "forward"]


@pytest.mark.evidence("C-07")
@pytest.mark.parametrize(
    "receipt",
    [{"ConflictAt": "2026-01-01", "ConflictDigest": "c" * 64}, {"Digest": "b" * 64}, {"EventId": "elsewhere"}],
    ids=["conflict", "another digest", "missing"],
)
def test_forward__with_an_outcome_that_no_receipt_confirms_is_refused(pack, receipt):
    inbound.forward(pack)
    roll_back(pack)
    reconciled(pack, fence_id=closed_fence(pack), **receipt)
    with pytest.raises(CutoverRefused) as refused:
        inbound.forward(pack)
    assert codes(refused) == ["legacy_outcome_unconfirmed"]


@pytest.mark.evidence("C-12")
def test_worker__that_observed_an_earlier_receipt_claims_no_more(pack):
    inbound.forward(pack)
    process = worker()
    fence = process.fence_for(pack.pack_id)
    roll_back(pack)
    inbound.forward(pack)
    (event_id,) = pack.events()
    pack.mirror(event_id)
    taken = claim_next(process, CandidateQueue(process))
    assert taken is None, "its row was evicted"
    assert fence is not None
    again = worker()
    assert claim_next(again, CandidateQueue(again)).item.event_id == event_id


@pytest.mark.evidence("C-08")
def test_worker__whose_receipt_is_gone_claims_no_more(pack):
    (event_id,) = pack.events()
    inbound.forward(pack)
    process = worker()
    assert process.fence_for(pack.pack_id) is not None
    change("DELETE FROM _System_ConnectorCutoverReceipt")
    assert claim_next(process, CandidateQueue(process)) is None
    assert worker().fence_for(pack.pack_id) is None
    assert (event_row(event_id)["ExecutionOwner"], work_of(event_id)[0]["Attempt"]) == ("event", 0)


@pytest.mark.evidence("C-01")
def test_receipt__names_the_processes_that_the_one_before_does_not(pack):
    first = register_executor(pack.pack_id, build_version="v1")
    inbound.forward(pack)
    fence = worker().fence_for(pack.pack_id)
    change(
        "INSERT INTO _System_ConnectorClaimProcess (ProcessId, Kind, BuildVersion, Host, PackInstallId, StartedAt,"
        " HeartbeatAt) VALUES (%s, 'unheard_of', 'v9', 'h', %s, '2026-01-01', '2026-01-01')",
        new_id(),
        pack.pack_id,
    )
    named = [one["process_id"] for one in proof_of(pack)["processes"]]
    assert named == [first.process_id]
    roll_back(pack)
    assert fence is not None
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = NULL WHERE Kind = 'unheard_of'")
    inbound.forward(pack)
    assert [(one["kind"], one["ended"]) for one in proof_of(pack)["processes"]] == [("unheard_of", "evicted")]


# What is not valid


@pytest.mark.parametrize(
    ("change_of", "error", "field"),
    [
        ({"reason": " "}, errors.InvalidInput, "reason"),
        ({"attestation": "x" * 501}, errors.InvalidInput, "attest"),
        ({"attestation": "two\nlines"}, errors.InvalidInput, "attest"),
        ({"timeout_seconds": -1.0}, errors.InvalidInput, "timeout"),
        ({"timeout_seconds": float("nan")}, errors.InvalidInput, "timeout"),
        ({"timeout_seconds": 1e9}, errors.InvalidInput, "timeout"),
        ({"actor": Actor(user_id=None, name="nobody")}, errors.NotAllowed, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_forward__refuses_what_is_not_valid(pack, change_of, error, field):
    before = whole_database()
    with pytest.raises(error) as refused:
        inbound.forward(pack, **change_of)
    assert refused.value.data_fields.get("field") == field
    assert whole_database() == before
