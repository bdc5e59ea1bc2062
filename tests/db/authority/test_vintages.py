"""On a schema that lacks columns the Event keeps authority: it is listed, opened and replayed by its own row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from console.models import AuditEntry
from integration.authority import gate, reads, service
from integration.authority.listing import DeadFilters
from integration.authority.values import Ref, Refused, Replayed
from integration.storage import probe
from integration.storage.install import install_schema
from integration.storage.schema import Vintage
from tests.support import authority
from tests.support.authority import MARIA, World
from tests.support.rows import insert
from tests.support.sessions import default_of_vintage

ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
BASE = {
    "WorkFamily": "connector",
    "WorkType": "connector_event",
    "SubjectKind": "event",
    "FlowName": "prospect_sync",
    "FlowVersion": "3",
    "CatalogDigest": "c" * 64,
    "MaxAttempts": 3,
}


@pytest.fixture(params=[Vintage.EVENT_ONLY, Vintage.LEGACY, Vintage.ADDITIVE])
def vintage(request: Any, django_db_modify_db_settings: None, django_db_blocker: Any) -> Iterator[Vintage]:
    """Make a database of an older vintage the default one for a test."""
    with django_db_blocker.unblock(), default_of_vintage(request.param) as connection:
        with connection.schema_editor() as editor:
            editor.create_model(AuditEntry)
        yield request.param


def mirror(world: World, event_id: str, *, attempt: int, **over: Any) -> str:
    """Insert a dead WorkItem with the columns of the first vintage that has the table."""
    work_id = authority.new_id()
    values = {
        "WorkId": work_id,
        "SubjectId": event_id,
        "EventId": event_id,
        "OrgId": world.org_id,
        "Namespace": world.namespace,
        "PackInstallId": world.pack_id,
        "RouteId": world.route_id,
        "RouteVersion": 1,
        "EventKind": world.kind,
        "State": "dead",
        "Attempt": attempt,
        "RunAfter": world.now,
        "CreatedAt": world.now,
        "UpdatedAt": world.now,
        **BASE,
    }
    insert(ITEMS, **{**values, **over})
    return work_id


def replay(ref: Ref) -> Replayed:
    outcome = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(outcome, Replayed), outcome
    return outcome


def refused(ref: Ref) -> str:
    """Return the code with which plan and replay refuse alike, having written nothing but to the trail."""
    before = authority.system_rows()
    plan, outcome = service.plan(ref, MARIA), service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(outcome, Refused)
    assert plan.refusal is not None
    assert (plan.refusal.code, authority.system_rows()) == (outcome.code, before)
    return outcome.code


def one(table: str, where: str, value: Any) -> dict[str, Any]:
    (row,) = authority.rows_of(table, f"{where} = %s", value)
    return row


@pytest.mark.evidence("A-03")
def test_an_older_schema__lists_opens_and_replays_by_its_events(vintage: Vintage):
    world = World()
    legacy = world.legacy()
    page = reads.list_dead(DeadFilters())
    assert [(row.ref, row.owner) for row in page.rows] == [(legacy, "event")]
    assert str(reads.count_dead(DeadFilters())) == "1"
    for filters in ({"search": legacy.id}, {"search": f"delivery-{legacy.id}"}, {"namespace": world.namespace}):
        assert [row.ref for row in reads.list_dead(DeadFilters(**filters)).rows] == [legacy], filters
    detail = reads.get_detail(legacy)
    expected_rule = 3 if vintage is Vintage.ADDITIVE else 4
    assert (detail.owner.kind, detail.owner.why.rule) == ("event", expected_rule)
    assert gate.owner_of(legacy.id) == detail.owner
    assert service.plan(legacy, MARIA).refusal is None
    before = one(EVENTS, "EventId", legacy.id)

    done = service.replay(legacy, actor=MARIA, reason="x", idempotency_key="k")

    assert isinstance(done, Replayed)
    assert done.original == legacy
    after = one(EVENTS, "EventId", legacy.id)
    assert {name for name in after if after[name] != before[name]} == {"ReplayedAt"}
    child = one(EVENTS, "ReplayOfEventId", legacy.id)
    assert (child["EventId"], child["ExecutionOwner"], child["Status"]) == (done.child_event_id, "event", "pending")
    if vintage is Vintage.EVENT_ONLY:
        assert done.child_work_id is None
    else:
        item = one(ITEMS, "EventId", child["EventId"])
        assert (item["WorkId"], item["State"], item["Attempt"]) == (done.child_work_id, "pending", 0)
        assert item.get("ReplayOfWorkId") is None
    assert [node.event_id for node in reads.lineage(legacy).descendants] == [done.child_event_id]
    repeated = service.replay(legacy, actor=MARIA, reason="x", idempotency_key="k")
    assert repeated == dataclasses.replace(done, is_repeat=True)
    again = service.replay(legacy, actor=MARIA, reason="x")
    assert isinstance(again, Refused)
    assert (again.code, again.winner.child_event_id) == ("already_replayed", done.child_event_id)
    assert [entry.outcome for entry in AuditEntry.objects.order_by("at")] == ["done", "refused"]


@pytest.mark.evidence("A-03", "A-05")
@pytest.mark.parametrize("vintage", [Vintage.LEGACY, Vintage.ADDITIVE], indirect=True)
def test_an_older_schema__ends_the_mirror_with_its_event(vintage: Vintage):
    world = World()
    for number, state in enumerate(("pending", "retry", "blocked", "dead")):
        legacy, left = world.legacy(), {"LeaseToken": "left", "TargetLaneActiveKey": f"{number}" * 64}
        work_id = mirror(world, legacy.id, attempt=0, State=state, **({} if state == "dead" else left))
        done = replay(legacy)
        item, child = one(ITEMS, "WorkId", work_id), one(ITEMS, "WorkId", done.child_work_id)
        assert (item["State"], item["LeaseToken"], item["TargetLaneActiveKey"]) == ("dead", None, None)
        assert child["EventId"] == done.child_event_id
        if vintage is Vintage.ADDITIVE:
            assert None not in {item["ReplayedAt"], item["TerminalAt"]}
            assert child["ReplayOfWorkId"] == work_id


@pytest.mark.evidence("A-03")
@pytest.mark.parametrize("vintage", [Vintage.LEGACY], indirect=True)
def test_an_older_schema__refuses_what_a_work_item_may_still_execute(vintage: Vintage):
    world = World()
    claimed, twice = world.legacy(), world.legacy()
    mirror(world, claimed.id, attempt=2, State="retry")
    assert refused(claimed) == "mirror_conflict"
    mirror(world, twice.id, attempt=0)
    mirror(world, twice.id, attempt=0, WorkType="workflow_action_apply")
    assert refused(twice) == "mirror_conflict"


@pytest.mark.evidence("A-03")
def test_an_older_schema__replays_a_projections_event_where_no_range_is_needed(vintage: Vintage):
    world = World(execution="source_projection")
    legacy = world.legacy()
    if vintage is Vintage.ADDITIVE:
        # Its WorkItem would need a range: the schema has the WorkItem's columns and lacks those of the range.
        assert refused(legacy) == "schema_unavailable"
        return
    lane = one(EVENTS, "EventId", legacy.id)["SourceLane"]
    successor = world.event(SourceLane=lane, ExecutionOwner="event", Status="failed")
    assert refused(legacy) == "event_only_successor"
    authority.change(f"UPDATE {EVENTS} SET Status = 'processed' WHERE EventId = %s", successor)
    if vintage is Vintage.LEGACY:
        work_id = mirror(world, successor, attempt=1, State="retry", SourceLane=lane, ProjectionKey="a" * 64)
        assert refused(legacy) == "active_generation_in_scope"
        authority.change(f"UPDATE {ITEMS} SET State = 'succeeded' WHERE WorkId = %s", work_id)
    done = replay(legacy)
    assert done.child_work_id is None
    assert one(EVENTS, "EventId", done.child_event_id)["ExecutionOwner"] == "event"


@pytest.mark.parametrize("vintage", [Vintage.ADDITIVE], indirect=True)
def test_a_schema_without_ranges__replays_a_work_items_own_row(vintage: Vintage):
    world = World()
    legacy = world.legacy()
    work_id = mirror(world, legacy.id, attempt=2)
    done = replay(Ref(id=work_id))
    assert done.original == Ref.parse(f"work_item:{work_id}")
    assert one(ITEMS, "WorkId", done.child_work_id)["ReplayOfWorkId"] == work_id
    assert one(EVENTS, "EventId", legacy.id)["ReplayedAt"] is None


@pytest.mark.parametrize("vintage", [Vintage.LEGACY], indirect=True)
def test_a_torn_table__is_not_taken_for_a_missing_one(vintage: Vintage):
    legacy = World().legacy()
    authority.change(f"ALTER TABLE {ITEMS} DROP COLUMN BlockedSince")
    probe.forget(connections["default"])
    assert refused(legacy) == "schema_unavailable"


def test_a_schema_without_the_additive_columns__leaves_a_claimed_work_items_event_in_charge(vintage: Vintage):
    world = World()
    legacy = world.legacy()
    if vintage is Vintage.EVENT_ONLY:
        assert gate.owner_of(legacy.id).why.code == "old_schema"
        return
    work_id = mirror(world, legacy.id, attempt=2)
    owner = gate.owner_of(legacy.id)
    if vintage is Vintage.LEGACY:
        assert (owner.kind, owner.work_id, owner.why.rule) == ("event", None, 4)
        assert [row.ref for row in reads.list_dead(DeadFilters()).rows] == [legacy]
        assert reads.get_detail(Ref(id=work_id)).row.ref == legacy
    else:
        assert (owner.kind, owner.work_id, owner.why.rule) == ("work_item", work_id, 1)
        assert reads.get_detail(legacy).row.work_id == work_id


@pytest.mark.parametrize("vintage", [Vintage.EVENT_ONLY, Vintage.LEGACY], indirect=True)
def test_an_upgrade__is_noticed_by_a_process_that_runs(vintage: Vintage):
    legacy = World().legacy()
    assert gate.owner_of(legacy.id).why.rule == 4
    install_schema(connections["default"], Vintage.CURRENT)
    assert gate.owner_of(legacy.id).why.rule == 3
    assert service.plan(legacy, MARIA).refusal is None


@pytest.mark.evidence("A-03", "A-34")
@pytest.mark.parametrize("vintage", [Vintage.LEGACY], indirect=True)
def test_an_upgrade__between_a_replays_reading_and_its_locks_moves_the_authority(
    vintage: Vintage, monkeypatch: pytest.MonkeyPatch
):
    world = World()
    legacy = world.legacy()
    work_id = mirror(world, legacy.id, attempt=2)
    real = service.gather.read_facts

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        install_schema(connections["default"], Vintage.CURRENT)
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    done = replay(legacy)
    assert done.original == Ref.parse(f"work_item:{work_id}")
    assert one(EVENTS, "EventId", legacy.id)["ReplayedAt"] is None
    assert one(ITEMS, "WorkId", work_id)["ReplayedAt"] is not None


@pytest.mark.evidence("A-17")
@pytest.mark.parametrize("vintage", [Vintage.LEGACY], indirect=True)
def test_an_upgrade__after_an_event_was_replayed_leaves_a_fence_for_the_work_item(vintage: Vintage):
    world = World()
    legacy = world.legacy()
    work_id = mirror(world, legacy.id, attempt=2)
    replay(legacy)
    install_schema(connections["default"], Vintage.CURRENT)
    assert gate.owner_of(legacy.id).work_id == work_id
    assert refused(Ref(id=work_id)) == "event_replay_fence"
