"""The rollback beside workers that claim: no overlap, one receipt, and nothing done by halves wherever it is killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from integration.cutover import receipts
from integration.cutover.inbound import rollback, rollback_steps
from integration.cutover.inbound.rollback_policy import digest_set
from integration.storage import db
from tests.concurrency.cutover import rollback_racers as racers
from tests.support.meetings import await_file
from tests.support.processes import race
from tests.support.rollback import FENCES, OWNER, MovedPack, deliver_end, kill, outcome_rows, receipts_of, states
from tests.support.work import event_row, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACERS = racers.__name__


#: Failpoint -> how many items are handed over when the process is killed there, of four in chunks of three.
KILLS = {
    "rollback.before_open": 0,
    "cutover.before_evict": 0,
    "rollback.before_open_commit": 0,
    "rollback.after_open": 0,
    "rollback.after_fence": 0,
    "rollback.after_chunk": 3,
    "rollback.after_events": 3,
    "rollback.before_receipt": 3,
    "rollback.after_receipt": 3,
    "rollback.before_commit": 3,
    "rollback.after_commit": 4,
}


@pytest.mark.evidence("C-03", "C-04")
@pytest.mark.parametrize("point", KILLS)
def test_rollback__killed_anywhere_has_done_no_step_by_halves_and_is_finished_by_the_next(tmp_path, point):
    pack = MovedPack()
    pack.worker_row()
    retried = pack.released()
    work_ids = [retried, *pack.waiting(3)]
    kill(tmp_path, point, lambda: pack.roll_back(chunk=3))

    is_done = point == "rollback.after_commit"
    assert states(work_ids)["awaiting_legacy_outcome"] == KILLS[point]
    assert len(receipts_of(pack.pack_id)) == (2 if is_done else 1)
    assert event_row(item_row(retried)["EventId"])["ExecutionOwner"] == ("event" if is_done else "work_item")

    done = pack.roll_back(chunk=3)

    assert done.is_new is not is_done
    assert (done.item_count, done.set_digest) == digest_set(sorted(work_ids))
    assert states(work_ids) == {"awaiting_legacy_outcome": 4}
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["sealed"]
    assert len(receipts_of(pack.pack_id)) == 2
    assert receipts.find_faults(receipts.list_receipts(db.read(), pack.pack_id)) == ()


@pytest.mark.evidence("C-03")
def test_abandon__killed_half_way_keeps_claims_stopped_and_is_finished_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(rollback_steps, "_GIVEN_BACK", 1)
    pack = MovedPack()
    work_ids = pack.waiting(4)
    kill(tmp_path, "rollback.after_chunk", lambda: pack.roll_back(chunk=3))

    def abandon() -> None:
        rollback.abandon(pack.pack_id, actor=OWNER, reason="Later")

    kill(tmp_path, "rollback.after_given_back", abandon)
    assert states(work_ids) == {"awaiting_legacy_outcome": 2, "pending": 2}
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["open"]

    abandon()

    assert states(work_ids) == {"pending": 4}
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["closed"]
    assert pack.roll_back().item_count == 4


@pytest.mark.evidence("C-03", "C-10")
def test_rollbacks__at_once_write_one_receipt(database_url):
    pack = MovedPack()
    work_ids = pack.waiting(8)
    found = race(f"{RACERS}:roll_back", [{"pack_id": pack.pack_id, "chunk": 2}] * 3, database_url)
    assert len({done["receipt_id"] for done in found}) == 1
    assert [done["is_new"] for done in found].count(True) == 1
    assert {done["set_digest"] for done in found} == {digest_set(sorted(work_ids))[1]}
    assert len(receipts_of(pack.pack_id)) == 2


@pytest.mark.evidence("C-03")
def test_rollback__waits_for_the_claim_in_flight_and_then_sees_it(database_url, tmp_path):
    pack = MovedPack()
    (work_id,) = pack.waiting()
    place = {"pack_id": pack.pack_id, "folder": str(tmp_path)}
    play = f"{RACERS}:claim_or_roll_back"
    claimed, refused = race(play, [{"part": "claim", **place}, {"part": "rollback", **place}], database_url)
    assert (claimed, refused) == ([work_id], {"refused": "not_drained"})
    assert item_row(work_id)["State"] == "processing"


def claim_late(database_url: str, folder: Path, *, guarded: bool) -> tuple[list[str], list[str]]:
    """Return what was admitted after the rollback, and what a process of before it then claimed."""
    pack = MovedPack()
    admitted: list[str] = []

    def pass_by() -> None:
        await_file(folder / "observed")
        pack.roll_back()
        admitted.extend(pack.waiting())
        (folder / "rolled-back").touch()
        db.close_connections()

    beside = threading.Thread(target=pass_by)
    beside.start()
    place = {"part": "late", "pack_id": pack.pack_id, "folder": str(folder), "guarded": guarded}
    try:
        (claimed,) = race(f"{RACERS}:claim_or_roll_back", [place], database_url)
    finally:
        beside.join()
    return admitted, claimed


@pytest.mark.evidence("C-02", "C-12")
def test_worker__that_observed_the_receipt_before_the_rollback_claims_nothing_after_it(database_url, tmp_path):
    admitted, claimed = claim_late(database_url, tmp_path, guarded=True)
    assert (len(admitted), claimed) == (1, [])


def test_worker__without_the_look_at_its_own_row_claims_what_is_the_executors(database_url, tmp_path):
    """The negative control: both owners could execute what was admitted after the rollback."""
    admitted, claimed = claim_late(database_url, tmp_path, guarded=False)
    assert claimed == admitted


@pytest.mark.evidence("C-03")
@pytest.mark.parametrize("guarded", [True, False])
def test_process__registers_for_a_pack_whose_rollback_is_open_only_without_the_look_at_it(database_url, guarded):
    """The rollback has stopped claims and waits for what runs; the receipt is still the forward one."""
    pack = MovedPack()
    pack.tried("processing", LeaseToken="t")
    assert pack.refusal() == "not_drained"
    (is_registered,) = race(f"{RACERS}:register_beside", [{"pack_id": pack.pack_id, "guarded": guarded}], database_url)
    assert is_registered is not guarded


#: Failpoint of the projector -> how many of two items are reconciled when it is killed there.
PROJECTOR_KILLS = {
    "projector.after_items": 0,
    "projector.before_commit": 0,
    "projector.after_page": 2,
    "projector.before_close": 2,
    "projector.before_close_commit": 2,
}


@pytest.mark.evidence("C-05", "C-06")
@pytest.mark.parametrize("point", PROJECTOR_KILLS)
def test_projector__killed_anywhere_is_finished_by_the_next(tmp_path, point):
    pack = MovedPack()
    work_ids = pack.waiting(2)
    pack.roll_back()
    for work_id in work_ids:
        deliver_end(work_id)
    kill(tmp_path, point, pack.reconcile)
    assert states(work_ids)["reconciled_legacy_terminal"] == PROJECTOR_KILLS[point]
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["sealed"]

    done = pack.reconcile()
    assert (done.reconciled, done.is_closed) == (2 - PROJECTOR_KILLS[point], True)
    assert states(work_ids) == {"reconciled_legacy_terminal": 2}
    assert [row["ProjectedAt"] is not None for row in outcome_rows()] == [True, True]
