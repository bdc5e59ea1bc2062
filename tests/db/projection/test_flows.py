"""The flow of a projection is given every input of its generation, reduced as its route declares, or it fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integration.catalog.documents import RouteRule
from integration.catalog.reads import forget_all
from integration.states import FailureClass
from integration.values import canonical_json
from integration.work import material
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim_next
from integration.work.execute import execute
from integration.work.finish import Ended
from integration.work.process import WorkerProcess, register_process
from tests.support import flows
from tests.support.projections import KIND, Source, active_keys
from tests.support.work import Pack, Row, change, event_row, insert, item_row

pytestmark = pytest.mark.django_db(transaction=True)

MERGE = {"by": "merge", "replay": "selected_only"}


def custom(name: str) -> Row:
    return {"by": "custom", "name": name, "version": 1, "replay": "selected_only"}


@pytest.fixture
def pack(db) -> Pack:
    forget_all()
    return Pack()


@pytest.fixture
def process(pack: Pack) -> WorkerProcess:
    return register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")


def route(pack: Pack, reduce: Row | None, flow: str = "tests.inputs") -> None:
    """Give the pack's route its definition, and the protocol without which no projection is claimed."""
    protocol = {"PackInstallId": pack.pack_id, "ProtocolVersion": 1, "LegacyMaxOrdinal": 0, "WrittenBy": "tests"}
    insert("_System_ConnectorProjectionProtocol", [{**protocol, "WrittenAt": datetime.now(UTC)}])
    rule = {
        "event": KIND,
        "version": 1,
        "execution": "source_projection",
        "flow": {"name": flow, "version": 1},
        "source_lane": "contact.id",
    }
    if reduce is not None:
        rule["reduce"] = reduce
    insert(
        "_System_ConnectorRoute",
        [
            {
                "RouteId": pack.route_id,
                "PackInstallId": pack.pack_id,
                "EventKind": KIND,
                "RouteVersion": 1,
                "Provider": "demo",
                "WorkType": "connector_event",
                "ExecutionClass": "source_projection",
                "FlowName": flow,
                "FlowVersion": "1",
                "Status": "live",
                "Definition": canonical_json(RouteRule.model_validate(rule).model_dump(mode="json")),
                "CreatedAt": datetime.now(UTC),
            }
        ],
    )


def take(process: WorkerProcess) -> Claim:
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    return claim


def given(file) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.evidence("P-05")
@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        (None, {"n": 3, "c": {"z": 3}}),
        ({"by": "last"}, {"n": 3, "c": {"z": 3}}),
        (MERGE, {"n": 3, "a": 1, "b": None, "c": {"x": 1, "y": 2, "z": 3}}),
    ],
    ids=["undeclared", "last", "merge"],
)
def test_flow__is_given_every_input_and_what_the_route_makes_of_them(pack, process, tmp_path, reduce, expected):
    route(pack, reduce)
    source, file = Source(pack=pack), tmp_path / "given"
    bodies: list[Row] = [
        {"n": 1, "a": 1, "b": 1, "c": {"x": 1, "y": 1}},
        {"n": 2, "b": None, "c": {"y": 2}},
        {"n": 3, "c": {"z": 3}},
    ]
    rows = [
        source.event({**body, "file": str(file)}, OccurredAt=source.now - timedelta(hours=place))
        for place, body in enumerate(bodies)
    ]
    work_id = source.generation(rows)
    assert execute(take(process)) is Ended.COMPLETE
    assert given(file) == [
        {
            "work_id": work_id,
            "event_id": rows[-1]["EventId"],
            "attempt": 1,
            "ordinals": [1, 2, 3],
            "numbers": [1, 2, 3],
            "payload": expected,
        }
    ]
    assert item_row(work_id)["State"] == "succeeded"


def test_flow__is_given_what_a_registered_reducer_returns(pack, process, monkeypatch):
    route(pack, custom("tests.sum"), flow="tests.incurious")
    work_id = Source(pack=pack, flow="tests.incurious").generation(count=4)
    seen: list[Any] = []
    monkeypatch.setattr(
        "integration.work.flows._registry",
        {("tests.incurious", "1"): lambda context: seen.append(dict(context.payload))},
    )
    assert execute(take(process)) is Ended.COMPLETE
    assert seen == [{"sum": 1 + 2 + 3 + 4}]
    assert item_row(work_id)["State"] == "succeeded"


def test_flow__of_per_event_work_has_no_inputs(pack, process, monkeypatch):
    pack.admit()
    seen: list[Any] = []
    monkeypatch.setattr(
        "integration.work.flows._registry", {("tests.noop", "1"): lambda context: seen.append(list(context.inputs))}
    )
    assert execute(take(process)) is Ended.COMPLETE
    assert seen == [[]]


@pytest.mark.evidence("P-05")
def test_flow__of_a_retried_generation_is_given_the_same_inputs(pack, process, tmp_path):
    route(pack, MERGE)
    source, file = Source(pack=pack), tmp_path / "given"
    source.generation([source.event({"n": n, "file": str(file), "end": "fail"}) for n in (1, 2)])
    source.generation([source.event({"n": 3, "file": str(file)})], active=False)
    assert execute(take(process), chance=lambda: 0.0) is Ended.RETRY
    change("UPDATE _System_ConnectorWorkItem SET RunAfter = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE State = 'retry'")
    assert execute(take(process), chance=lambda: 0.0) is Ended.RETRY
    first, second = given(file)
    assert first.pop("attempt") == 1
    assert second.pop("attempt") == 2
    assert first == second
    assert first["numbers"] == [1, 2]


