"""The ownership gate, rule by rule, and what ambiguity may not do."""

from __future__ import annotations

import pytest

from integration import errors
from integration.authority import gate, reads, service
from integration.authority.facts import EventFacts
from integration.authority.listing import DeadFilters
from integration.authority.values import OwnerAmbiguous, OwnerKind, Ref, Refused, Replayed
from integration.values import new_id
from tests.support.authority import MARIA, World, rows_of, system_rows

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"


def event_of(ref: Ref) -> str:
    (row,) = rows_of(ITEMS, "WorkId = %s", ref.id)
    return str(row["EventId"])


@pytest.mark.parametrize("state", ["pending", "processing", "retry", "blocked", "dead", "succeeded"])
def test_owner__is_the_work_item_once_it_was_claimed(state: str):
    ref = World().work(state, Attempt=1, event={"Status": "dead", "ExecutionOwner": "event"})
    owner = gate.owner_of(event_of(ref))
    assert (owner.kind, owner.work_id, owner.why.rule, owner.why.code) == (
        OwnerKind.WORK_ITEM,
        ref.id,
        1,
        "work_item_claimed",
    )
    assert owner.why.facts == {"work_type": "connector_event", "attempt": 1, "state": state}


@pytest.mark.parametrize("state", ["pending", "retry", "blocked", "dead", "processing", "succeeded"])
def test_owner__is_the_event_while_its_mirror_was_never_claimed(state: str):
    ref = World().work(state, Attempt=0, event={"Status": "dead", "ExecutionOwner": "work_item"})
    owner = gate.owner_of(event_of(ref))
    assert (owner.kind, owner.work_id, owner.why.rule) == (OwnerKind.EVENT, ref.id, 2)


def test_owner__is_the_event_without_a_work_item():
    ref = World().legacy()
    owner = gate.owner_of(ref.id)
    assert (owner.kind, owner.work_id, owner.why.rule) == (OwnerKind.EVENT, None, 3)


def test_owner__is_the_work_item_whose_legacy_outcome_was_reconciled():
    ref = World().work("reconciled_legacy_terminal", Attempt=0, event={"Status": "dead"})
    owner = gate.owner_of(event_of(ref))
    assert (owner.kind, owner.why.rule, owner.why.code) == (OwnerKind.WORK_ITEM, 1, "work_item_reconciled")


def test_owner__of_no_event_is_an_error():
    with pytest.raises(errors.EventNotFound):
        gate.owner_of(new_id())


def test_owner__is_the_event_on_a_schema_without_the_additive_columns():
    ref = World().work(Attempt=5)
    row = rows_of(EVENTS, "EventId = %s", event_of(ref))[0]
    owner = gate.decide_owner(EventFacts.from_row(row), (), has_additive=False)
    assert (owner.kind, owner.work_id, owner.why.rule) == (OwnerKind.EVENT, None, 4)


@pytest.mark.evidence("A-14")
@pytest.mark.parametrize("event_type", ["connector_event", "workflow_action_apply"])
@pytest.mark.parametrize("work_type", ["connector_event", "workflow_action_apply"])
def test_lookup__finds_the_one_candidate_under_either_work_type(work_type: str, event_type: str):
    world = World()
    ref = world.work(WorkType=work_type, event={"WorkType": event_type})
    assert gate.owner_of(event_of(ref)).work_id == ref.id
    assert reads.get_detail(Ref(id=event_of(ref))).row.work_type == work_type
    (row,) = reads.list_dead(DeadFilters()).rows
    assert row.ref == ref
    done = service.replay(Ref(id=event_of(ref)), actor=MARIA, reason="x")
    assert isinstance(done, Replayed)
    assert done.original == ref


def two_candidates(world: World, **second) -> tuple[str, Ref, Ref]:
    event_id = world.event()
    return (
        event_id,
        world.work(event_id=event_id),
        world.work(event_id=event_id, **{"WorkType": "workflow_action_apply", **second}),
    )


@pytest.mark.evidence("A-15")
def test_ambiguity__fails_closed_everywhere_and_the_list_leaves_the_duplicates_out():
    world = World()
    other = world.work()
    event_id, first, second = two_candidates(world)
    before = system_rows()
    owner = gate.owner_of(event_id)
    assert (owner.kind, owner.work_id, owner.why.rule) == (OwnerKind.AMBIGUOUS, None, 5)
    for ref in (first, second, Ref(id=event_id)):
        with pytest.raises(OwnerAmbiguous) as caught:
            reads.get_detail(ref)
        assert set(caught.value.data_fields["work_ids"]) == {first.id, second.id}
        assert service.plan(ref, MARIA).refusal.code == "ambiguous_owner"
        answer = service.replay(ref, actor=MARIA, reason="x")
        assert isinstance(answer, Refused)
        assert answer.code == "ambiguous_owner"
    page = reads.list_dead(DeadFilters())
    assert [row.ref for row in page.rows] == [other]
    (rejected,) = page.rejected
    assert (rejected.event_id, set(rejected.work_ids)) == (event_id, {first.id, second.id})
    assert system_rows() == before


@pytest.mark.evidence("A-15")
@pytest.mark.parametrize("second", [{"Attempt": 0, "State": "pending", "TerminalAt": None}, {"State": "succeeded"}])
def test_ambiguity__of_one_dead_row_and_another_is_listed_without_an_action(second):
    world = World()
    _, first, _ = two_candidates(world, **second)
    (row,) = reads.list_dead(DeadFilters()).rows
    assert (row.ref, row.owner, row.is_actionable) == (first, OwnerKind.AMBIGUOUS, False)
    assert service.plan(first, MARIA).refusal.code == "ambiguous_owner"
    with pytest.raises(OwnerAmbiguous):
        reads.get_detail(first)


@pytest.mark.evidence("A-15")
def test_ambiguity__that_appears_after_the_plan_is_met_under_the_locks(monkeypatch: pytest.MonkeyPatch):
    world = World()
    event_id = world.event()
    ref = world.work(event_id=event_id)
    real = service.gather.read_facts

    def overtaken(*arguments, **options):
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        world.work("pending", event_id=event_id, WorkType="workflow_action_apply", Attempt=0)
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "ambiguous_owner"
    assert rows_of(ITEMS, "WorkId = %s", ref.id)[0]["ReplayedAt"] is None
