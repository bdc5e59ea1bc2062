"""The inbound rollback: what it refuses and leaves as it was, what it hands over, and what its receipt binds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from integration import errors
from integration.cutover import receipts
from integration.cutover.inbound import rollback, rollback_steps
from integration.cutover.inbound.rollback_policy import RollbackRefused, digest_set
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.sql import dependencies
from integration.values import Actor, new_id
from integration.work import process as processes
from integration.work.claim import claim
from integration.work.items import candidate_from_row
from integration.work.process import register_process
from tests.support.authority import audit_entries, system_rows
from tests.support.rollback import FENCES, OWNER, MovedPack, fence_row, receipts_of
from tests.support.work import attempt_rows, change, due_rows, event_row, insert, item_row, query

pytestmark = pytest.mark.django_db
ITEMS = "_System_ConnectorWorkItem"


def set_item(work_id: str, assignment: str) -> None:
    change(f"UPDATE {ITEMS} SET {assignment} WHERE WorkId = %s", work_id)


def set_event(work_id: str, assignment: str) -> None:
    change(f"UPDATE _System_ConnectorEvent SET {assignment} WHERE EventId = %s", item_row(work_id)["EventId"])


@pytest.mark.evidence("C-04", "C-10")
def test_rollback__hands_over_every_waiting_item_and_binds_the_whole_set():
    pack = MovedPack()
    work_ids = [*pack.waiting(3), pack.released()]
    ended = pack.waiting(State="succeeded")[0]
    other = MovedPack(name="other", namespace="acme-other").waiting()[0]
    worker = pack.worker_row()

    done = pack.roll_back()

    assert (done.is_new, done.item_count, done.set_digest) == (True, *digest_set(sorted(work_ids)))
    rows = [item_row(work_id) for work_id in work_ids]
    assert {(row["State"], row["RollbackExecutionFenceId"]) for row in rows} == {
        ("awaiting_legacy_outcome", done.fence_id)
    }
    assert {event_row(row["EventId"])["ExecutionOwner"] for row in rows} == {"event"}
    assert [item_row(work_id)["State"] for work_id in (ended, other)] == ["succeeded", "pending"]
    fence = fence_row(done.fence_id)
    assert (fence["State"], fence["OpenKey"], fence["ItemCount"], fence["SetDigest"], fence["ReceiptId"]) == (
        "sealed",
        pack.pack_id,
        4,
        done.set_digest,
        done.receipt_id,
    )
    first, written = receipts_of(pack.pack_id)
    assert (written["Direction"], written["OwnerGeneration"], fence["OwnerGeneration"]) == ("rollback", 2, 2)
    assert written["PreviousReceiptId"] == first["ReceiptId"]
    assert receipts.find_faults(receipts.list_receipts(db.read(), pack.pack_id)) == ()
    proof = json.loads(written["Proof"])
    assert (proof["rollback_fence_id"], proof["item_count"], proof["set_digest"], proof["approved_builds"]) == (
        done.fence_id,
        4,
        done.set_digest,
        ["tests"],
    )
    assert (proof["claimers_that_may_claim"], proof["attestation"]) == (0, "none runs")
    assert [(found["process_id"], found["ended"]) for found in proof["claimers"]] == [(worker, "evicted")]
    assert [(entry["action"], entry["outcome"]) for entry in audit_entries()] == [
        ("inbound_cutover.rollback_opened", "done"),
        ("inbound_cutover.rolled_back", "done"),
    ]


@pytest.mark.evidence("C-10")
def test_rollback__asked_for_again_is_the_same_one_and_changes_nothing():
    pack = MovedPack()
    pack.waiting(2)
    done = pack.roll_back()
    before = system_rows()
    again = pack.roll_back(attestation="", approved_builds=["another"])
    assert (again.is_new, again.receipt_id, again.set_digest) == (False, done.receipt_id, done.set_digest)
    assert system_rows() == before


def test_rollback__whose_commit_was_not_answered_is_known_by_its_receipt(monkeypatch):
    pack = MovedPack()
    pack.waiting()
    real = db.run

    def run(unit: Any, *, name: str, settle: Any = None, **options: Any) -> Any:
        stored = real(unit, name=name, **options)
        return settle(db.read()) if name == "cutover.roll_back" else stored

    monkeypatch.setattr(db, "run", run)
    done = pack.roll_back()
    assert (done.is_new, done.receipt_id) == (True, receipts_of(pack.pack_id)[-1]["ReceiptId"])


def test_rollback__of_a_pack_in_which_nothing_waits_binds_the_empty_set():
    done = MovedPack().roll_back()
    assert (done.item_count, done.set_digest) == digest_set([])


def effect_of(work_id: str) -> None:
    now = query("SELECT UTC_TIMESTAMP(6) AS Now")[0]["Now"]
    row = {
        "EffectAttemptId": new_id(),
        "CommandId": new_id(),
        "AttemptNumber": 1,
        "OrgId": new_id(),
        "WorkId": work_id,
        "WorkAttempt": 1,
        "LeaseToken": "t",
        "OwnershipEpoch": 1,
        "BindingId": new_id(),
        "BindingGeneration": 1,
        "Method": "PATCH",
        "RelativeTarget": "/x",
        "BodyHash": "0" * 64,
        "PreparedAt": now,
        "DispatchStartedAt": now,
    }
    insert("_System_IntegrationEffectAttempt", [row])


def project(pack: MovedPack, ordinal: int, cutoff: int | None) -> None:
    """Admit an ended input of a source projection, and write the protocol."""
    change("UPDATE _System_ConnectorRoute SET ExecutionClass = 'source_projection'")
    insert(
        "_System_ConnectorEvent",
        [pack.event_values({"n": 1}, Status="processed", SourceLane="contact:7", LaneOrdinal=ordinal)],
    )
    if cutoff is not None:
        row = {"PackInstallId": pack.pack_id, "ProtocolVersion": 1, "LegacyMaxOrdinal": cutoff, "WrittenBy": "tests"}
        now = query("SELECT UTC_TIMESTAMP(6) AS Now")[0]["Now"]
        insert("_System_ConnectorProjectionProtocol", [{**row, "WrittenAt": now}])


def lost(pack: MovedPack) -> None:
    pack.tried("retry", FailureClass="lease_lost")


def unhistoried(pack: MovedPack) -> None:
    change("DELETE FROM _System_ConnectorExecutionAttempt WHERE WorkId = %s", pack.released())


#: What stands in the way, whether claims run or not.
REFUSALS: dict[str, tuple[str, Callable[[MovedPack], Any]]] = {
    "blocked": ("blocked_item", lambda pack: pack.waiting(State="blocked", BlockedOn="x")),
    "failed": ("prior_dispatch", lambda pack: pack.tried("retry", FailureClass="flow_error")),
    "lost": ("outcome_ambiguous", lost),
    "to be cancelled": (
        "cancel_requested",
        lambda pack: pack.released(CancelRequestedAt=datetime.now(UTC), CancelRequestedBy="ana"),
    ),
    "effect": ("outcome_ambiguous", lambda pack: effect_of(pack.released())),
    "history": ("history_unverifiable", unhistoried),
    "lease": ("history_unverifiable", lambda pack: pack.waiting(LeaseToken="t")),
    "event dead": ("event_conflict", lambda pack: set_event(pack.waiting()[0], "Status = 'dead'")),
    "event claimed": ("event_conflict", lambda pack: set_event(pack.waiting()[0], "ClaimToken = 't'")),
    "event replayed": ("event_conflict", lambda pack: set_event(pack.waiting()[0], "ReplayedAt = UTC_TIMESTAMP(6)")),
    "another work type": ("event_conflict", lambda pack: pack.waiting(WorkType="workflow_action_apply")),
    "no event": ("event_conflict", lambda pack: set_item(pack.waiting()[0], "EventId = WorkId")),
    "projection": ("ranges_admitted", lambda pack: pack.waiting(ProjectionKey="a" * 64, ProjectionActiveKey="a" * 64)),
    "input above the cutoff": ("ranges_admitted", lambda pack: project(pack, 8, 7)),
    "input without a protocol": ("ranges_admitted", lambda pack: project(pack, 8, None)),
    "rolled back by hand": ("not_forward", lambda pack: pack.cut_over("rollback")),
}


@pytest.mark.evidence("C-03", "C-04", "C-09")
@pytest.mark.parametrize("name", REFUSALS)
def test_rollback__refused_by_what_waits_stops_no_claim_and_changes_nothing(name):
    code, arrange = REFUSALS[name]
    pack = MovedPack()
    pack.waiting()
    pack.worker_row()
    arrange(pack)
    before = system_rows()

    assert pack.refusal() == code

    assert system_rows() == before
    (entry,) = audit_entries()
    assert (entry["action"], entry["outcome"]) == ("inbound_cutover.rolled_back", "refused")
    assert json.loads(entry["facts"])["code"] == code


@pytest.mark.evidence("C-09")
def test_rollback__of_a_pack_whose_inputs_are_all_below_the_cutoff_is_done():
    pack = MovedPack()
    pack.waiting()
    project(pack, 7, 7)
    done = pack.roll_back()
    assert done.item_count == 1
    assert json.loads(receipts_of(pack.pack_id)[-1]["Proof"])["legacy_max_ordinal"] == 7


def running(pack: MovedPack, *, lease: str) -> str:
    """Admit an item that a worker holds, under a lease that runs or is over."""
    work_id = pack.tried("processing", LeaseToken="t", LeaseOwner="w")
    set_item(work_id, f"LeaseUntil = UTC_TIMESTAMP(6) {lease} INTERVAL 60 SECOND")
    return work_id


@pytest.mark.evidence("C-03")
@pytest.mark.parametrize("lease", ["+", "-"])
def test_rollback__with_a_claimed_item_stops_claims_and_waits_whatever_the_lease_says(lease):
    pack = MovedPack()
    work_id = running(pack, lease=lease)
    pack.waiting()
    worker = pack.worker_row()

    assert pack.refusal() == "not_drained"

    (process,) = query("SELECT * FROM _System_ConnectorClaimProcess WHERE ProcessId = %s", worker)
    assert (process["EvictedAt"] is not None, process["EvictedBy"]) == (True, "ana")
    assert register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id) is None
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["open"]
    assert len(receipts_of(pack.pack_id)) == 1
    set_item(work_id, "State = 'succeeded', LeaseToken = NULL, LeaseUntil = NULL, TerminalAt = UTC_TIMESTAMP(6)")
    assert pack.roll_back().item_count == 1


@pytest.mark.evidence("C-03")
def test_fence_of_a_process__without_the_look_at_an_open_rollback_is_registered(monkeypatch):
    """The negative control: the receipt is still the forward one, and nothing else would stop the claim."""
    pack = MovedPack()
    running(pack, lease="+")
    (work_id,) = pack.waiting()
    assert pack.refusal() == "not_drained"
    monkeypatch.setattr(processes, "_is_rolling_back", lambda tx, pack_install_id: False)
    fence = register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id)
    assert fence is not None
    assert [taken.work_id for taken in claim([candidate_from_row(row) for row in due_rows()], fence).claims] == [
        work_id
    ]


@pytest.mark.evidence("C-03")
def test_abandon__lets_workers_claim_again_while_nothing_was_handed_over():
    pack = MovedPack()
    running(pack, lease="+")
    assert pack.refusal() == "not_drained"

    fence_id = rollback.abandon(pack.pack_id, actor=OWNER, reason="Later")

    fence = fence_row(fence_id)
    assert (fence["State"], fence["OpenKey"], fence["ReceiptId"]) == ("closed", None, None)
    assert register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id) is not None
    with pytest.raises(RollbackRefused, match="No rollback is open"):
        rollback.abandon(pack.pack_id, actor=OWNER, reason="Later")


@pytest.mark.evidence("C-03")
def test_abandon__gives_back_what_was_handed_over_as_it_was():
    pack = MovedPack()
    work_ids = [pack.released(), *pack.waiting(3)]
    before = [without_time(item_row(work_id)) for work_id in work_ids]
    stop_after_one(pack)
    assert [item_row(work_id)["State"] for work_id in work_ids].count("awaiting_legacy_outcome") == 1

    fence_id = rollback.abandon(pack.pack_id, actor=OWNER, reason="Later")

    assert fence_row(fence_id)["State"] == "closed"
    assert [without_time(item_row(work_id)) for work_id in work_ids] == before
    assert register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id) is not None
    assert pack.roll_back().item_count == 4


def test_abandon__of_a_rollback_whose_receipt_is_written_is_refused():
    pack = MovedPack()
    pack.waiting(3)
    pack.roll_back()
    before = system_rows()
    with pytest.raises(RollbackRefused, match="its receipt is written"):
        rollback.abandon(pack.pack_id, actor=OWNER, reason="Later")
    assert system_rows() == before


@pytest.mark.evidence("C-09")
def test_abandon__ends_a_rollback_that_an_input_of_a_projection_has_overtaken():
    pack = MovedPack()
    work_ids = pack.waiting(2)
    stop_after_one(pack)
    project(pack, 8, 7)
    assert pack.refusal(chunk=1) == "ranges_admitted"
    rollback.abandon(pack.pack_id, actor=OWNER, reason="This incarnation stays")
    assert {item_row(work_id)["State"] for work_id in work_ids} == {"pending"}


def without_time(row: dict[str, Any]) -> dict[str, Any]:
    """Return an item's row but for when it was written."""
    return {name: value for name, value in row.items() if name != "UpdatedAt"}


