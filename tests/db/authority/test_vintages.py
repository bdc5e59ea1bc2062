"""On a schema that lacks columns the Event keeps authority, and nothing breaks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.utils import load_backend

from console.models import AuditEntry
from integration.authority import gate, reads, service
from integration.authority.listing import DeadFilters
from integration.authority.values import Ref, Refused
from integration.storage.install import install_schema
from integration.storage.schema import Vintage
from tests.support import authority
from tests.support.authority import MARIA, World
from tests.support.rows import insert
from tests.support.sessions import scratch_database

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
    with scratch_database() as name, django_db_blocker.unblock():
        usual = connections["default"]
        settings = copy.deepcopy(usual.settings_dict)
        settings["NAME"] = name
        connections["default"] = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "default")
        try:
            install_schema(connections["default"], request.param)
            with connections["default"].schema_editor() as editor:
                editor.create_model(AuditEntry)
            yield request.param
        finally:
            connections["default"].close()
            connections["default"] = usual


def mirror(world: World, event_id: str, *, attempt: int) -> str:
    """Insert a dead WorkItem with the columns of the first vintage that has the table."""
    work_id = authority.new_id()
    insert(
        "_System_ConnectorWorkItem",
        WorkId=work_id,
        SubjectId=event_id,
        EventId=event_id,
        OrgId=world.org_id,
        Namespace=world.namespace,
        PackInstallId=world.pack_id,
        RouteId=world.route_id,
        RouteVersion=1,
        EventKind=world.kind,
        State="dead",
        Attempt=attempt,
        RunAfter=world.now,
        CreatedAt=world.now,
        UpdatedAt=world.now,
        **BASE,
    )
    return work_id


def test_an_older_schema__lists_opens_and_refuses_by_its_events(vintage: Vintage):
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
    before = authority.rows_of("_System_ConnectorEvent")
    plan = service.plan(legacy, MARIA)
    answer = service.replay(legacy, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert (plan.refusal.code, answer.code) == ("schema_unavailable", "schema_unavailable")
    assert authority.rows_of("_System_ConnectorEvent") == before
    assert AuditEntry.objects.count() == 1


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


def test_an_upgrade__is_noticed_by_a_process_that_runs(vintage: Vintage):
    world = World()
    legacy = world.legacy()
    assert service.plan(legacy, MARIA).refusal.code == "schema_unavailable"
    install_schema(connections["default"], Vintage.CURRENT)
    assert service.plan(legacy, MARIA).refusal.code != "schema_unavailable"
    assert gate.owner_of(legacy.id).why.rule == 3
