"""What a rollback looks at before it hands the first item over, so that nothing stops it half way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from integration.cutover.inbound import rollback, rollback_proof
from tests.support.admission import claim_row
from tests.support.authority import system_rows
from tests.support.rollback import FENCES, OWNER, MovedPack, fence_row
from tests.support.work import change, insert, item_row, query

pytestmark = pytest.mark.django_db
ITEMS = "_System_ConnectorWorkItem"


@pytest.mark.evidence("C-04")
@pytest.mark.parametrize("page", [1, 2, 500])
@pytest.mark.parametrize("over", [{}, {"LaneOrdinal": None}], ids=["ordinal", "no ordinal"])
def test_rollback__is_refused_by_any_item_that_waits_however_few_one_transaction_takes(monkeypatch, page, over):
    monkeypatch.setattr(rollback_proof, "_PAGE", page)
    pack = MovedPack()
    pack.released()
    pack.waiting(2)
    pack.tried("retry", FailureClass="flow_error", **over)
    pack.worker_row()
    before = system_rows()

    assert pack.refusal(chunk=1) == "prior_dispatch"

    assert system_rows() == before


@pytest.mark.evidence("C-03", "C-04")
def test_rollback__looks_again_once_claims_are_stopped_and_can_still_be_given_up(monkeypatch):
    pack = MovedPack()
    waiting = pack.waiting(2)

    def fail_meanwhile(name: str) -> None:
        # A worker claims one, and its flow fails.
        if name == "rollback.before_open":
            pack.tried("retry", FailureClass="flow_error")

    monkeypatch.setattr(rollback, "failpoint", fail_meanwhile)
    # Looked at last: it comes behind the other one that was given back.
    pack.released()
    assert pack.refusal(chunk=1) == "prior_dispatch"

    (fence,) = query(f"SELECT FenceId, State FROM {FENCES}")
    assert fence["State"] == "open"
    assert query(f"SELECT WorkId FROM {ITEMS} WHERE RollbackExecutionFenceId IS NOT NULL") == []
    assert rollback.abandon(pack.pack_id, actor=OWNER, reason="Later") == fence["FenceId"]
    assert fence_row(fence["FenceId"])["State"] == "closed"
    assert {item_row(work_id)["State"] for work_id in waiting} == {"pending"}


@pytest.mark.evidence("C-10")
def test_rollback__hands_over_items_without_an_ordinal_among_the_others():
    pack = MovedPack()
    work_ids = pack.waiting(5)
    change(f"UPDATE {ITEMS} SET LaneOrdinal = NULL WHERE WorkId IN %s", tuple(work_ids[1:3]))
    done: Any = pack.roll_back(chunk=2)
    assert done.item_count == 5
    assert {item_row(work_id)["RollbackExecutionFenceId"] for work_id in work_ids} == {done.fence_id}


@pytest.mark.evidence("C-03")
def test_rollback__of_a_busy_pack_is_not_refused_by_what_a_worker_took_since_it_was_listed(monkeypatch):
    pack = MovedPack()
    pack.waiting(3)
    listed = rollback_proof._list_waiting

    def list_and_claim(*args: Any, **options: Any) -> Any:
        for rows in listed(*args, **options):
            if not query(f"SELECT 1 FROM {ITEMS} WHERE State = 'processing'"):
                claim_row(rows[0]["WorkId"])
                insert(
                    "_System_ConnectorExecutionAttempt",
                    [{"WorkId": rows[0]["WorkId"], "Attempt": 1, "OwnershipEpoch": 1, "StartedAt": datetime.now(UTC)}],
                )
            yield rows

    monkeypatch.setattr(rollback_proof, "_list_waiting", list_and_claim)
    assert pack.refusal() == "not_drained"