class Stopped(Exception):
    """The process ended here."""


def stop_after_one(pack: MovedPack) -> None:
    """Roll back until the first item is handed over."""
    real = rollback.failpoint

    def stop(name: str) -> None:
        if name == "rollback.after_chunk":
            raise Stopped

    rollback.failpoint = stop
    try:
        with pytest.raises(Stopped):
            pack.roll_back(chunk=1)
    finally:
        rollback.failpoint = real


@pytest.mark.evidence("C-04")
def test_rollback__in_several_transactions_is_taken_up_where_it_stopped():
    pack = MovedPack()
    retried = pack.released()
    work_ids = [retried, *pack.waiting(4)]
    stop_after_one(pack)

    assert [item_row(work_id)["State"] for work_id in work_ids].count("awaiting_legacy_outcome") == 1
    assert item_row(retried)["State"] == "awaiting_legacy_outcome"
    # The Event changes hands with the receipt alone.
    assert event_row(item_row(retried)["EventId"])["ExecutionOwner"] == "work_item"
    late = pack.waiting()

    done = pack.roll_back(chunk=2)

    assert (done.item_count, done.set_digest) == digest_set(sorted([*work_ids, *late]))
    assert event_row(item_row(retried)["EventId"])["ExecutionOwner"] == "event"
    assert len(receipts_of(pack.pack_id)) == 2


