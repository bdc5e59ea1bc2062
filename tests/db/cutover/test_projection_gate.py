"""The activation gate: no projection is executed without its protocol row and the whole schema; other work goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from integration.projection.gate import ProjectionsNotActivated, may_project, require_activation
from integration.storage import db
from integration.storage.install import install_schema
from integration.storage.probe import capabilities
from integration.storage.schema import Vintage
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.families import CONNECTOR, EFFECT, Family, of_schema
from integration.work.finish import complete
from integration.work.options import Options
from integration.work.process import WorkerProcess, register_process
from integration.work.supervisor import Supervisor
from tests.support import admission
from tests.support.commands import run
from tests.support.old_projections import OldPack
from tests.support.sessions import default_of_vintage
from tests.support.work import Pack, change, item_row, query

pytestmark = pytest.mark.evidence("P-13")


def register(**over: Any) -> WorkerProcess:
    return register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests", **over)


def claimed(process: WorkerProcess, family: Family = CONNECTOR) -> list[str]:
    """Claim and end whatever this process can have; return the WorkIds."""
    found = []
    queue = CandidateQueue(process, family=family)
    while (claim := claim_next(process, queue)) is not None:
        complete(claim)
        found.append(claim.work_id)
    return found


def activate(pack: Pack, cutoff: int = 0) -> None:
    change(
        "INSERT INTO _System_ConnectorProjectionProtocol VALUES (%s, 1, %s, UTC_TIMESTAMP(6), 't')",
        pack.pack_id,
        cutoff,
    )


@pytest.mark.django_db
def test_gate__names_the_pack_the_row_and_the_command():
    pack = OldPack()
    with pytest.raises(ProjectionsNotActivated) as refused:
        require_activation()
    said = refused.value.operator_message()
    for part in (pack.pack_id, "_System_ConnectorProjectionProtocol", "connector-projection-cutover -pack-install-id"):
        assert part in said
    assert refused.value.exit_code == 3
    assert refused.value.data_fields["pack_install_ids"] == [pack.pack_id]
    activate(pack)
    require_activation()


@pytest.mark.django_db
@pytest.mark.parametrize("version", [0, 2])
def test_gate__takes_no_row_of_another_protocol(version: int):
    pack = OldPack()
    activate(pack)
    change("UPDATE _System_ConnectorProjectionProtocol SET ProtocolVersion = %s", version)
    with pytest.raises(ProjectionsNotActivated):
        require_activation()


@pytest.mark.django_db
def test_gate__asks_for_what_a_worker_would_execute():
    """Neither a pack that projects nothing, nor one of the Event executor, nor a retired one keeps a worker away."""
    Pack(namespace="plain").route()
    OldPack(namespace="events", direction=None)
    OldPack(namespace="rolled", direction="rollback")
    OldPack(namespace="old", status="retired")
    admission.activate()
    require_activation()
    OldPack(namespace="new")
    with pytest.raises(ProjectionsNotActivated):
        require_activation()


@pytest.mark.django_db
def test_work__process_wide__refuses_to_start():
    pack = OldPack()
    ended = run("work", "--until-idle")
    assert ended.code == 3
    assert pack.pack_id in ended.err
    assert query("SELECT 1 FROM _System_ConnectorClaimProcess") == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "options",
    [{"roles": frozenset({"claim"})}, {"roles": frozenset({"claim", "reap"}), "families": (EFFECT, CONNECTOR)}],
)
def test_supervisor__standalone__refuses_to_start(options: dict[str, Any]):
    OldPack()
    with pytest.raises(ProjectionsNotActivated):
        Supervisor(Options(**options)).run()
    assert query("SELECT 1 FROM _System_ConnectorClaimProcess") == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "options",
    [
        {"roles": frozenset({"materialize", "reap"})},
        {"roles": frozenset({"claim"}), "families": (EFFECT,)},
        {"per_event_only": True},
    ],
)
def test_supervisor__that_claims_no_projection__is_let_through(options: dict[str, Any]):
    OldPack()
    Options(**options).check_activation()


@pytest.mark.django_db
def test_claim__of_a_library_without_the_gate__leaves_projections_and_takes_the_rest():
    pack = OldPack()
    lane = pack.lane()
    (old,) = [lane.task(lane.event(), "pending", ProjectionActiveKey=lane.key)]
    behind = pack.admit(SourceLane=lane.lane)
    others = pack.admit(2, SourceLane="deal:1")

    assert claimed(register()) == others
    # What follows in the projection's lane keeps its order.
    assert {item_row(work_id)["State"] for work_id in (old, *behind)} == {"pending"}
    activate(pack)
    # What registered before stays as it was; a process that starts now takes them.
    assert claimed(register()) == [old, *behind]


@pytest.mark.django_db
def test_claim__per_event_only__leaves_projections_that_are_active():
    pack = OldPack()
    activate(pack)
    lane = pack.lane()
    lane.generation()
    others = pack.admit(2)
    assert claimed(register(per_event_only=True)) == others
    assert len(claimed(register())) == 1


@pytest.mark.django_db
def test_claim__of_a_retired_incarnation__needs_its_protocol_too():
    pack = OldPack(status="retired")
    lane = pack.lane()
    lane.task(lane.event(), "pending", ProjectionActiveKey=lane.key)
    assert claimed(register()) == []


@pytest.mark.django_db
def test_claim__of_a_pack_that_is_activated_meanwhile__is_not_refused():
    """The fence row is registered under the pack's lock, where an activation's rows are seen together."""
    process = register()
    assert claimed(process) == []
    pack_id = admission.activate()
    admission.inputs(1)
    from integration.ingress.service import materialize_ready

    materialize_ready()
    change("UPDATE _System_ConnectorWorkItem SET RunAfter = RunAfter - INTERVAL 60 SECOND")
    (row,) = admission.generations()
    assert row["PackInstallId"] == pack_id
    assert claimed(register()) == [row["WorkId"]]


@pytest.fixture(params=[Vintage.LEGACY, Vintage.ADDITIVE])
def vintage(request: Any, django_db_modify_db_settings: None, django_db_blocker: Any) -> Iterator[Vintage]:
    """Make a database of an older vintage the default one for a test."""
    with django_db_blocker.unblock(), default_of_vintage(request.param):
        yield request.param


def test_gate__on_an_older_schema__names_what_it_lacks_and_the_command(vintage: Vintage):
    pack = OldPack()
    with pytest.raises(ProjectionsNotActivated) as refused:
        require_activation()
    said = refused.value.operator_message()
    assert "_System_ConnectorWorkItem.InputStartOrdinal" in said
    assert ("_System_ConnectorWorkItem.ReplayOfWorkId" in said) is (vintage is Vintage.LEGACY)
    assert "install_schema" in said
    # A protocol row alone is not enough.
    activate(pack)
    with pytest.raises(ProjectionsNotActivated):
        require_activation()
    assert not may_project(db.read(), pack.pack_id, capabilities(fresh=True))


def test_gate__on_an_older_schema__lets_per_event_work_go_on(vintage: Vintage):
    pack = Pack()
    pack.route()
    items = pack.admit(3)
    require_activation()
    assert sorted(claimed(register(), of_schema(CONNECTOR, capabilities(fresh=True)))) == sorted(items)


def test_claim__on_an_older_schema__leaves_projections_and_takes_the_rest(vintage: Vintage):
    pack = OldPack()
    event = pack.event(SourceLane="contact:1")
    values = {"ProjectionKey": "a" * 64, "ProjectionActiveKey": "a" * 64, "SourceLane": "contact:1"}
    from tests.support.work import insert

    insert("_System_ConnectorWorkItem", [pack.item_values(event["EventId"], **values)])
    others = pack.admit(2)
    activate(pack)
    family = of_schema(CONNECTOR, capabilities(fresh=True))
    assert sorted(claimed(register(), family)) == sorted(others)


@pytest.mark.parametrize("missing", ["COLUMN InputStartOrdinal", "COLUMN ReplayOfWorkId", "KEY UX_WorkItem_ReplayOf"])
def test_gate__demands_the_whole_table(
    missing: str, django_db_modify_db_settings: None, django_db_blocker: Any, engine: str
):
    """Whatever a schema lost: each is named, and supplied by the same command."""
    with django_db_blocker.unblock(), default_of_vintage(Vintage.CURRENT):
        if missing.endswith("ReplayOfWorkId"):
            change("ALTER TABLE _System_ConnectorWorkItem DROP KEY UX_WorkItem_ReplayOf")
        if missing.endswith("InputStartOrdinal"):
            change("ALTER TABLE _System_ConnectorWorkItem DROP KEY IX_WorkItem_LanePosition")
            change("ALTER TABLE _System_ConnectorWorkItem DROP COLUMN LanePosition")
        change(f"ALTER TABLE _System_ConnectorWorkItem DROP {missing}")
        activate(OldPack())
        with pytest.raises(ProjectionsNotActivated) as refused:
            require_activation()
        assert f"_System_ConnectorWorkItem.{missing.split()[1]}" in refused.value.operator_message()
        install_schema(connections["default"])
        require_activation()
