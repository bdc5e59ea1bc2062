"""A dead projection is replayed from its new Event on, and never past anything else of its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from integration.authority import making, service
from integration.authority.values import Ref, RefKind, Refused, Replayed
from integration.ingress.service import materialize_ready
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.projection.inputs import open_inputs
from integration.storage.statements import LockRank
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.execute import execute
from integration.work.finish import Ended
from integration.work.flows import discover_flows
from integration.work.material import open_payload
from integration.work.process import register_process
from tests.db.work.test_plans import faults_of_plan
from tests.support import admission
from tests.support.authority import MARIA, audit_entries, system_rows
from tests.support.projections import Source
from tests.support.work import Pack, Row, change, event_row, item_row, query

pytestmark = pytest.mark.django_db(transaction=True)
DEAD = {"State": "dead", "Attempt": 3, "OwnershipEpoch": 3, "ProjectionActiveKey": None}


def admit(*numbers: int) -> None:
    admission.inputs(*numbers)
    assert materialize_ready() == len(numbers)


@pytest.fixture
def pack_id(db) -> str:
    return admission.activate()


@pytest.fixture
def dead(pack_id: str) -> Row:
    """A generation of three inputs that died, claimed and ended as the kernel leaves the rows."""
    admit(1, 1, 1)
    return kill()


def kill() -> Row:
    """End the active generation of deal 1 dead."""
    (row,) = [row for row in admission.generations(1) if row["ProjectionActiveKey"] is not None]
    admission.claim_row(row["WorkId"])
    admission.end_row(row["WorkId"], "dead")
    return item_row(row["WorkId"])


def ref_of(row: Row) -> Ref:
    return Ref(id=row["WorkId"], kind=RefKind.WORK_ITEM)


def replay(row: Row) -> Replayed:
    answer = service.replay(ref_of(row), actor=MARIA, reason="mended")
    assert isinstance(answer, Replayed), answer
    return answer


@pytest.mark.evidence("P-10")
def test_replay__makes_a_generation_that_starts_at_its_new_event(dead):
    original = item_row(dead["WorkId"])
    answer = replay(dead)
    child, event = item_row(answer.child_work_id), event_row(answer.child_event_id)

    assert (child["InputStartOrdinal"], child["LaneOrdinal"], event["LaneOrdinal"]) == (4, 4, 4)
    assert (child["ProjectionKey"], child["ProjectionActiveKey"]) == (dead["ProjectionKey"],) * 2
    assert (child["SubjectKind"], child["SubjectId"]) == ("projection", dead["ProjectionKey"])
    assert child["SourceScopeKey"] == dead["SourceScopeKey"] is not None
    assert (child["State"], child["Attempt"], child["ReplayOfWorkId"]) == ("pending", 0, dead["WorkId"])
    assert (event["ReplayOfEventId"], event["SourceLane"]) == (dead["EventId"], dead["SourceLane"])
    assert [item.ordinal for item in open_inputs(child["WorkId"], open_payload)] == [4]
    assert [item.payload for item in open_inputs(child["WorkId"], open_payload)] == [
        list(open_inputs(dead["WorkId"], open_payload))[-1].payload
    ]

    after = item_row(dead["WorkId"])
    assert {name for name in after if after[name] != original[name]} == {"ReplayedAt"}
    assert admission.unowned_inputs() == {}
    (entry,) = [entry for entry in audit_entries() if entry["ref_id"] == dead["WorkId"]]
    assert (entry["action"], entry["outcome"], entry["ref_id"]) == ("work_item.replayed", "done", dead["WorkId"])


@pytest.mark.evidence("P-10")
def test_replay__absorbs_later_inputs_until_it_is_claimed_and_none_after(dead):
    child = replay(dead).child_work_id
    admit(1, 1)
    admit(1)
    assert admission.ranges(1) == [(1, 3, False), (4, 7, True)]
    assert item_row(child)["ReplayOfWorkId"] == dead["WorkId"]
    # The child moved on to a newer Event; its lineage did not.
    assert (
        item_row(child)["EventId"]
        != query("SELECT EventId FROM _System_ConnectorEvent WHERE ReplayOfEventId = %s", dead["EventId"])[0]["EventId"]
    )
    assert [item.ordinal for item in open_inputs(child, open_payload)] == [4, 5, 6, 7]

    admission.claim_row(child)
    admit(1)
    assert admission.ranges(1) == [(1, 3, False), (4, 7, True), (8, 8, False)]
    assert admission.unowned_inputs() == {}


@pytest.mark.evidence("P-10")
def test_replay__is_executed_with_what_it_absorbed(dead):
    discover_flows()
    child = replay(dead).child_work_id
    admit(1)
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    assert claim.work_id == child
    assert execute(claim) is Ended.COMPLETE
    assert item_row(child)["State"] == "succeeded"
    again = service.replay(ref_of(dead), actor=MARIA, reason="again")
    assert isinstance(again, Refused)
    assert (again.code, again.winner and again.winner.child_work_id) == ("already_replayed", child)


@pytest.mark.evidence("P-10")
def test_replay__under_a_newer_incarnation_has_a_key_of_its_own_and_the_same_lineage(dead):
    newer = admission.activate(admission.NEWER)
    answer = replay(dead)
    child = item_row(answer.child_work_id)
    assert child["PackInstallId"] == newer != dead["PackInstallId"]
    assert child["ProjectionKey"] == ProjectionIdentity.of_work_item(child).key() != dead["ProjectionKey"]
    assert child["SourceScopeKey"] == dead["SourceScopeKey"]
    assert (child["ReplayOfWorkId"], child["InputStartOrdinal"]) == (dead["WorkId"], child["LaneOrdinal"])


@pytest.mark.evidence("A-25")
def test_replay__of_a_projection_locks_in_rank_order(dead, monkeypatch):
    traces: list[list[LockRank]] = []
    make = making.make

    def watched(held: Any, request: Any) -> Replayed:
        traces.append(list(held.pack.tx.lock_trace))
        return make(held, request)

    monkeypatch.setattr(making, "make", watched)
    replay(dead)
    assert traces == [[LockRank.PACK, LockRank.EVENT, LockRank.WORK_ITEM]]


def test_plan__names_the_inputs_that_the_child_does_not_carry(dead):
    notes = " ".join(service.plan(ref_of(dead), MARIA).notes)
    assert "3 inputs, ordinals 1 to 3" in notes
    assert "carries the last one, 3" in notes
    child = item_row(replay(dead).child_work_id)
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'dead', Attempt = 1, ProjectionActiveKey = NULL WHERE WorkId = %s",
        child["WorkId"],
    )
    assert "one input, ordinal 4" in " ".join(service.plan(ref_of(child), MARIA).notes)


def still_active(dead: Row) -> str:
    admit(1)
    return str(admission.generations(1)[-1]["WorkId"])


def still_claimed(dead: Row) -> str:
    work_id = still_active(dead)
    admission.claim_row(work_id)
    return work_id


def in_state(state: str) -> Callable[[Row], str]:
    def make(dead: Row) -> str:
        work_id = still_claimed(dead)
        change("UPDATE _System_ConnectorWorkItem SET State = %s WHERE WorkId = %s", state, work_id)
        return work_id

    make.__name__ = state
    return make


def queued_without_a_key(dead: Row) -> str:
    work_id = still_active(dead)
    change("UPDATE _System_ConnectorWorkItem SET ProjectionActiveKey = NULL WHERE WorkId = %s", work_id)
    return work_id


def of_an_older_incarnation(dead: Row) -> str:
    work_id = still_active(dead)
    admission.activate(admission.NEWER)
    return work_id


def of_another_work_type(dead: Row) -> str:
    work_id = still_active(dead)
    change("UPDATE _System_ConnectorWorkItem SET WorkType = 'workflow_action_apply' WHERE WorkId = %s", work_id)
    return work_id


def of_another_projection(dead: Row) -> str:
    work_id = still_active(dead)
    change(
        "UPDATE _System_ConnectorWorkItem SET ProjectionKey = %s, ProjectionActiveKey = %s, RouteVersion = 9"
        " WHERE WorkId = %s",
        "e" * 64,
        "e" * 64,
        work_id,
    )
    return work_id


def without_a_scope_key(dead: Row) -> str:
    work_id = still_active(dead)
    change("UPDATE _System_ConnectorWorkItem SET SourceScopeKey = NULL WHERE WorkId = %s", work_id)
    return work_id


SCOPES = [
    still_active,
    still_claimed,
    *(in_state(state) for state in ("retry", "blocked", "awaiting_legacy_outcome", "legacy_outcome_unknown")),
    queued_without_a_key,
    of_an_older_incarnation,
    of_another_work_type,
    of_another_projection,
    without_a_scope_key,
]


@pytest.mark.parametrize("make", SCOPES, ids=lambda make: make.__name__)
def test_replay__is_refused_while_anything_else_of_the_source_is_to_run(dead, make):
    other = make(dead)
    before = system_rows()
    plan = service.plan(ref_of(dead), MARIA)
    answer = service.replay(ref_of(dead), actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert plan.refusal is not None
    assert (plan.refusal.code, answer.code) == ("active_generation_in_scope",) * 2
    assert answer.facts["work_ids"] == [other]
    assert system_rows() == before

    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'succeeded', ProjectionActiveKey = NULL WHERE WorkId = %s", other
    )
    assert replay(dead).child_work_id


@pytest.mark.parametrize("column", ["Namespace", "EventKind", "SourceLane"])
def test_replay__does_not_ask_about_another_source(dead, column):
    other = still_active(dead)
    change(f"UPDATE _System_ConnectorWorkItem SET {column} = 'another' WHERE WorkId = %s", other)
    change(
        "UPDATE _System_ConnectorWorkItem SET ProjectionKey = %s, ProjectionActiveKey = %s WHERE WorkId = %s",
        "e" * 64,
        "e" * 64,
        other,
    )
    change(f"UPDATE _System_ConnectorEvent SET {column} = 'another' WHERE EventId = %s", item_row(other)["EventId"])
    assert replay(dead).child_work_id


def event_only(dead: Row, **over: Any) -> str:
    """Take the WorkItem of a newer input away, as an old writer leaves it."""
    work_id = still_active(dead)
    event_id = item_row(work_id)["EventId"]
    change("DELETE FROM _System_ConnectorWorkItem WHERE WorkId = %s", work_id)
    for column, value in over.items():
        change(f"UPDATE _System_ConnectorEvent SET {column} = %s WHERE EventId = %s", value, event_id)
    return str(event_id)


@pytest.mark.parametrize("status", ["pending", "processing", "failed"])
def test_replay__is_refused_while_an_event_of_the_source_has_no_work_item(dead, status):
    event_id = event_only(dead, Status=status)
    before = system_rows()
    answer = service.replay(ref_of(dead), actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert (answer.code, answer.facts["event_ids"]) == ("event_only_successor", [event_id])
    assert system_rows() == before
    change("UPDATE _System_ConnectorEvent SET Status = 'processed' WHERE EventId = %s", event_id)
    assert replay(dead).child_work_id


def test_replay__is_not_stopped_by_an_event_that_ended_or_lies_in_an_interval(dead):
    event_only(dead, Status="dead")
    # A superseded Event that its writer left pending is an input of the dead generation, not a successor.
    change("UPDATE _System_ConnectorEvent SET Status = 'pending' WHERE LaneOrdinal = 2")
    assert replay(dead).child_work_id


def test_replay__of_a_route_that_is_per_event_now_is_refused(dead):
    change("UPDATE _System_ConnectorRoute SET ExecutionClass = 'per_event'")
    before = system_rows()
    answer = service.replay(ref_of(dead), actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "execution_class_changed"
    assert system_rows() == before


def test_replay__that_meets_a_generation_admitted_after_its_look_is_refused_under_the_locks(dead, monkeypatch):
    read_facts = service.gather.read_facts

    def then_admitted(*arguments: Any, **options: Any) -> Any:
        found = read_facts(*arguments, **options)
        if not query("SELECT 1 FROM _System_ConnectorWorkItem WHERE State = 'pending'"):
            admit(1)
        return found

    monkeypatch.setattr(service.gather, "read_facts", then_admitted)
    answer = service.replay(ref_of(dead), actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "active_generation_in_scope"
    assert item_row(dead["WorkId"])["ReplayedAt"] is None
    assert admission.unowned_inputs() == {}


@pytest.mark.django_db(transaction=False)
@pytest.mark.parametrize("history", [10, 400])
def test_scope__is_found_by_its_index_whatever_the_history(engine, db, history):
    from integration.storage.sql import replays

    source = Source(pack=Pack())
    for _ in range(history):
        source.generation(active=False, State="succeeded")
    work_id = source.generation(active=False, **DEAD)
    params = {
        "namespace": source.pack.namespace,
        "event_kind": source.kind,
        "source_lane": source.lane,
        "limit": 17,
        "work_ids": (work_id,),
    }
    for statement in (
        replays.LIST_NONTERMINAL_OF_SCOPE,
        replays.LIST_EVENT_ONLY_OF_SCOPE,
        replays.LOCK_REPLAYED_SCOPE,
    ):
        assert faults_of_plan(engine, statement, params) == [], statement.name
    assert (
        SourceScope(namespace=source.pack.namespace, event_kind=source.kind, source_lane=source.lane).key()
        == item_row(work_id)["SourceScopeKey"]
    )
