"""Work that is no projection is claimed, retried and ended on a schema that lacks the newer columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.errors import StaleClaim
from integration.states import FailureClass
from integration.storage.probe import capabilities
from integration.storage.schema import Vintage
from integration.work import finish
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim_next, claim_some, renew
from integration.work.families import CONNECTOR, Family, of_schema
from integration.work.finish import Ended
from integration.work.process import WorkerProcess, register_process
from integration.work.reap import reap_expired
from tests.support.sessions import default_of_vintage
from tests.support.work import Pack, attempt_rows, change, event_row, expire_lease, item_row, make_due

pytestmark = pytest.mark.evidence("P-23")


@pytest.fixture(params=[Vintage.LEGACY, Vintage.ADDITIVE])
def vintage(request: Any, django_db_modify_db_settings: None, django_db_blocker: Any) -> Iterator[Vintage]:
    """Make a database of an older vintage the default one for a test."""
    with django_db_blocker.unblock(), default_of_vintage(request.param):
        yield request.param


class Worker:
    """A claimer with the statements for the schema at hand."""

    def __init__(self) -> None:
        self.family: Family = of_schema(CONNECTOR, capabilities())
        self.process: WorkerProcess = register_process(roles=frozenset({"claim"}), concurrency=2, build_version="t")

    def queue(self, window: int = 256) -> CandidateQueue:
        return CandidateQueue(self.process, family=self.family, window=window)

    def take(self) -> Claim | None:
        return claim_next(self.process, self.queue())

    def reap(self) -> Any:
        return reap_expired(self.process, families=[self.family])


def test_of_schema__chooses_by_what_the_database_has(vintage):
    family = of_schema(CONNECTOR, capabilities())
    assert family.statements.complete.name == f"COMPLETE_WORK_ITEM_OF_{vintage.name}"
    assert family == CONNECTOR


def test_work__goes_through_every_transition(vintage):
    pack, worker = Pack(), Worker()
    ids = pack.admit(7, TargetLane=None)
    taken = {claim.work_id: claim for claim in claim_some(worker.process, worker.queue(), 8)}
    assert set(taken) == set(ids)
    done, skipped, buried, retried, released, reaped, exhausted = (taken[work_id] for work_id in ids)

    assert renew(done)
    assert finish.finish_many([done], Ended.COMPLETE) == {done.work_id}
    assert finish.skip(skipped) is Ended.SKIP
    assert finish.bury(buried, FailureClass.FLOW_REJECTED) is Ended.BURY
    assert finish.retry(retried, FailureClass.FLOW_ERROR, after_seconds=60) is Ended.RETRY
    assert finish.release(released)
    change("UPDATE _System_ConnectorWorkItem SET MaxAttempts = 1 WHERE WorkId = %s", exhausted.work_id)
    for claim in (reaped, exhausted):
        expire_lease(claim.work_id)
    assert (worker.reap().retried, worker.reap().buried) == (1, 0)

    states = [item_row(work_id)["State"] for work_id in ids]
    assert states == ["succeeded", "skipped", "dead", "retry", "retry", "retry", "dead"]
    assert {event_row(item_row(work_id)["EventId"])["ExecutionOwner"] for work_id in ids} == {"work_item"}
    with pytest.raises(StaleClaim):
        finish.complete(reaped)
    make_due(retried.work_id)
    make_due(released.work_id)
    make_due(reaped.work_id)
    again = claim_some(worker.process, worker.queue(), 8)
    assert {claim.work_id for claim in again} == {retried.work_id, released.work_id, reaped.work_id}
    assert {(claim.attempt, claim.epoch) for claim in again} == {(2, 2)}
    for claim in again:
        assert finish.complete(claim) is Ended.COMPLETE
        assert len(attempt_rows(claim.work_id)) == 2


def test_lanes__keep_their_order_and_their_serialization(vintage):
    pack, worker = Pack(), Worker()
    first, second = pack.admit(2, SourceLane="deal:1", TargetLane="account:1")
    (other,) = pack.admit(SourceLane="deal:2", TargetLane="account:1")

    head = worker.take()
    assert head.work_id == first
    assert worker.take() is None
    finish.complete(head)
    following = [worker.take(), worker.take()]
    assert following[0].work_id == second
    assert following[1] is None
    finish.complete(following[0])
    assert worker.take().work_id == other


def test_lane__stops_at_a_dead_item_until_it_is_replayed(vintage):
    pack, worker = Pack(), Worker()
    pack.route(source_lane="id", on_dead="block")
    first, second = pack.admit(2, SourceLane="deal:1")
    finish.bury(worker.take(), FailureClass.FLOW_REJECTED)
    assert worker.take() is None
    if vintage is Vintage.ADDITIVE:
        change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", first)
    else:
        event_id = item_row(first)["EventId"]
        (child,) = pack.admit()
        change(
            "UPDATE _System_ConnectorEvent SET ReplayOfEventId = %s WHERE EventId = %s",
            event_id,
            item_row(child)["EventId"],
        )
        change("DELETE FROM _System_ConnectorWorkItem WHERE WorkId = %s", child)
    assert worker.take().work_id == second


def test_window__that_one_pack_fills_hides_no_other_and_older_incarnations_come_first(vintage):
    older = Pack(namespace="lanes", incarnation=1, status="retired")
    newer = Pack(namespace="lanes", incarnation=2, org_id=older.org_id)
    (after,) = newer.admit(SourceLane="deal:1")
    (before,) = older.admit(SourceLane="deal:1")
    Pack(namespace="crowd").admit(12)
    worker = Worker()
    queue = worker.queue(window=4)
    seen = [claim.work_id for claim in claim_some(worker.process, queue, 1)]
    while (claim := claim_next(worker.process, queue)) is not None:
        seen.append(claim.work_id)
    assert before in seen
    assert after not in seen


def test_dependency__blocks_and_gives_back(vintage):
    from integration.work.blocking import Resolver

    pack, worker = Pack(), Worker()
    pack.route(target_lane="account", waits_for="account.created")
    (deal,) = pack.admit(SourceLane="deal:1", TargetLane="account:7")
    assert worker.take() is None
    assert item_row(deal)["State"] == "blocked"
    (account,) = pack.admit(EventKind="account.created", SourceLane="account:7", RouteId="a" * 36)
    finish.complete(worker.take())
    assert item_row(account)["State"] == "succeeded"
    assert Resolver().resolve() == 1
    assert worker.take().work_id == deal
