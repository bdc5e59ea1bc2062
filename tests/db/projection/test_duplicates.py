"""A repeated input changes nothing: it is acknowledged if a generation holds it, and quarantined if none does."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog
from django.test import Client
from prometheus_client import REGISTRY

from integration.ingress.policy import QuarantineCode
from integration.ingress.receipt_reads import QUARANTINE_SENTENCES, list_receipts
from integration.ingress.service import materialize_batch, materialize_ready
from integration.states import ReceiptState
from tests.support import admission, webhooks
from tests.support.admission import generations, inputs, listed, ranges, receipt, receive, reopen, unowned_inputs
from tests.support.work import change, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("P-07")]
MISSING = ("quarantined", "coverage_missing")
DONE = ("materialized", None)


@pytest.fixture
def pack_id() -> str:
    return admission.activate(admission.LISTS)


def membership() -> list[Any]:
    """Return every Event and WorkItem whole."""
    return [webhooks.rows("Event", "EventId"), webhooks.rows("WorkItem", "WorkId")]


def quarantined_count() -> float:
    return (
        REGISTRY.get_sample_value("lockhouse_ingress_quarantined_total", {"code": QuarantineCode.COVERAGE_MISSING}) or 0
    )


def lose_generations() -> None:
    """Remove the generations, as no statement of the program does."""
    change("DELETE FROM _System_ConnectorWorkItem")


@pytest.mark.parametrize("event_status", ["pending", "skipped", "processed", "dead"])
@pytest.mark.parametrize("state", ["pending", "processing", "retry", "succeeded", "dead", "cancelled"])
def test_duplicate__of_a_held_input__is_acknowledged_whatever_became_of_it(pack_id: str, state: str, event_status: str):
    receive(listed(("a", 1), ("b", 1)))
    materialize_batch(pack_id)
    change("UPDATE _System_ConnectorWorkItem SET State = %s, Attempt = %s", state, int(state != "pending"))
    change("UPDATE _System_ConnectorEvent SET Status = %s", event_status)
    before = membership()

    repeated = receive(listed(("b", 1), ("a", 1)))
    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count, dict(batch.placed)) == (1, 0, {})
    assert receipt(repeated) == DONE
    assert membership() == before


def test_duplicate__that_no_generation_holds__is_quarantined_counted_logged_and_shown(
    pack_id: str, admin_client: Client
):
    receive(listed(("a", 1)))
    materialize_batch(pack_id)
    lose_generations()
    before, counted = membership(), quarantined_count()

    repeated = receive(listed(("a", 1)))
    with structlog.testing.capture_logs() as logs:
        batch = materialize_batch(pack_id)

    assert (batch.count, dict(batch.quarantined)) == (0, {QuarantineCode.COVERAGE_MISSING: 1})
    assert receipt(repeated) == MISSING
    assert membership() == before
    assert quarantined_count() == counted + 1
    (event,) = before[0]
    assert [entry for entry in logs if entry["log_level"] == "error"] == [
        {
            "event": "projection.coverage_missing",
            "log_level": "error",
            "receipt_id": repeated,
            "event_id": event["EventId"],
        }
    ]
    (row,) = list_receipts(state=ReceiptState.QUARANTINED, cursor=None).rows
    assert (row.receipt_id, row.quarantine_code) == (repeated, "coverage_missing")
    assert row.quarantine_sentence == QUARANTINE_SENTENCES[QuarantineCode.COVERAGE_MISSING]
    page = admin_client.get("/receipts/", {"state": "quarantined"})
    assert page.status_code == 200
    assert "coverage_missing" in page.text


def test_duplicate__at_or_below_the_cutoff__is_acknowledged_and_above_it_is_not(pack_id: str):
    receive(listed(("a", 1), ("b", 1), ("c", 1)))
    materialize_batch(pack_id)
    lose_generations()
    change("UPDATE _System_ConnectorProjectionProtocol SET LegacyMaxOrdinal = 2")

    found = {}
    for item in "abc":
        one = receive(listed((item, 1)))
        materialize_batch(pack_id)
        found[item] = receipt(one)

    assert found == {"a": DONE, "b": DONE, "c": MISSING}


@pytest.mark.parametrize(
    ("change_of_rows", "expected"),
    [
        ("UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = NULL", MISSING),
        ("UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = 3", MISSING),
        ("UPDATE _System_ConnectorWorkItem SET LaneOrdinal = 1", MISSING),
        ("UPDATE _System_ConnectorWorkItem SET ProjectionKey = REPEAT('0', 64)", MISSING),
        ("UPDATE _System_ConnectorEvent SET LaneOrdinal = NULL WHERE LaneOrdinal = 2", DONE),
        ("UPDATE _System_ConnectorEvent SET SourceLane = 'deal:2' WHERE LaneOrdinal = 2", MISSING),
        ("DELETE FROM _System_ConnectorProjectionProtocol WHERE PackInstallId = %s", MISSING),
        ("UPDATE _System_ConnectorRoute SET ExecutionClass = 'per_event'", DONE),
    ],
    ids=[
        "no-start",
        "starts-after",
        "ends-before",
        "another-key",
        "no-ordinal",
        "another-lane",
        "no-cutoff",
        "per-event",
    ],
)
def test_coverage__is_the_interval_of_its_own_identity(pack_id: str, change_of_rows: str, expected: object):
    receive(listed(("a", 1), ("b", 1), ("c", 1)))
    materialize_batch(pack_id)
    newer = admission.activate(admission.LISTS, admission.NEWER)
    params = (pack_id,) if "%s" in change_of_rows else ()
    if expected == MISSING and "Protocol" in change_of_rows:
        lose_generations()
    change(change_of_rows, *params)
    webhooks.forget_all()

    repeated = receive(listed(("b", 1)))
    materialize_batch(newer)

    assert receipt(repeated) == expected


@pytest.mark.evidence("P-08")
def test_mixed__duplicate_and_fresh_inputs__leave_claimed_membership_alone(pack_id: str):
    receive(listed(("a", 1), ("b", 2), ("c", 1)))
    materialize_batch(pack_id)
    for row in generations():
        admission.claim_row(row["WorkId"])
    before = membership()

    mixed = receive(listed(("c", 1), ("d", 1), ("b", 2), ("a", 1), ("e", 2), ("d", 1), ("f", 3)))
    batch = materialize_batch(pack_id)

    assert (batch.event_count, receipt(mixed)) == (3, DONE)
    after = membership()
    for old, new in zip(before, after, strict=True):
        assert [row for row in new if row in old] == old
    assert [ranges(number) for number in (1, 2, 3)] == [
        [(1, 3, True), (4, 4, False)],
        [(2, 2, True), (5, 5, False)],
        [(6, 6, True)],
    ]
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-08")
def test_mixed__with_an_unclaimed_generation__extends_it_by_the_fresh_ones_only(pack_id: str):
    receive(listed(("a", 1), ("b", 1)))
    materialize_batch(pack_id)
    receive(listed(("b", 1), ("c", 1), ("a", 1)))
    receive(listed(("c", 1), ("d", 2), ("c", 1)))

    assert materialize_batch(pack_id).event_count == 2
    assert ranges() == [(1, 3, True), (4, 4, True)]
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-08")
def test_mixed__with_an_uncovered_duplicate__quarantines_that_receipt_whole_and_alone(pack_id: str):
    receive(listed(("a", 1)))
    receive(listed(("b", 2)))
    materialize_batch(pack_id)
    change("DELETE FROM _System_ConnectorWorkItem WHERE SourceLane = 'deal:1'")

    bad = receive(listed(("n", 3), ("a", 1)))
    good = receive(listed(("n", 3), ("b", 2)))
    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count) == (1, 1)
    assert (receipt(bad), receipt(good)) == (MISSING, DONE)
    # The item that both carry is admitted by the receipt that became work.
    assert [row["ReceiptId"] for row in webhooks.rows("Event") if row["LaneOrdinal"] == 3] == [good]


def test_duplicate__across_a_rotation__is_held_by_the_incarnation_that_admitted_it(pack_id: str):
    receive(listed(("a", 1)))
    materialize_ready()
    newer = admission.activate(admission.LISTS, admission.NEWER)
    repeated = receive(listed(("a", 1), ("b", 1)))

    assert materialize_batch(newer).event_count == 1
    assert receipt(repeated) == DONE
    assert [(row["PackInstallId"], row["InputStartOrdinal"]) for row in generations()] == [(pack_id, 1), (newer, 1)]


def test_duplicate__of_a_route_that_is_gone__is_not_acknowledged(pack_id: str):
    receive(listed(("a", 1)))
    materialize_batch(pack_id)
    change("UPDATE _System_ConnectorEvent SET RouteId = '00000000-0000-7000-8000-000000000000'")
    repeated = receive(listed(("a", 1)))
    materialize_batch(pack_id)
    assert receipt(repeated) == MISSING


@pytest.mark.evidence("P-22")
def test_duplicates__are_verified_by_one_statement_a_source(pack_id: str):
    counts = []
    # The first round also reads the route, which a process reads once.
    for name, count in (("w", 2), ("x", 2), ("y", 12)):
        items = [(f"{name}{number}", number % 2) for number in range(count)]
        receive(listed(*items))
        materialize_batch(pack_id)
        receive(listed(*items))
        with admission.counted_statements() as sent:
            assert materialize_batch(pack_id).event_count == 0
        counts.append(dict(sent))

    assert counts[1] == counts[2]
    expected = {"LIST_PROJECTION_PROTOCOLS": 1, "LIST_STORED_EVENTS": 1, "LIST_COVERING_STARTS": 2}
    assert {name: counts[1][name] for name in expected} == expected


@pytest.mark.evidence("P-12")
@pytest.mark.parametrize("claimed", [False, True])
def test_receipt__that_was_not_confirmed__is_idempotent_on_retry(claimed: bool):
    pack_id = admission.activate()
    taken = [*inputs(1, 1, 2), *inputs(1, 3, event=admission.PER_EVENT)]
    materialize_batch(pack_id)
    if claimed:
        for row in generations():
            admission.claim_row(row["WorkId"])
    before = membership()
    for one in taken[:3]:
        reopen(one)
    late = inputs(1)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.event_count) == (4, 1)
    assert {receipt(one) for one in (*taken, *late)} == {DONE}
    events = [row for row in webhooks.rows("Event", "EventId") if row["LaneOrdinal"] != 6]
    assert [row["EventId"] for row in events] == [row["EventId"] for row in before[0]]
    assert ranges(1) == ([(1, 2, True), (6, 6, False)] if claimed else [(1, 6, True)])
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-12")
@pytest.mark.django_db(transaction=True)
def test_receipt__of_per_event_work_that_was_not_confirmed__is_idempotent_too():
    pack_id = admission.activate()
    taken = [*inputs(1), *inputs(1, 2, event=admission.PER_EVENT)]
    materialize_batch(pack_id)
    before = membership()
    for one in taken:
        reopen(one)
    late = inputs(4, event=admission.PER_EVENT)

    batch = materialize_batch(pack_id)

    assert (batch.count, dict(batch.quarantined), batch.event_count) == (4, {}, 1)
    assert {receipt(one) for one in (*taken, *late)} == {DONE}
    after = membership()
    assert [len(rows) for rows in after] == [len(rows) + 1 for rows in before]


def test_body__of_a_duplicate__is_not_told_from_its_content(pack_id: str):
    """An item's id is its identity: another content under the same id repeats it and changes nothing."""
    receive(listed(("a", 1)))
    materialize_batch(pack_id)
    (before,) = query("SELECT PayloadHash FROM _System_ConnectorEvent")
    receive(json.dumps([{"event": "deal.created", "item": "a", "deal": {"id": 1, "stage": "new"}}]).encode())
    assert materialize_batch(pack_id).event_count == 0
    assert query("SELECT PayloadHash FROM _System_ConnectorEvent") == [before]
