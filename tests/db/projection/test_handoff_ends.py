"""Every end of a projection's claimed generation hands the key on; a retry keeps it."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connections

from integration.errors import StaleClaim
from integration.projection import handoff
from integration.projection.sweep import find_keyless_heads
from integration.states import FailureClass
from integration.work import finish
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim_next
from integration.work.process import WorkerProcess, register_process
from integration.work.reap import reap_expired
from tests.support.projections import Source, active_keys
from tests.support.work import Pack, change, expire_lease, item_row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def source(db) -> Source:
    return Source(pack=Pack())


@pytest.fixture
def process(source: Source) -> WorkerProcess:
    return register_process(roles=frozenset({"claim", "reap"}), concurrency=2, build_version="tests")


@pytest.fixture
def taken(source: Source, process: WorkerProcess):
    """A claimed generation of two inputs, and a queued one behind it."""
    work_id = source.generation(count=2)
    queued = source.generation(count=2, active=False)
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    assert claim.work_id == work_id
    assert claim.item.projection_key == source.key
    return claim, queued


def request_cancel(work_id: str) -> None:
    change(
        "UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s",
        work_id,
    )


def spend_attempts(work_id: str) -> None:
    change("UPDATE _System_ConnectorWorkItem SET MaxAttempts = Attempt WHERE WorkId = %s", work_id)


def acknowledge(claim: Claim) -> None:
    request_cancel(claim.work_id)
    finish.acknowledge_cancel(claim)


ENDS = {
    "complete": (finish.complete, "succeeded"),
    "skip": (finish.skip, "skipped"),
    "bury": (lambda claim: finish.bury(claim, FailureClass.FLOW_REJECTED), "dead"),
    "acknowledge_cancel": (acknowledge, "cancelled"),
}


@pytest.mark.evidence("A-25", "P-24")
@pytest.mark.parametrize("name", ENDS)
def test_end__of_a_claimed_generation_makes_the_queued_one_the_head(source, process, taken, name):
    claim, queued = taken
    end, state = ENDS[name]
    assert claim_next(process, CandidateQueue(process)) is None

    end(claim)

    assert item_row(claim.work_id)["State"] == state
    assert active_keys() == {claim.work_id: None, queued: source.key}
    following = claim_next(process, CandidateQueue(process))
    assert following is not None
    assert following.work_id == queued


@pytest.mark.evidence("A-25", "P-24")
def test_end__of_a_reaped_generation_without_attempts_left_makes_the_queued_one_the_head(source, process, taken):
    claim, queued = taken
    spend_attempts(claim.work_id)
    expire_lease(claim.work_id)
    assert reap_expired(process).buried == 1
    assert item_row(claim.work_id)["State"] == "dead"
    assert active_keys() == {claim.work_id: None, queued: source.key}


@pytest.mark.evidence("P-03", "P-24")
@pytest.mark.parametrize("how", ["retry", "reap"])
def test_generation__that_will_be_claimed_again_keeps_its_key_and_both_bounds(source, process, taken, how):
    claim, queued = taken
    before = item_row(claim.work_id)
    if how == "retry":
        finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=0)
    else:
        expire_lease(claim.work_id)
        assert reap_expired(process).retried == 1
    assert active_keys() == {claim.work_id: source.key, queued: None}
    after = item_row(claim.work_id)
    assert after["State"] == "retry"
    for name in ("InputStartOrdinal", "LaneOrdinal", "EventId"):
        assert after[name] == before[name]


@pytest.mark.evidence("A-25")
def test_end__writes_the_ended_row_and_the_queued_one_and_no_other_table(source, taken):
    claim, queued = taken
    written: list[str] = []

    def watch(execute, sql, params, many, context):
        if sql.strip().split(None, 1)[0].upper() in {"UPDATE", "INSERT", "DELETE", "REPLACE"}:
            written.append(sql)
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(watch):
        finish.complete(claim)
    assert len(written) == 2
    assert all(sql.split()[1] == "_System_ConnectorWorkItem" for sql in written)
    assert item_row(queued)["ProjectionActiveKey"] == source.key


@pytest.mark.evidence("K-02")
def test_end__of_a_claim_that_was_taken_over_changes_nothing(source, taken):
    claim, queued = taken
    change("UPDATE _System_ConnectorWorkItem SET OwnershipEpoch = OwnershipEpoch + 1 WHERE WorkId = %s", claim.work_id)
    before = (item_row(claim.work_id), item_row(queued))
    with pytest.raises(StaleClaim):
        finish.complete(claim)
    assert (item_row(claim.work_id), item_row(queued)) == before


@pytest.mark.evidence("P-24")
def test_end__that_fails_in_the_handoff_ends_nothing(source, taken, monkeypatch):
    claim, queued = taken
    before = (item_row(claim.work_id), item_row(queued))

    def broken(tx, projection_key):
        raise RuntimeError

    monkeypatch.setattr(handoff, "hand_over", broken)
    with pytest.raises(RuntimeError):
        finish.complete(claim)
    assert (item_row(claim.work_id), item_row(queued)) == before


@pytest.mark.evidence("P-24")
@pytest.mark.parametrize("is_stored", [True, False])
def test_end__whose_commit_was_not_answered_is_settled_by_token_and_epoch(source, taken, monkeypatch, is_stored):
    claim, queued = taken
    connection = connections["default"]
    commit, left = connection._commit, [1]

    def unanswered():
        if not left:
            return commit()
        left.clear()
        if is_stored:
            commit()
        raise OperationalError(2013, "Lost connection to server during query")

    monkeypatch.setattr(connection, "_commit", unanswered)
    finish.complete(claim)
    assert left == []
    assert item_row(claim.work_id)["State"] == "succeeded"
    assert active_keys() == {claim.work_id: None, queued: source.key}
    assert find_keyless_heads() == ()


@pytest.mark.evidence("P-24")
@pytest.mark.parametrize("ended", [finish.Ended.COMPLETE, finish.Ended.SKIP])
def test_ends_of_many__leave_a_projection_to_its_own_transaction(source, process, taken, ended):
    claim, queued = taken
    before = (item_row(claim.work_id), item_row(queued))
    assert finish.finish_many([claim], ended) == frozenset()
    assert (item_row(claim.work_id), item_row(queued)) == before
