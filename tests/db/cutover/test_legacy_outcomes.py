"""What the Event executor of a rolled-back pack leaves, and what the projector makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from integration import errors
from integration.authority import reads
from integration.authority import service as authority
from integration.authority.listing import DeadFilters
from integration.authority.values import OwnerKind, Ref, Refused
from integration.cutover.inbound import projector
from integration.legacy import finish, outcomes
from integration.legacy.claim import EventClaim, claim_event, reclaim_expired
from integration.legacy.policy import HeldBack
from integration.legacy.process import BridgeRefused, register_executor
from integration.states import EventStatus
from integration.storage import db, probe
from integration.storage.locks import lock_executed_event
from integration.values import Actor, new_id
from integration.work.execute import Verdict
from integration.work.finish import Ended
from integration.work.legacy_outcomes import outcome_digest
from tests.support.authority import MARIA, system_rows
from tests.support.bridge import BridgedPack
from tests.support.legacy import LegacyPack, expire_claim, make_event_due
from tests.support.rollback import OUTCOMES, OWNER, fence_row, outcome_rows
from tests.support.work import change, event_row, item_row, query

pytestmark = pytest.mark.django_db
ITEMS = "_System_ConnectorWorkItem"


@pytest.fixture
def pack() -> BridgedPack:
    return BridgedPack()


def rolled_back(pack: BridgedPack, **waiting: Any) -> tuple[str, str, str]:
    """Roll a pack back with one item; return its WorkId, its EventId and the fence."""
    (work_id,) = pack.waiting(**waiting)
    done = pack.roll_back()
    return work_id, item_row(work_id)["EventId"], done.fence_id


def deliver(event_id: str, fence_id: str, status: EventStatus) -> None:
    """Deliver an outcome of an Event, once more."""

    def unit(tx: Any) -> None:
        event = lock_executed_event(tx, event_id)
        assert event is not None
        outcomes.write_outcome(event, status, fence_id)

    db.run(unit, name="tests.deliver")


# The receipts


@pytest.mark.evidence("C-05")
@pytest.mark.parametrize(
    ("end", "status", "outcome"),
    [("well", "processed", "succeeded"), ("skip", "skipped", "skipped"), ("reject", "dead", "dead")],
)
def test_receipt__is_written_with_every_end_and_ends_the_item_that_waits_for_it(pack, end, status, outcome):
    work_id, event_id, fence_id = rolled_back(pack, end=end)

    assert pack.run_out() == {status: 1}

    (receipt,) = outcome_rows()
    key = {"event_id": event_id, "work_type": "connector_event", "rollback_fence_id": fence_id, "outcome": status}
    assert (receipt["Outcome"], receipt["Digest"], receipt["ReceiptVersion"]) == (status, outcome_digest(**key), 1)
    assert (receipt["ConflictAt"], receipt["ProjectedAt"]) == (None, None)
    assert (event_row(event_id)["Status"], item_row(work_id)["State"]) == (status, "awaiting_legacy_outcome")

    done = pack.reconcile()

    assert (done.reconciled, done.lost, done.awaiting, done.unknown, done.is_closed) == (1, 0, 0, 0, True)
    row = item_row(work_id)
    assert (row["State"], row["Outcome"], row["Attempt"]) == ("reconciled_legacy_terminal", outcome, 0)
    assert (row["LegacyOutcomeReceiptVersion"], row["LegacyOutcomeReceiptDigest"]) == (1, receipt["Digest"])
    assert row["TerminalAt"] == receipt["WrittenAt"]
    assert outcome_rows()[0]["ProjectedAt"] is not None
    fence = fence_row(fence_id)
    assert (fence["State"], fence["OpenKey"], fence["ClosedAt"] is not None) == ("closed", None, True)


@pytest.mark.evidence("C-05")
def test_receipt__is_stored_with_the_end_or_not_at_all(pack, monkeypatch):
    work_id, event_id, _ = rolled_back(pack)
    claimed = pack.claim(event_id)

    def fail(*_: Any) -> None:
        raise errors.Busy

    monkeypatch.setattr(finish, "write_outcome", fail)
    with pytest.raises(errors.Busy):
        finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))
    assert (event_row(event_id)["Status"], outcome_rows()) == ("processing", [])
    monkeypatch.undo()
    assert finish.conclude(claimed, Verdict(ended=Ended.COMPLETE)) is EventStatus.PROCESSED
    assert len(outcome_rows()) == 1
    assert item_row(work_id)["State"] == "awaiting_legacy_outcome"


@pytest.mark.evidence("C-05")
def test_receipt__is_written_for_the_last_failure_and_for_no_earlier_one(pack):
    change(
        "UPDATE _System_ConnectorRoute SET Definition = REPLACE(Definition, '\"max_attempts\":5', '\"max_attempts\":2')"
    )
    _, event_id, _ = rolled_back(pack, end="fail")
    executor = pack.executor()
    executor.round()
    assert (event_row(event_id)["Status"], outcome_rows()) == ("failed", [])
    for _ in range(10):
        make_event_due(event_id)
        executor.round()
    assert [(row["Outcome"], event_row(event_id)["Status"]) for row in outcome_rows()] == [("dead", "dead")]


@pytest.mark.evidence("C-05")
def test_receipt__is_written_when_the_claim_of_a_last_attempt_is_taken_back(pack):
    _, event_id, fence_id = rolled_back(pack)
    change("UPDATE _System_ConnectorEvent SET RetryCount = 99 WHERE EventId = %s", event_id)
    process, lease = pack.hold()
    assert isinstance(claim_event(event_id, process, lease), EventClaim)
    expire_claim(event_id)
    assert reclaim_expired(process, lease, slack_seconds=5) == 1
    (receipt,) = outcome_rows()
    assert (receipt["Outcome"], receipt["RollbackFenceId"]) == ("dead", fence_id)


@pytest.mark.evidence("C-05")
def test_receipt__is_written_for_what_was_admitted_after_the_rollback_and_its_item_follows_its_event(pack):
    done = pack.roll_back()
    (work_id,) = pack.waiting()
    (alone,) = pack.events()
    assert pack.run_out() == {"processed": 2}
    assert item_row(work_id)["State"] == "succeeded"
    assert {row["EventId"] for row in outcome_rows()} == {item_row(work_id)["EventId"], alone}
    assert pack.reconcile().is_closed
    assert item_row(work_id)["State"] == "succeeded"
    assert {row["RollbackFenceId"] for row in outcome_rows()} == {done.fence_id}


def test_executor__of_a_pack_that_was_never_cut_over_writes_no_receipt():
    never = LegacyPack()
    never.route()
    never.events()
    executor = never.executor()
    executor.round()
    assert (executor.report().ended, outcome_rows()) == ({"processed": 1}, [])


@pytest.mark.evidence("C-07")
def test_outcome__delivered_again_is_the_same_receipt(pack):
    _, event_id, fence_id = rolled_back(pack)
    pack.run_out()
    before = outcome_rows()
    deliver(event_id, fence_id, EventStatus.PROCESSED)
    assert outcome_rows() == before
    assert pack.reconcile().is_closed


@pytest.mark.evidence("C-07")
@pytest.mark.parametrize("is_projected", [False, True])
def test_outcome__that_differs_is_kept_beside_the_first_and_neither_is_believed(pack, is_projected):
    work_id, event_id, fence_id = rolled_back(pack)
    pack.run_out()
    if is_projected:
        db.run(lambda tx: projector._project(tx, fence_id=fence_id), name="tests.project")
    first = outcome_rows()[0]
    deliver(event_id, fence_id, EventStatus.DEAD)
    deliver(event_id, fence_id, EventStatus.SKIPPED)
    deliver(event_id, fence_id, EventStatus.PROCESSED)

    (receipt,) = [row for row in outcome_rows() if row["EventId"] == event_id]
    dead = {"event_id": event_id, "work_type": "connector_event", "rollback_fence_id": fence_id, "outcome": "dead"}
    assert (receipt["Outcome"], receipt["Digest"]) == (first["Outcome"], first["Digest"])
    assert (receipt["ConflictDigest"], receipt["ConflictAt"] is not None) == (outcome_digest(**dead), True)
    assert not pack.reconcile().is_closed
    assert item_row(work_id)["State"] == ("reconciled_legacy_terminal" if is_projected else "legacy_outcome_unknown")


# Who may execute what a rollback holds


@pytest.mark.evidence("C-10")
def test_executor__of_a_build_that_the_receipt_does_not_name_is_refused(pack):
    pack.roll_back(approved_builds=["1.2", "1.3"])
    for build in ("1.2", "1.3"):
        assert register_executor(pack.pack_id, build_version=build).rollback_fence_id is not None
    before = system_rows()
    with pytest.raises(BridgeRefused, match=r"admits these builds: 1\.2, 1\.3; this is 1\.4\."):
        register_executor(pack.pack_id, build_version="1.4")
    assert system_rows() == before


@pytest.mark.evidence("C-10")
@pytest.mark.parametrize("proof", ["{}", "[]", "no json", '{"approved_builds": "tests"}'])
def test_executor__under_a_receipt_that_binds_no_fence_is_refused(pack, proof):
    pack.cut_over("rollback")
    change("UPDATE _System_ConnectorCutoverReceipt SET Proof = %s WHERE ReceiptId = %s", proof, pack.receipt_id)
    with pytest.raises(BridgeRefused):
        register_executor(pack.pack_id, build_version="tests")


@pytest.mark.evidence("C-10")
@pytest.mark.parametrize("is_compatible", [False, True])
def test_claim__by_a_process_that_is_not_bridge_compatible_is_refused(pack, is_compatible):
    work_id, event_id, _ = rolled_back(pack)
    process, lease = pack.hold()
    (row,) = query("SELECT * FROM _System_ConnectorClaimProcess WHERE Kind = 'event_legacy'")
    assert (row["BridgeCompatible"], row["ObservedReceiptId"]) == (1, process.observed_receipt_id)
    change("UPDATE _System_ConnectorClaimProcess SET BridgeCompatible = %s", is_compatible)
    with contextlib.nullcontext() if is_compatible else pytest.raises(BridgeRefused):
        assert isinstance(claim_event(event_id, process, lease), EventClaim)
    assert event_row(event_id)["Status"] == ("processing" if is_compatible else "pending")
    assert item_row(work_id)["State"] == "awaiting_legacy_outcome"


@pytest.mark.evidence("C-10")
@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("RollbackExecutionFenceId = WorkId", HeldBack.MIRROR),
        ("RollbackExecutionFenceId = NULL", HeldBack.MIRROR),
        ("State = 'legacy_outcome_unknown'", HeldBack.MIRROR),
        ("State = 'reconciled_legacy_terminal'", HeldBack.MIRROR),
    ],
)
def test_claim__of_what_this_rollback_does_not_hold_is_held_back(pack, assignment, expected):
    work_id, event_id, _ = rolled_back(pack)
    change(f"UPDATE {ITEMS} SET {assignment} WHERE WorkId = %s", work_id)
    assert claim_event(event_id, *pack.hold()) is expected
    assert event_row(event_id)["Status"] == "pending"


@pytest.mark.evidence("C-02")
def test_claim__of_an_item_that_was_given_back_before_the_rollback_is_the_executors(pack):
    work_id = pack.released()
    pack.roll_back()
    assert pack.run_out() == {"processed": 1}
    assert pack.reconcile().is_closed
    assert (item_row(work_id)["State"], item_row(work_id)["Attempt"]) == ("reconciled_legacy_terminal", 1)


# What cannot be proved


def forget_receipt(event_id: str) -> None:
    change(f"DELETE FROM {OUTCOMES} WHERE EventId = %s", event_id)


DOUBTS: dict[str, Callable[[str], Any]] = {
    "no receipt": forget_receipt,
    "no Event": lambda event_id: (
        forget_receipt(event_id),
        change("DELETE FROM _System_ConnectorEvent WHERE EventId = %s", event_id),
    ),
    "another version": lambda event_id: change(f"UPDATE {OUTCOMES} SET ReceiptVersion = 2"),
    "another outcome": lambda event_id: change(f"UPDATE {OUTCOMES} SET Outcome = 'dead'"),
    "another digest": lambda event_id: change(f"UPDATE {OUTCOMES} SET Digest = REPEAT('0', 64)"),
    "another fence": lambda event_id: change(f"UPDATE {OUTCOMES} SET RollbackFenceId = EventId"),
}


@pytest.mark.evidence("C-05", "C-07")
@pytest.mark.parametrize("name", DOUBTS)
def test_reconcile__leaves_unknown_what_is_not_proved_and_does_not_close(pack, name):
    work_id, event_id, fence_id = rolled_back(pack)
    proved, _ = pack.waiting(), pack.run_out()
    DOUBTS[name](event_id)

    done = pack.reconcile()

    expected = "awaiting_legacy_outcome" if name == "another fence" else "legacy_outcome_unknown"
    assert item_row(work_id)["State"] == expected
    assert (done.reconciled, done.is_closed, fence_row(fence_id)["State"]) == (0, False, "sealed")
    assert item_row(proved[0])["State"] == "succeeded"
    before = system_rows()
    again = pack.reconcile()
    assert (again.reconciled, again.lost, again.is_closed) == (0, 0, False)
    assert system_rows() == before


def test_reconcile__of_a_named_database_reads_and_writes_no_other(pack, monkeypatch):
    """Each read and each transaction names it; here it is a name for the one that there is."""
    work_id, event_id, _ = rolled_back(pack)
    pack.run_out()
    forget_receipt(event_id)
    real_read, real_run, real_capabilities = db.read, db.run, probe.capabilities
    named: list[str] = []

    def run(*arguments: Any, using: str = "default", **options: Any) -> Any:
        named.append(using)
        return real_run(*arguments, **options)

    def read(using: str = "default") -> Any:
        named.append(using)
        return real_read()

    def capabilities(using: str = "default") -> Any:
        named.append(using)
        return real_capabilities()

    monkeypatch.setattr(db, "run", run)
    monkeypatch.setattr(db, "read", read)
    monkeypatch.setattr(probe, "capabilities", capabilities)
    projector.reconcile(pack.pack_id, actor=OWNER, using="another")
    assert set(named) == {"another"}
    assert item_row(work_id)["State"] == "legacy_outcome_unknown"


@pytest.mark.evidence("C-06")
def test_reconcile__waits_for_an_event_that_has_not_ended(pack):
    work_id, event_id, fence_id = rolled_back(pack)
    done = pack.reconcile()
    assert (done.fence_id, done.awaiting, done.unknown, done.is_closed) == (fence_id, 1, 0, False)
    assert (item_row(work_id)["State"], event_row(event_id)["Status"]) == ("awaiting_legacy_outcome", "pending")
    pack.run_out()
    assert pack.reconcile().is_closed


@pytest.mark.evidence("C-06", "C-10")
@pytest.mark.parametrize("change_of_set", ["one less", "one more"])
def test_reconcile__does_not_close_a_fence_whose_items_are_not_those_that_its_receipt_binds(pack, change_of_set):
    work_id, _, fence_id = rolled_back(pack)
    other = pack.waiting(State="reconciled_legacy_terminal")[0]
    if change_of_set == "one more":
        change(f"UPDATE {ITEMS} SET RollbackExecutionFenceId = %s WHERE WorkId = %s", fence_id, other)
    pack.run_out()
    if change_of_set == "one less":
        db.run(lambda tx: projector._project(tx, fence_id=fence_id), name="tests.project")
        change(f"UPDATE {ITEMS} SET RollbackExecutionFenceId = NULL WHERE WorkId = %s", work_id)
    assert not pack.reconcile().is_closed
    assert fence_row(fence_id)["State"] == "sealed"


def test_reconcile__takes_page_after_page(pack, monkeypatch):
    monkeypatch.setattr(projector, "PAGE", 2)
    work_ids = pack.waiting(5)
    pack.roll_back()
    pack.run_out()
    for event_id in sorted(item_row(work_id)["EventId"] for work_id in work_ids)[3:]:
        forget_receipt(event_id)
    done = pack.reconcile()
    assert (done.reconciled, done.lost, done.awaiting) == (3, 2, 0)


def test_reconcile__without_a_rollback_has_nothing_to_do_and_an_unfinished_one_is_refused(pack):
    done = pack.reconcile()
    assert (done.fence_id, done.is_closed) == (None, False)
    pack.tried("processing", LeaseToken="t")
    assert pack.refusal() == "not_drained"
    with pytest.raises(errors.Refused) as refused:
        pack.reconcile()
    assert refused.value.data_fields["refusal"] == "rollback_unfinished"
    with pytest.raises(errors.NotAllowed):
        projector.reconcile(pack.pack_id, actor=Actor(user_id=None, name="eve"))
    with pytest.raises(errors.PackNotFound):
        projector.reconcile(new_id(), actor=OWNER)


# What is reconciled stays


@pytest.mark.evidence("C-06")
def test_reconciled_item__is_listed_when_it_died_refused_and_never_reopened(pack):
    work_id, event_id, _ = rolled_back(pack, end="reject")
    pack.run_out()
    pack.reconcile()
    before = system_rows()

    (row,) = reads.list_dead(DeadFilters()).rows
    assert (row.ref.id, row.owner, row.note, row.is_actionable) == (
        work_id,
        OwnerKind.WORK_ITEM,
        "legacy_reconciled",
        False,
    )
    for identity in (work_id, event_id):
        answer = authority.replay(Ref(id=identity), actor=MARIA, reason="again")
        assert isinstance(answer, Refused)
        assert answer.code == "legacy_reconciled"
    assert claim_event(event_id, *pack.hold()) is HeldBack.MIRROR
    assert {table: rows for table, rows in system_rows().items() if "WorkItem" in table or "Event" in table} == {
        table: rows for table, rows in before.items() if "WorkItem" in table or "Event" in table
    }
