"""Every settled input is admitted into exactly one generation, with an ordinal that nobody had."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from prometheus_client import REGISTRY

from integration.ingress.materialize import START, materialize_page, read_page
from integration.ingress.policy import QuarantineCode
from integration.ingress.service import materialize_batch, materialize_ready
from integration.projection.admission import OrdinalsExhausted, Place
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.storage import db
from integration.storage.locks import lock_pack
from integration.storage.sql import packs
from integration.storage.statements import LockRank
from tests.support import admission, webhooks
from tests.support.admission import PER_EVENT, event_at, generations, inputs, ranges, receive, unowned_inputs
from tests.support.work import change, query

pytestmark = pytest.mark.django_db
#: A newer document with the next version of the projection's route.
NEXT = (admission.NEWER, ("- event: deal.created\n    version: 1", "- event: deal.created\n    version: 2"))


@pytest.fixture
def pack_id() -> str:
    return admission.activate()


def next_ordinal(pack_id: str) -> int:
    (row,) = query("SELECT NextLaneOrdinal FROM _System_ConnectorPackInstall WHERE PackInstallId = %s", pack_id)
    return int(row["NextLaneOrdinal"])


@pytest.mark.evidence("P-01")
def test_admit__an_input__becomes_an_active_generation(pack_id: str):
    inputs(7)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count, dict(batch.placed)) == (1, 1, {Place.ACTIVATED: 1})
    (generation,), event = generations(), event_at(1)
    key = ProjectionIdentity(
        pack_install_id=pack_id,
        event_kind="deal.created",
        route_version=1,
        companion_pack_name=None,
        companion_pack_version=None,
        flow_name="demo.apply_deal",
        flow_version="1",
        work_type="connector_event",
        source_lane="deal:7",
    ).key()
    expected = {
        "SubjectKind": "projection",
        "SubjectId": key,
        "ProjectionKey": key,
        "ProjectionActiveKey": key,
        "SourceScopeKey": SourceScope(namespace="demo", event_kind="deal.created", source_lane="deal:7").key(),
        "InputStartOrdinal": 1,
        "LaneOrdinal": 1,
        "EventId": event["EventId"],
        "State": "pending",
        "Attempt": 0,
        "MaxAttempts": 3,
        "OwnerGeneration": 1,
        "TargetLane": "deal:7",
        "TargetLaneActiveKey": None,
    }
    assert {name: generation[name] for name in expected} == expected
    assert (event["Status"], event["ExecutionOwner"], event["TerminalAt"]) == ("pending", "event", None)


@pytest.mark.evidence("P-02")
def test_admit__a_batch__keeps_the_minimum_ordinal_of_each_identity(pack_id: str):
    inputs(1, 2, 1, 3, 2, 1)

    batch = materialize_batch(pack_id)

    assert (batch.event_count, dict(batch.placed)) == (6, {Place.ACTIVATED: 3})
    assert [ranges(number) for number in (1, 2, 3)] == [[(1, 6, True)], [(2, 5, True)], [(4, 4, True)]]
    found = [(row["LaneOrdinal"], row["Status"]) for row in webhooks.rows("Event", "LaneOrdinal")]
    assert found == [(1, "skipped"), (2, "skipped"), (3, "skipped"), (4, "pending"), (5, "pending"), (6, "pending")]
    skipped = query("SELECT TerminalAt FROM _System_ConnectorEvent WHERE Status = 'skipped'")
    assert all(isinstance(row["TerminalAt"], datetime) for row in skipped)
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-01", "P-02")
def test_admit__several_batches__put_every_input_in_one_generation(pack_id: str):
    for batch in ((1, 1, 2), (2, 3), (1,), (3, 3, 1)):
        inputs(*batch)
        materialize_batch(pack_id)

    assert [ranges(number) for number in (1, 2, 3)] == [[(1, 9, True)], [(3, 4, True)], [(5, 8, True)]]
    assert unowned_inputs() == {}
    # The invariant's own check sees a lost and a doubled input.
    change("UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = 2 WHERE SourceLane = 'deal:1'")
    assert unowned_inputs() == {"nobody's": [(pack_id, "deal.created", 1)]}
    change("UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = 1 WHERE SourceLane = 'deal:1'")


@pytest.mark.evidence("P-11")
def test_admit__a_mixed_batch__leaves_per_event_work_out_of_the_range(pack_id: str):
    inputs(1)
    inputs(1, event=PER_EVENT)
    inputs(1)
    inputs(1, event=PER_EVENT)
    inputs(1)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count) == (5, 5)
    (generation,) = generations()
    assert ranges() == [(1, 5, True)]
    assert admission.members(generation) == [1, 3, 5]
    per_event = query("SELECT * FROM _System_ConnectorWorkItem WHERE ProjectionKey IS NULL ORDER BY LaneOrdinal")
    assert [(row["LaneOrdinal"], row["InputStartOrdinal"], row["SubjectKind"]) for row in per_event] == [
        (2, None, "event"),
        (4, None, "event"),
    ]
    assert {event_at(ordinal)["Status"] for ordinal in (2, 4)} == {"pending"}
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-11")
def test_admit__another_route_version_and_incarnation__is_another_range(pack_id: str):
    inputs(1, 1)
    materialize_ready()
    newer = admission.activate(*NEXT)
    inputs(1)
    materialize_ready()

    found = {(row["PackInstallId"], row["InputStartOrdinal"], row["LaneOrdinal"]) for row in generations()}
    assert found == {(pack_id, 1, 2), (newer, 1, 1)}
    assert len({row["ProjectionActiveKey"] for row in generations()}) == 2
    assert len({row["SourceScopeKey"] for row in generations()}) == 1
    assert unowned_inputs() == {}


def test_admit__per_event_work__sends_the_same_statements_as_without_projections():
    counts = []
    for activate in (webhooks.activate, lambda: admission.activate(*NEXT)):
        pack_id = activate()
        inputs(1, 2, 3, event=PER_EVENT)
        with admission.counted_statements() as sent:
            assert materialize_batch(pack_id).count == 3
        counts.append(dict(sent))
    assert counts[0] == counts[1]
    assert not set(counts[0]) & {"LIST_PROJECTION_PROTOCOLS", "LIST_ACTIVE_GENERATIONS", "LIST_STORED_EVENTS"}


@pytest.mark.evidence("P-22")
@pytest.mark.parametrize("sources", [1, 5])
def test_admit__works_per_affected_source_and_reads_the_protocol_once(pack_id: str, sources: int):
    counts = []
    for per_source in (2, 6):
        inputs(*(range(1, sources + 1)), *(list(range(1, sources + 1)) * (per_source - 1)))
        with admission.counted_statements() as sent:
            assert materialize_batch(pack_id).event_count == sources * per_source
        counts.append(dict(sent))
        for row in generations():
            if row["State"] == "pending":
                admission.claim_row(row["WorkId"])
                admission.end_row(row["WorkId"])

    # Three times the inputs, and not one statement more.
    assert counts[0] == counts[1]
    assert counts[0]["LIST_PROJECTION_PROTOCOLS"] == 1
    assert counts[0]["LIST_ACTIVE_GENERATIONS"] == counts[0]["INSERT_GENERATIONS"] == 1
    assert counts[0]["FIND_NEWEST_OF_PROJECTION"] == sources
    assert sum(counts[0].values()) <= 20 + sources


@pytest.mark.evidence("P-22")
def test_admit__an_extension__is_one_swap_a_source(pack_id: str):
    inputs(1, 2, 3)
    materialize_batch(pack_id)
    inputs(1, 1, 2, 1)

    with admission.counted_statements() as sent:
        assert dict(materialize_batch(pack_id).placed) == {Place.EXTENDED: 2}

    expected = {
        "LIST_PROJECTION_PROTOCOLS": 1,
        "LIST_ACTIVE_GENERATIONS": 1,
        "FIND_NEWEST_OF_PROJECTION": 2,
        "LOCK_SELECTED_EVENTS": 1,
        "LOCK_GENERATIONS": 1,
        "EXTEND_GENERATION": 2,
        "SKIP_SUPERSEDED_EVENTS": 1,
        "INSERT_GENERATIONS": 0,
    }
    assert {name: sent[name] for name in expected} == expected


def test_admit__locks_pack_receipt_event_work_item(pack_id: str, monkeypatch: pytest.MonkeyPatch):
    from integration.ingress import materialize

    traces: list[list[LockRank]] = []
    advance = materialize.advance_ordinals

    def trace(pack, first, count):
        traces.append(list(pack.tx.lock_trace))
        advance(pack, first, count)

    monkeypatch.setattr(materialize, "advance_ordinals", trace)
    for _ in range(2):
        inputs(1)
        materialize_batch(pack_id)
    ranks = LockRank
    assert traces == [
        [ranks.PACK, ranks.RECEIPT],
        [ranks.PACK, ranks.RECEIPT, ranks.EVENT, ranks.WORK_ITEM],
    ]


def body(deal: object) -> bytes:
    return json.dumps({"event": "deal.created", "deal": deal}).encode()


LANE = ("\"deal.id && join(':', ['deal', to_string(deal.id)])\"", "deal.id")


@pytest.mark.parametrize(
    ("deal", "code"),
    [
        ({}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": None}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": ""}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": ["x"]}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": True}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": "a\x00b"}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": "\ud800"}, QuarantineCode.SOURCE_LANE_UNRESOLVED),
        ({"id": "x" * 256}, QuarantineCode.LANE_TOO_LONG),
        ({"id": "x" * 10_240}, QuarantineCode.LANE_TOO_LONG),
        ({"id": "é" * 255}, None),
        ({"id": "x" * 255}, None),
        ({"id": 2**70}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_admit__a_lane_that_is_none__quarantines_its_receipt_alone(deal: object, code: QuarantineCode | None):
    pack_id = admission.activate(LANE)
    bad = receive(body(deal))
    good = receive(body({"id": "ok"}))

    materialize_batch(pack_id)

    assert admission.receipt(bad) == (("materialized", None) if code is None else ("quarantined", code.value))
    assert admission.receipt(good) == ("materialized", None)
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-04")
def test_ordinals__near_their_end__are_refused_clearly_and_nothing_is_lost(pack_id: str):
    largest = 2**63 - 1
    change("UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s", largest - 2)
    first = inputs(1, 1)
    assert materialize_batch(pack_id).event_count == 2
    assert ranges() == [(largest - 2, largest - 1, True)]
    assert next_ordinal(pack_id) == largest

    late = inputs(1)
    with pytest.raises(OrdinalsExhausted, match="no ordinals left"):
        materialize_batch(pack_id)
    before = (
        REGISTRY.get_sample_value("lockhouse_ingress_materializer_errors_total", {"code": "ordinals_exhausted"}) or 0
    )
    assert materialize_ready() == 0
    assert (
        REGISTRY.get_sample_value("lockhouse_ingress_materializer_errors_total", {"code": "ordinals_exhausted"})
        == before + 1
    )
    assert [admission.receipt(one)[0] for one in (*first, *late)] == ["materialized", "materialized", "received"]
    assert ranges() == [(largest - 2, largest - 1, True)]
    assert next_ordinal(pack_id) == largest


@pytest.mark.evidence("P-04")
@pytest.mark.django_db(transaction=True)
def test_ordinals__of_a_rolled_back_batch__were_never_visible(monkeypatch: pytest.MonkeyPatch):
    from integration.ingress import materialize

    pack_id = admission.activate()
    inputs(1, 2)
    materialize_batch(pack_id)
    inputs(1, 3)
    seen: list[list[int]] = []

    def fail(name: str) -> None:
        if name == "materialize.before_commit":
            seen.append([row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")])
            raise ZeroDivisionError

    monkeypatch.setattr(materialize, "failpoint", fail)
    with pytest.raises(ZeroDivisionError):
        materialize_batch(pack_id)
    assert seen == [[1, 2, 3, 4]]
    assert [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")] == [1, 2]
    assert next_ordinal(pack_id) == 3
    monkeypatch.undo()
    materialize_batch(pack_id)
    assert [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")] == [1, 2, 3, 4]
    assert next_ordinal(pack_id) == 5
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-04", "P-25")
def test_ordinals__after_deletes__are_not_reused(pack_id: str):
    inputs(1, 2, 3)
    materialize_batch(pack_id)
    # No program statement deletes them; even so, the counter does not look at what is there.
    change("DELETE FROM _System_ConnectorWorkItem")
    change("DELETE FROM _System_ConnectorEvent")
    inputs(1)
    materialize_batch(pack_id)

    assert [row["LaneOrdinal"] for row in webhooks.rows("Event")] == [4]
    assert ranges() == [(4, 4, True)]
    assert next_ordinal(pack_id) == 5


@pytest.mark.evidence("P-04", "P-25")
@pytest.mark.parametrize(("expected", "following", "changed"), [(4, 5, 1), (4, 4, 0), (4, 3, 0), (4, 1, 0), (3, 5, 0)])
def test_counter__is_never_lowered(pack_id: str, expected: int, following: int, changed: int):
    inputs(1, 2, 3)
    materialize_batch(pack_id)
    step = {"pack_install_id": pack_id, "expected_lane_ordinal": expected, "next_lane_ordinal": following}

    def advance(tx: db.Tx) -> int:
        lock_pack(tx, pack_id)
        return tx.execute(packs.ADVANCE_LANE_ORDINAL, step)

    assert db.run(advance, name="test") == changed
    assert next_ordinal(pack_id) == (5 if changed else 4)


def test_admit__after_the_clock_jumped_back__keeps_every_input_in_one_range(pack_id: str):
    """A receipt of an earlier time than those before it: its place is its ordinal, which no clock gives."""
    for _ in range(2):
        inputs(1)
        materialize_batch(pack_id)
    late = inputs(1, 1)
    change(
        "UPDATE _System_ConnectorIngressReceipt SET ReceivedAt = ReceivedAt - INTERVAL 1 DAY WHERE ReceiptId IN %s",
        tuple(late),
    )
    assert materialize_batch(pack_id).count == 2
    assert ranges() == [(1, 4, True)]
    assert unowned_inputs() == {}


def nested(levels: int) -> bytes:
    return b'{"event": "deal.created", "deal": {"id": 1}, "x": ' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (nested(100), None),
        (nested(100_000), QuarantineCode.BODY_NOT_JSON),
        (b'{"event": "deal.created", "deal": {"id": "\xff"}}', QuarantineCode.BODY_NOT_JSON),
        (b'{"event": "deal.created", "deal": {"id": NaN}}', QuarantineCode.BODY_NOT_JSON),
        (b"", QuarantineCode.BODY_NOT_JSON),
    ],
    ids=["nested-100", "nested-100000", "not-utf8", "nan", "empty"],
)
def test_admit__a_body_that_cannot_be_read__is_put_aside_alone(pack_id: str, raw: bytes, code: QuarantineCode | None):
    bad = receive(raw)
    (good,) = inputs(2)
    materialize_batch(pack_id)

    assert admission.receipt(bad) == (("materialized", None) if code is None else ("quarantined", code.value))
    assert admission.receipt(good) == ("materialized", None)
    assert unowned_inputs() == {}


def test_admit__a_repeated_key_in_the_body__is_read_the_same_way_everywhere(pack_id: str):
    """JSON leaves it open; here the last one counts, for the kind and the lane as for the payload."""
    receive(b'{"event": "deal.updated", "event": "deal.created", "deal": {"id": 1}, "deal": {"id": 2}}')
    materialize_batch(pack_id)
    assert (ranges(1), ranges(2)) == ([], [(1, 1, True)])


def test_admit__without_a_cutoff__holds_the_inputs_and_admits_the_rest(pack_id: str):
    change("DELETE FROM _System_ConnectorProjectionProtocol")
    held = inputs(1)
    (taken,) = inputs(1, event=PER_EVENT)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.held) == (1, 1)
    assert [admission.receipt(one)[0] for one in (*held, taken)] == ["received", "materialized"]
    assert generations() == []


@pytest.mark.parametrize(("version", "cutoff"), [(2, 0), (1, 9)])
def test_admit__under_a_protocol_that_is_not_this_ones__holds_the_inputs(pack_id: str, version: int, cutoff: int):
    change(
        "UPDATE _System_ConnectorProjectionProtocol SET ProtocolVersion = %s, LegacyMaxOrdinal = %s", version, cutoff
    )
    inputs(1)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.held) == (0, 1)
    assert webhooks.rows("Event") == []


def test_admit__a_page_that_another_took__is_passed_over(pack_id: str):
    inputs(1)
    page = read_page(pack_id, 10, START)
    assert page is not None

    assert [materialize_page(page).event_count for _ in range(2)] == [1, 0]
    assert ranges() == [(1, 1, True)]
