"""Forward again after a rollback: only once everything that went back is confirmed, and nothing of it is executed twice."""

from __future__ import annotations

from typing import Any

import pytest

from integration.cutover.inbound.service import CutoverRefused
from integration.cutover.inbound.verify import verify
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.process import register_process
from tests.support import inbound
from tests.support.bridge import BridgedPack
from tests.support.inbound import receipts_of, work_of
from tests.support.old_projections import OldPack
from tests.support.rollback import outcome_rows
from tests.support.work import change, item_row

pytestmark = pytest.mark.django_db


def refused(pack: BridgedPack) -> list[str]:
    with pytest.raises(CutoverRefused) as refusal:
        inbound.forward(pack)
    obstacles = refusal.value.data_fields["obstacles"]
    assert isinstance(obstacles, list)
    return [obstacle["code"] for obstacle in obstacles]


def claimed_by_a_worker() -> list[str]:
    """Claim whatever may be claimed; return the WorkIds."""
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    queue = CandidateQueue(process)
    found: list[str] = []
    while (taken := claim_next(process, queue)) is not None:
        found.append(taken.work_id)
    return found


@pytest.mark.evidence("C-02", "C-06", "C-11")
def test_forward_again__executes_what_is_new_and_never_what_the_executor_ended():
    pack = BridgedPack()
    went_back = pack.waiting(3)
    pack.roll_back()
    assert refused(pack) == ["rollback_unfinished", "legacy_outcome_awaited"]

    assert pack.run_out() == {"processed": 3}
    assert refused(pack) == ["rollback_unfinished", "legacy_outcome_awaited"], "ended, and not reconciled"
    assert pack.reconcile().is_closed
    ended = [item_row(work_id) for work_id in went_back]
    assert {row["State"] for row in ended} == {"reconciled_legacy_terminal"}

    (fresh,) = pack.events()
    done = inbound.forward(pack)
    assert (done.owner_generation, done.materialized) == (3, 1)
    assert [item_row(work_id) for work_id in went_back] == ended
    assert claimed_by_a_worker() == [work_of(fresh)[0]["WorkId"]]
    assert [row["Direction"] for row in receipts_of(pack)] == ["forward", "rollback", "forward"]
    assert verify(pack.pack_id).holds


DOUBTS: dict[str, tuple[Any, list[str]]] = {
    "lost": (
        lambda: change("DELETE FROM _System_ConnectorLegacyOutcomeReceipt"),
        ["rollback_unfinished", "legacy_outcome_unknown"],
    ),
    "in conflict": (
        lambda: change(
            "UPDATE _System_ConnectorLegacyOutcomeReceipt SET ConflictDigest = %s, ConflictAt = UTC_TIMESTAMP(6)",
            "c" * 64,
        ),
        ["rollback_unfinished", "legacy_outcome_unknown"],
    ),
}


@pytest.mark.evidence("C-06", "C-07")
@pytest.mark.parametrize("name", DOUBTS)
def test_forward_again__is_refused_while_an_outcome_is_not_proved(name):
    spoil, expected = DOUBTS[name]
    pack = BridgedPack()
    pack.waiting(1)
    pack.roll_back()
    pack.run_out()
    spoil()
    pack.reconcile()
    assert refused(pack) == expected
    assert claimed_by_a_worker() == []


@pytest.mark.evidence("C-07")
def test_forward_again__is_refused_by_a_conflict_that_came_after_the_reconciliation():
    pack = BridgedPack()
    pack.waiting(1)
    pack.roll_back()
    pack.run_out()
    assert pack.reconcile().is_closed
    change(
        "UPDATE _System_ConnectorLegacyOutcomeReceipt SET ConflictDigest = %s, ConflictAt = UTC_TIMESTAMP(6)", "c" * 64
    )
    assert len(outcome_rows()) == 1
    assert refused(pack) == ["legacy_outcome_unconfirmed"]


@pytest.mark.evidence("C-01", "P-15")
def test_forward_again__leaves_what_a_projection_cutover_has_found_covered():
    """Five inputs of which one WorkItem was executed: the others have none, and whoever ran them would do it twice."""
    pack = OldPack(direction=None)
    lane = pack.lane()
    lane.coalesced(5)
    pack.settle()
    inbound.roll_back(pack)
    with pytest.raises(CutoverRefused) as unproved:
        inbound.forward(pack)
    (obstacle,) = unproved.value.data_fields["obstacles"]
    assert (obstacle["code"], obstacle["count"]) == ("events_without_range", 3)
    assert "no WorkItem ever executed their projection" in obstacle["next_step"]

    change(
        "INSERT INTO _System_ConnectorProjectionProtocol VALUES (%s, 1, %s, UTC_TIMESTAMP(6), 't')",
        pack.pack_id,
        pack.ordinal,
    )
    later = lane.event()
    with pytest.raises(CutoverRefused) as beyond:
        inbound.forward(pack)
    (obstacle,) = beyond.value.data_fields["obstacles"]
    assert (obstacle["code"], obstacle["count"]) == ("events_without_range", 1)

    change("UPDATE _System_ConnectorEvent SET Status = 'skipped' WHERE EventId = %s", later["EventId"])
    done = inbound.forward(pack)
    assert (done.is_new, done.materialized) == (True, 0)
    assert claimed_by_a_worker() == []
    assert [one.agrees for one in verify(pack.pack_id).agreements if one.name == "coverage"] == [True]