@pytest.mark.evidence("C-09")
def test_rollback__in_several_transactions_needs_admission_closed_where_inputs_of_projections_may_come():
    pack = MovedPack()
    pack.route("contact.changed", execution="source_projection", source_lane="contact.id")
    change("UPDATE _System_ConnectorRoute SET ExecutionClass = 'source_projection' WHERE EventKind = 'contact.changed'")
    pack.waiting(2)
    assert pack.refusal(chunk=1) == "admission_open"
    assert query(f"SELECT WorkId FROM {ITEMS} WHERE RollbackExecutionFenceId IS NOT NULL") == []
    now = query("SELECT UTC_TIMESTAMP(6) AS Now")[0]["Now"]
    fence = {"FenceId": new_id(), "Namespace": pack.namespace, "Scope": "contact.changed", "ArmedAt": now}
    insert("_System_ConnectorAdmissionFence", [{**fence, "ArmedBy": "tests", "Reason": "x"}])
    assert pack.roll_back(chunk=1).item_count == 2


def test_rollback__that_finds_an_item_blocked_between_two_statements_changes_nothing(monkeypatch):
    pack = MovedPack()
    first, second = pack.waiting(2)
    real = rollback_steps.prove

    def prove(tx: Tx, *arguments: Any, **options: Any) -> Any:
        proof = real(tx, *arguments, **options)
        assert tx.execute(dependencies.BLOCK_WORK_ITEMS, {"work_ids": [second], "blocked_on": "x"}) == 1
        return proof

    monkeypatch.setattr(rollback_steps, "prove", prove)
    with pytest.raises(errors.ConcurrentChange):
        pack.roll_back()
    assert [item_row(work_id)["State"] for work_id in (first, second)] == ["pending", "pending"]
    assert len(receipts_of(pack.pack_id)) == 1


