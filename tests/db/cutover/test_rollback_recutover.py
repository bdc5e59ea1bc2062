"""Forward again after a rollback: only when every item is reconciled and the fence closed; nothing is executed anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from integration.cutover import receipts
from integration.cutover.inbound import service
from integration.cutover.inbound.service import CutoverRefused
from integration.cutover.inbound.verify import read_status, verify
from integration.storage import db
from integration.work.claim import claim
from integration.work.items import candidate_from_row
from integration.work.process import register_process
from tests.support.commands import run
from tests.support.rollback import FENCES, OUTCOMES, OWNER, MovedPack, deliver_end, receipts_of
from tests.support.work import attempt_rows, change, due_rows, event_row, item_row, query

pytestmark = pytest.mark.django_db


def forward(pack: MovedPack) -> Any:
    return service.move_forward(pack.pack_id, actor=OWNER, reason="Mended", attestation="none runs", timeout_seconds=0)


def refused_by(pack: MovedPack) -> set[str]:
    with pytest.raises(CutoverRefused) as refused:
        forward(pack)
    return {obstacle["code"] for obstacle in refused.value.data_fields["obstacles"]}


def unknown(pack: MovedPack, work_id: str) -> None:
    deliver_end(work_id)
    change(f"DELETE FROM {OUTCOMES}")
    pack.reconcile()


def conflicting(pack: MovedPack, work_id: str) -> None:
    deliver_end(work_id)
    change(f"UPDATE {OUTCOMES} SET ConflictDigest = REPEAT('0', 64), ConflictAt = UTC_TIMESTAMP(6)")
    pack.reconcile()


def unconfirmed(pack: MovedPack, work_id: str) -> None:
    deliver_end(work_id)
    pack.reconcile()
    change(f"UPDATE {OUTCOMES} SET ConflictDigest = REPEAT('0', 64), ConflictAt = UTC_TIMESTAMP(6)")


#: What is left of a rollback, and what a forward cutover says of it.
LEFT: dict[str, tuple[Callable[[MovedPack, str], Any], set[str]]] = {
    "awaiting": (lambda pack, work_id: None, {"rollback_unfinished", "legacy_outcome_awaited"}),
    "ended, not reconciled": (
        lambda pack, work_id: deliver_end(work_id),
        {"rollback_unfinished", "legacy_outcome_awaited"},
    ),
    "unknown": (unknown, {"rollback_unfinished", "legacy_outcome_unknown"}),
    "in conflict": (conflicting, {"rollback_unfinished", "legacy_outcome_unknown"}),
    "in conflict since": (unconfirmed, {"legacy_outcome_unconfirmed"}),
}


@pytest.mark.evidence("C-06", "C-07")
@pytest.mark.parametrize("name", LEFT)
def test_forward__is_refused_while_anything_of_a_rollback_is_left(name):
    leave, codes = LEFT[name]
    pack = MovedPack()
    (work_id,) = pack.waiting()
    pack.roll_back()
    leave(pack, work_id)
    assert refused_by(pack) >= codes
    assert [row["Direction"] for row in receipts_of(pack.pack_id)] == ["forward", "rollback"]


@pytest.mark.evidence("C-06", "C-07")
def test_forward__after_the_reconciliation_executes_what_is_new_and_nothing_that_is_reconciled():
    pack = MovedPack()
    work_ids = pack.waiting(2)
    pack.roll_back()
    for work_id in work_ids:
        deliver_end(work_id)
    assert pack.reconcile().is_closed
    before = [item_row(work_id) for work_id in work_ids]

    assert forward(pack).owner_generation == 3

    (new,) = pack.waiting()
    fence = register_process(roles=frozenset(), concurrency=1, build_version="tests").fence_for(pack.pack_id)
    assert fence is not None
    assert [taken.work_id for taken in claim([candidate_from_row(row) for row in due_rows()], fence).claims] == [new]
    assert [item_row(work_id) for work_id in work_ids] == before
    assert {len(attempt_rows(work_id)) for work_id in work_ids} == {0}
    assert query("SELECT COUNT(*) AS Items FROM _System_ConnectorWorkItem")[0]["Items"] == 3


@pytest.mark.evidence("C-06", "C-10")
def test_rollback__of_a_pack_that_went_forward_again_has_a_fence_and_a_receipt_of_its_own():
    pack = MovedPack()
    sets = []
    for generation in (2, 4):
        (work_id,) = pack.waiting()
        done = pack.roll_back()
        assert (done.owner_generation, done.item_count) == (generation, 1)
        sets.append((done.fence_id, item_row(work_id)["RollbackExecutionFenceId"]))
        assert verify(pack.pack_id).faults == ()
        deliver_end(work_id, "dead")
        assert pack.reconcile().is_closed
        assert item_row(work_id)["State"] == "reconciled_legacy_terminal"
        assert event_row(item_row(work_id)["EventId"])["Status"] == "dead"
        assert forward(pack).owner_generation == generation + 1
    assert len({fence for pair in sets for fence in pair}) == 2
    assert [fence["State"] for fence in query(f"SELECT State FROM {FENCES}")] == ["closed", "closed"]
    assert receipts.find_faults(receipts.list_receipts(db.read(), pack.pack_id)) == ()


@pytest.mark.evidence("C-06")
def test_forward__of_a_moved_pack_does_not_hide_that_a_rollback_has_stopped_its_claims():
    pack = MovedPack()
    (work_id,) = pack.waiting()
    change("UPDATE _System_ConnectorWorkItem SET State = 'processing' WHERE WorkId = %s", work_id)
    assert pack.refusal() == "not_drained"
    status = read_status(pack.pack_id)
    assert (status.is_forward, [one.code for one in status.obstacles]) == (False, ["rollback_unfinished"])
    told = run("inbound_cutover", "status", "--pack-install-id", pack.pack_id)
    assert "Nobody claims until the rollback" in told.out
    assert "WorkItems are executed." not in told.out
    assert refused_by(pack) == {"rollback_unfinished"}

    change(f"UPDATE {FENCES} SET State = 'closed', OpenKey = NULL")
    assert read_status(pack.pack_id).is_forward
    assert not forward(pack).is_new
