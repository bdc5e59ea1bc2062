"""An old writer after the cutover: refused by the database where it can be, and found out where it cannot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from integration.cutover.projection import service
from integration.cutover.projection.patience import Patience
from integration.ingress.service import materialize_batch
from integration.projection.sweep import find_keyless_heads
from integration.values import SYSTEM_ACTOR, new_id
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.execute import execute
from integration.work.finish import Ended
from integration.work.flows import discover_flows
from integration.work.process import register_process
from tests.support import admission
from tests.support.old_projections import OldPack
from tests.support.work import change, insert, item_row

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("P-14")]


def cut_over(pack_id: str) -> int:
    patience = Patience(timeout=timedelta(minutes=10))
    return service.cut_over(pack_id, actor=SYSTEM_ACTOR, patience=patience).legacy_max_ordinal


@pytest.fixture
def pack(db) -> OldPack:
    pack = OldPack()
    pack.lane().coalesced()
    assert cut_over(pack.settle()) == 3
    return pack


def test_ordinal__that_was_given__is_refused_by_the_database(pack: OldPack):
    with pytest.raises(IntegrityError), transaction.atomic():
        pack.lane().event(LaneOrdinal=3)


def test_active_generation__beside_another__is_refused_by_the_database(pack: OldPack):
    lane = pack.lane()
    lane.generation()
    with pytest.raises(IntegrityError), transaction.atomic():
        lane.task(lane.event(), "pending", ProjectionActiveKey=lane.key)


def test_generation__without_a_lower_bound__is_stored_and_never_executed(pack: OldPack):
    lane = pack.lane()
    work_id = lane.task(lane.event(), "pending", ProjectionActiveKey=lane.key, MaxAttempts=1)
    discover_flows()
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    assert execute(claim) is Ended.BURY
    row = item_row(work_id)
    assert (row["State"], row["FailureClass"]) == ("dead", "inputs_missing")


def test_queued_generation__that_nothing_hands_the_key_to__is_found(pack: OldPack):
    lane = pack.lane()
    work_id = lane.task(lane.event(), "pending")
    assert [head.work_id for head in find_keyless_heads()] == [work_id]


@pytest.mark.evidence("P-15", "P-17")
def test_transition__from_old_history_to_ranges():
    """Inputs of before are acknowledged when they come again, whatever answers for them; new ones get ranges above."""
    pack_id = admission.activate(admission.LISTS)
    admission.receive(admission.listed(("a", 1), ("b", 1), ("c", 2)))
    materialize_batch(pack_id)
    for row in admission.generations():
        admission.claim_row(row["WorkId"])
        admission.end_row(row["WorkId"])
    # As an old build leaves it: without bounds, without the row, and superseded inputs as they were admitted.
    change("UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = NULL")
    change("UPDATE _System_ConnectorEvent SET Status = 'pending', TerminalAt = NULL")
    change("DELETE FROM _System_ConnectorProjectionProtocol")
    fence = {"FenceId": new_id(), "Namespace": "demo", "Scope": "*", "ArmedAt": datetime(2026, 1, 1, tzinfo=UTC)}
    insert("_System_ConnectorAdmissionFence", [{**fence, "ArmedBy": "tests", "Reason": "tests"}])
    waiting = admission.receive(admission.listed(("a", 1), ("d", 1)))
    assert materialize_batch(pack_id).held == 1

    assert cut_over(pack_id) == 3
    change("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6)")
    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count, batch.held) == (1, 1, 0)
    assert admission.receipt(waiting) == ("materialized", None)
    (fresh,) = [row for row in admission.generations() if row["InputStartOrdinal"] is not None]
    assert (fresh["InputStartOrdinal"], fresh["LaneOrdinal"], admission.members(fresh)) == (4, 4, [4])