@pytest.mark.evidence("C-03")
def test_rollback__evicts_a_process_of_a_kind_that_this_build_does_not_know():
    pack = MovedPack()
    process_id = pack.worker_row(Kind="work_item_v3")
    pack.roll_back()
    (row,) = query("SELECT EvictedAt FROM _System_ConnectorClaimProcess WHERE ProcessId = %s", process_id)
    assert row["EvictedAt"] is not None
    proof = json.loads(receipts_of(pack.pack_id)[-1]["Proof"])
    assert [(found["process_id"], found["ended"]) for found in proof["claimers"]] == [(process_id, "evicted")]


@pytest.mark.evidence("C-02", "C-12")
def test_worker__of_before_the_rollback_claims_nothing_that_is_admitted_after_it():
    pack = MovedPack()
    fence = register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id)
    assert fence is not None
    pack.roll_back()
    (work_id,) = pack.waiting()
    assert claim([candidate_from_row(row) for row in due_rows()], fence).claims == ()
    assert attempt_rows(work_id) == []


def test_rollback__is_the_right_of_who_may_run_cutovers():
    pack = MovedPack()
    before = system_rows()
    with pytest.raises(errors.NotAllowed):
        pack.roll_back(actor=Actor(user_id=None, name="eve"))
    with pytest.raises(errors.NotAllowed):
        rollback.abandon(pack.pack_id, actor=Actor(user_id=None, name="eve"), reason="x")
    assert system_rows() == before
    assert {entry["outcome"] for entry in audit_entries()} == {"refused"}


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"reason": " "}, "reason"),
        ({"approved_builds": []}, "approved_builds"),
        ({"approved_builds": [""]}, "approved_builds"),
        ({"approved_builds": ["a" * 65]}, "approved_builds"),
        ({"approved_builds": ["a\nb"]}, "approved_builds"),
        ({"attestation": "x" * 501}, "attest"),
        ({"attestation": "a\x00b"}, "attest"),
        ({"chunk": 0}, "chunk"),
        ({"chunk": 10_001}, "chunk"),
        ({"chunk": 2**64}, "chunk"),
    ],
)
def test_rollback__refuses_what_is_not_valid_and_names_it(over, field):
    pack = MovedPack()
    before = system_rows()
    with pytest.raises(errors.InvalidInput) as refused:
        pack.roll_back(**over)
    assert refused.value.data_fields["field"] == field
    assert system_rows() == before


def test_rollback__of_no_pack_and_without_an_attestation():
    pack = MovedPack()
    pack.pack_id, real = new_id(), pack.pack_id
    with pytest.raises(errors.PackNotFound):
        pack.roll_back()
    pack.pack_id = real
    assert pack.refusal(attestation=" ") == "attestation_missing"
    assert query(f"SELECT FenceId FROM {FENCES}") == []
