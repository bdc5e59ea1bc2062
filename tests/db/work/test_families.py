"""The conformance suite of the storage port: every family passes the same tests, over the same code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import pytest

from integration.errors import StaleClaim
from integration.states import TERMINAL_STATES, FailureClass, WorkItemState
from integration.storage import db
from integration.storage.sql.work_port import WorkStatements
from integration.work import finish
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, Claimed, LostWhy, claim, claim_next, claim_some, renew
from integration.work.families import CONNECTOR, EFFECT, FAMILIES, Family, tables_of
from integration.work.finish import Ended
from integration.work.process import WorkerProcess
from integration.work.reap import reap_expired
from tests.support.integration_work import admit_integration
from tests.support.work import Pack, attempt_rows, change, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-12")]
NO_LEASE = {"LeaseOwner": None, "LeaseToken": None, "LeaseUntil": None, "TargetLaneActiveKey": None}
ENDINGS: dict[str, tuple[Callable[[Claim], Ended], str]] = {
    "complete": (finish.complete, "succeeded"),
    "skip": (finish.skip, "skipped"),
    "bury": (lambda taken: finish.bury(taken, FailureClass.FLOW_REJECTED), "dead"),
    "acknowledge_cancel": (finish.acknowledge_cancel, "cancelled"),
}


@dataclass
class Bench:
    """One family with its table, a process that may claim, and a queue."""

    family: Family
    table: str
    active_key: str
    process: WorkerProcess
    pack: Pack

    def admit(self, count: int = 1, **over: Any) -> list[str]:
        if self.family.is_event_backed:
            return self.pack.admit(count, **over)
        return admit_integration(count, family=self.family.name, **over)

    def row(self, work_id: str) -> dict[str, Any]:
        (found,) = query(f"SELECT * FROM {self.table} WHERE WorkId = %s", work_id)
        return found

    def change(self, assignment: str, work_id: str) -> None:
        assert change(f"UPDATE {self.table} SET {assignment} WHERE WorkId = %s", work_id) == 1

    def queue(self, **options: Any) -> CandidateQueue:
        return CandidateQueue(self.process, family=self.family, **options)

    def take(self, **options: Any) -> Claim:
        taken = claim_next(self.process, self.queue(), **options)
        assert taken is not None
        return taken

    def claim(self, item) -> Claimed:
        return claim((item,), self.process.fence_for(item.pack_install_id))

    def expire(self, work_id: str) -> None:
        self.change("LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND", work_id)

    def reap(self):
        return reap_expired(self.process, families=[self.family])


@pytest.fixture(params=["connector", "effect", "token"])
def bench(request, pack, process) -> Bench:
    family = FAMILIES[request.param]
    table, key = (
        ("_System_ConnectorWorkItem", "ProjectionActiveKey")
        if family.is_event_backed
        else ("_System_IntegrationWorkItem", "ActiveKey")
    )
    return Bench(family=family, table=table, active_key=key, process=process, pack=pack)


def test_port__is_the_same_for_all(bench):
    for member in fields(WorkStatements):
        statement = getattr(bench.family.statements, member.name)
        assert bench.table in statement.text
        others = {"_System_ConnectorWorkItem", "_System_IntegrationWorkItem"} - {bench.table}
        assert not any(other in statement.text for other in others)


def test_tables__are_served_once_however_many_families_share_them():
    assert [family.name for family in tables_of(FAMILIES.values())] == ["connector", "effect"]
    assert tables_of([EFFECT, CONNECTOR]) == [EFFECT, CONNECTOR]


def test_candidates__are_the_due_ones_of_the_family_alone(bench):
    due = bench.admit(3)
    late = bench.admit()[0]
    bench.change("RunAfter = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND", late)
    if not bench.family.is_event_backed:
        admit_integration(2, family="subscription")
    assert {item.work_id for item in bench.queue().take(100)} == set(due)


def test_claim__installs_lease_epoch_and_attempt(bench):
    (work_id,) = bench.admit()
    before = bench.row(work_id)

    taken = bench.take()

    after = bench.row(work_id)
    assert {name for name in after if after[name] != before[name]} == {
        "State",
        "Attempt",
        "OwnershipEpoch",
        "LeaseOwner",
        "LeaseToken",
        "LeaseUntil",
        "UpdatedAt",
    }
    assert (after["State"], after["Attempt"], after["OwnershipEpoch"]) == ("processing", 1, 1)
    assert (taken.attempt, taken.epoch, taken.lease_token) == (1, 1, after["LeaseToken"])
    assert [(row["Attempt"], row["OwnershipEpoch"], row["FinishedAt"]) for row in attempt_rows(work_id)] == [
        (1, 1, None)
    ]


@pytest.mark.parametrize(
    "assignment",
    [
        "State = 'blocked'",
        "Attempt = 1",
        "OwnershipEpoch = 1",
        "LeaseToken = 'x'",
        "RollbackExecutionFenceId = REPEAT('a', 36)",
        "RunAfter = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND",
    ],
)
def test_claim__binds_what_it_relies_on(bench, assignment):
    (work_id,) = bench.admit()
    (item,) = bench.queue().take(1)
    bench.change(assignment, work_id)
    before = bench.row(work_id)
    assert bench.claim(item) == Claimed(lost=LostWhy.RACE)
    assert (bench.row(work_id), attempt_rows(work_id)) == (before, [])


def test_claim__by_an_evicted_process_is_fenced(bench):
    (work_id,) = bench.admit()
    (item,) = bench.queue().take(1)
    fence = bench.process.fence_for(item.pack_install_id)
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = UTC_TIMESTAMP(6)")
    assert claim((item,), fence) == Claimed(lost=LostWhy.FENCED)
    assert bench.row(work_id)["State"] == "pending"


def test_claim__of_many_is_one_statement_with_one_token(bench):
    ids = bench.admit(5)
    taken = claim_some(bench.process, bench.queue(), 8)
    assert {found.work_id for found in taken} == set(ids)
    assert len({found.lease_token for found in taken}) == 1


def test_renew__extends_a_live_lease_only(bench):
    (work_id,) = bench.admit()
    taken = bench.take()
    bench.expire(work_id)
    assert renew(taken) is True
    assert bench.reap().total == 0
    finish.complete(taken)
    assert renew(taken) is False


@pytest.mark.parametrize("name", ENDINGS)
def test_end__writes_its_state_and_gives_everything_up(bench, name):
    end, state = ENDINGS[name]
    (work_id,) = bench.admit(TargetLane="account:1")
    taken = bench.take()
    assert bench.row(work_id)["TargetLaneActiveKey"] is not None
    if name == "acknowledge_cancel":
        bench.change("CancelRequestedAt = UTC_TIMESTAMP(6)", work_id)

    end(taken)

    row = bench.row(work_id)
    assert (row["State"], row["Outcome"]) == (state, state)
    assert WorkItemState(row["State"]) in TERMINAL_STATES
    assert row["TerminalAt"] is not None
    assert row[bench.active_key] is None
    assert {name: row[name] for name in NO_LEASE} == NO_LEASE
    with pytest.raises(StaleClaim):
        end(taken)


def test_acknowledge__of_what_nobody_asked_for_is_refused(bench):
    bench.admit()
    with pytest.raises(StaleClaim):
        finish.acknowledge_cancel(bench.take())


def test_retry__gives_back_and_the_next_claim_closes_the_attempt(bench):
    (work_id,) = bench.admit()
    assert finish.retry(bench.take(), FailureClass.FLOW_ERROR, after_seconds=0) is Ended.RETRY
    row = bench.row(work_id)
    assert (row["State"], row["FailureClass"], row["FailureCount"]) == ("retry", "flow_error", 1)
    assert row[bench.active_key] is not None or bench.family.is_event_backed
    bench.change("RunAfter = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND", work_id)

    second = bench.take()

    assert (second.attempt, second.epoch) == (2, 2)
    assert [attempt["Outcome"] for attempt in attempt_rows(work_id)] == ["retry", None]


def test_retry__of_the_last_attempt_buries(bench):
    (work_id,) = bench.admit(MaxAttempts=1)
    assert finish.retry(bench.take(), FailureClass.FLOW_ERROR, after_seconds=0) is Ended.BURY
    assert bench.row(work_id)["State"] == "dead"


def test_release__gives_back_without_a_failure(bench):
    (work_id,) = bench.admit()
    assert finish.release(bench.take())
    row = bench.row(work_id)
    assert (row["State"], row["MaxAttempts"], row["FailureCount"]) == ("retry", 4, 0)


def test_finish_many__ends_what_is_live_and_leaves_the_rest(bench):
    bench.admit(4)
    taken = claim_some(bench.process, bench.queue(), 4)
    lost = taken[1]
    bench.expire(lost.work_id)
    assert bench.reap().retried == 1
    before = bench.row(lost.work_id)

    ended = finish.finish_many(taken, Ended.COMPLETE)

    assert ended == {found.work_id for found in taken} - {lost.work_id}
    assert bench.row(lost.work_id) == before
    for work_id in ended:
        row = bench.row(work_id)
        assert (row["State"], row[bench.active_key]) == ("succeeded", None)


def test_reap__takes_back_and_buries_by_the_attempts_left(bench):
    again, last = bench.admit(1)[0], bench.admit(1, MaxAttempts=1)[0]
    for _ in range(2):
        bench.take()
    assert bench.reap().total == 0
    bench.expire(again)
    bench.expire(last)
    reaped = bench.reap()
    assert (reaped.retried, reaped.buried) == (1, 1)
    assert [(bench.row(work_id)["State"], bench.row(work_id)["FailureClass"]) for work_id in (again, last)] == [
        ("retry", "lease_lost"),
        ("dead", "lease_lost"),
    ]
    assert bench.row(last)[bench.active_key] is None


@pytest.mark.parametrize("name", ENDINGS)
def test_end__by_a_stale_claimant_changes_nothing(bench, name):
    (work_id,) = bench.admit()
    stale = bench.take()
    bench.expire(work_id)
    bench.reap()
    bench.change("RunAfter = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND", work_id)
    live = bench.take()
    bench.change("CancelRequestedAt = UTC_TIMESTAMP(6)", work_id)
    before = bench.row(work_id)
    with pytest.raises(StaleClaim):
        ENDINGS[name][0](stale)
    assert (renew(stale), finish.release(stale)) == (False, False)
    assert finish.finish_many([stale], Ended.COMPLETE) == frozenset()
    assert bench.row(work_id) == before
    assert finish.complete(live) is Ended.COMPLETE


def test_source_lane__is_taken_from_its_head(bench):
    first, second = bench.admit(2, SourceLane="lane:1")
    other = bench.admit(SourceLane="lane:2")[0]
    taken = claim_some(bench.process, bench.queue(), 8)
    assert {found.work_id for found in taken} == {first, other}
    assert claim_next(bench.process, bench.queue()) is None
    finish.complete(next(found for found in taken if found.work_id == first))
    assert bench.take().work_id == second


def test_target_lane__is_kept_by_its_unique_key(bench):
    one, two = bench.admit(2, TargetLane="account:9")
    by_id = {item.work_id: item for _ in range(2) for item in bench.queue().take(8)}
    held = bench.take()
    assert held.work_id == one
    if two not in by_id:
        finish.release(held)
        bench.change("RunAfter = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND", one)
        (by_id[two],) = bench.queue().take(8)
        bench.change("RunAfter = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND", one)
        held = bench.take()
    before = bench.row(two)
    assert bench.claim(by_id[two]) == Claimed(lost=LostWhy.TARGET_LANE)
    assert bench.row(two) == before
    assert claim_next(bench.process, bench.queue()) is None
    finish.complete(held)
    assert bench.take().work_id == two


@pytest.mark.parametrize("state", list(WorkItemState))
def test_cancel__ends_what_waits_and_nothing_else(bench, state):
    (work_id,) = bench.admit()
    bench.change(f"State = '{state}', OwnershipEpoch = 3", work_id)
    before = bench.row(work_id)
    params = {"work_id": work_id, "epoch": 3, "actor_name": "ana"}
    matched = db.execute_alone(bench.family.statements.cancel, params)
    after = bench.row(work_id)
    if state in {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED}:
        assert (matched, after["State"], after["CancelRequestedBy"]) == (1, "cancelled", "ana")
        assert after[bench.active_key] is None
    else:
        assert (matched, after) == (0, before)


def test_request__is_seen_by_whoever_holds_the_claim(bench):
    (work_id,) = bench.admit()
    taken = bench.take()
    seen = {"work_ids": (work_id,)}
    assert db.read().fetch_all(bench.family.statements.list_cancel_requested, seen) == []
    params = {"work_id": work_id, "epoch": taken.epoch, "actor_name": "ana"}
    assert db.execute_alone(bench.family.statements.request_cancel, params) == 1
    assert db.read().fetch_all(bench.family.statements.list_cancel_requested, seen) == [{"WorkId": work_id}]
    assert finish.acknowledge_cancel(taken) is Ended.ACKNOWLEDGE_CANCEL


def test_unfinished__is_found_in_every_nonterminal_state_that_a_worker_ends(bench):
    assert db.read().fetch_one(bench.family.statements.find_unfinished, {"family": bench.family.name}) is None
    admit_integration(family="reconcile")
    (work_id,) = bench.admit()
    for state in ("pending", "processing", "retry", "blocked"):
        bench.change(f"State = '{state}'", work_id)
        assert db.read().fetch_one(bench.family.statements.find_unfinished, {"family": bench.family.name}) is not None
    bench.change("State = 'succeeded'", work_id)
    assert db.read().fetch_one(bench.family.statements.find_unfinished, {"family": bench.family.name}) is None