def delete_first(rows: list[Row]) -> None:
    change("DELETE FROM _System_ConnectorEvent WHERE EventId = %s", rows[0]["EventId"])


def break_second(rows: list[Row]) -> None:
    change(
        "UPDATE _System_ConnectorEvent SET Payload = %s WHERE EventId = %s",
        event_row(rows[0]["EventId"])["Payload"],
        rows[1]["EventId"],
    )


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize("flow", ["tests.inputs", "tests.careless", "tests.incurious"])
@pytest.mark.parametrize("reduce", [None, {"by": "last"}, MERGE, custom("tests.sum")], ids=str)
def test_flow__whose_first_input_is_missing_never_ends_well(pack, process, flow, reduce, tmp_path):
    route(pack, reduce, flow)
    source, file = Source(pack=pack, flow=flow), tmp_path / "given"
    rows = [source.event({"n": n, "file": str(file)}) for n in (1, 2, 3)]
    work_id = source.generation(rows)
    delete_first(rows)
    assert execute(take(process)) is Ended.RETRY
    assert item_row(work_id)["FailureClass"] == FailureClass.INPUTS_MISSING
    assert not file.exists()
    # It is a failure like any other: attempts are bounded, and its end hands the key on.
    queued = source.generation(active=False)
    change(
        "UPDATE _System_ConnectorWorkItem SET MaxAttempts = 2, RunAfter = UTC_TIMESTAMP(6) WHERE WorkId = %s", work_id
    )
    assert execute(take(process)) is Ended.BURY
    assert item_row(work_id)["State"] == "dead"
    assert active_keys()[queued] == source.key


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize("flow", ["tests.inputs", "tests.careless"])
@pytest.mark.parametrize("reduce", [None, MERGE], ids=str)
def test_flow__whose_input_cannot_be_opened_never_ends_well(pack, process, flow, reduce):
    route(pack, reduce, flow)
    source = Source(pack=pack, flow=flow)
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows)
    break_second(rows)
    assert execute(take(process)) is Ended.RETRY
    assert item_row(work_id)["FailureClass"] == FailureClass.PAYLOAD_UNREADABLE


@pytest.mark.evidence("P-06")
def test_flow__that_swallows_a_missing_input_has_failed(pack, process, monkeypatch):
    route(pack, None, "tests.careless")
    source = Source(pack=pack, flow="tests.careless")
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows)

    def gone(context):
        delete_first(rows)
        flows.careless(context)

    monkeypatch.setattr("integration.work.flows._registry", {("tests.careless", "1"): gone})
    assert execute(take(process)) is Ended.RETRY
    assert item_row(work_id)["FailureClass"] == FailureClass.INPUTS_MISSING


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("tests.broken", FailureClass.FLOW_ERROR),
        ("tests.shapeless", FailureClass.FLOW_ERROR),
        ("tests.unheard_of", FailureClass.FLOW_UNKNOWN),
    ],
)
def test_reducer__that_fails_or_is_not_there_fails_the_execution(pack, process, name, failure):
    route(pack, custom(name))
    work_id = Source(pack=pack).generation(count=2)
    assert execute(take(process)) is Ended.RETRY
    row = item_row(work_id)
    assert row["FailureClass"] == failure
    assert "canary" not in row["FailureSummary"]


def test_outage__while_inputs_are_read_is_waited_for_and_costs_no_attempt(pack, process, monkeypatch, tmp_path):
    from django.db import OperationalError

    from integration.projection import inputs as reading

    route(pack, MERGE)
    source, file = Source(pack=pack), tmp_path / "given"
    work_id = source.generation([source.event({"n": n, "file": str(file)}) for n in (1, 2, 3)])
    claim = take(process)
    fetch_all = reading.db.Reader.fetch_all
    away = {"LIST_INPUTS": 2, "LIST_BOUNDS": 1, "READ_GENERATION": 1}

    def sometimes(self, statement, params=None):
        if away.get(statement.name, 0):
            away[statement.name] -= 1
            raise OperationalError(2006, "Server has gone away")
        return fetch_all(self, statement, params)

    monkeypatch.setattr(reading.db.Reader, "fetch_all", sometimes)
    waited: list[str] = []
    monkeypatch.setattr("integration.work.outage.Backoff.met", lambda self, error: waited.append(type(error).__name__))
    assert execute(claim) is Ended.COMPLETE
    assert len(waited) == 4
    assert given(file)[0]["numbers"] == [1, 2, 3]
    row = item_row(work_id)
    assert (row["State"], row["Attempt"], row["FailureCount"]) == ("succeeded", 1, 0)


def test_outage__that_outlasts_the_lease_abandons_the_execution(pack, process, monkeypatch):
    from django.db import OperationalError

    route(pack, MERGE)
    work_id = Source(pack=pack).generation(count=2)
    claim = take(process)

    def away(*args, **options):
        raise OperationalError(2006, "Server has gone away")

    monkeypatch.setattr(material, "open_inputs", away)
    with pytest.raises(OperationalError):
        execute(claim)
    assert item_row(work_id)["State"] == "processing"
