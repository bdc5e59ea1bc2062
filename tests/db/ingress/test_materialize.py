"""Receipts to Events and WorkItems: one pack transaction, in order, poison put aside."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, connections
from django.test import Client

from integration import errors
from integration.ingress import crypto, materialize, service
from integration.ingress.policy import QuarantineCode
from integration.ingress.reads import read_backlog
from integration.ingress.service import materialize_batch, materialize_ready
from integration.projection.admission import LARGEST_ORDINAL
from integration.storage import db, locks
from integration.storage.sql import work_items
from integration.storage.statements import LockRank
from integration.values import new_id
from tests.support import webhooks

pytestmark = pytest.mark.django_db


@pytest.fixture
def pack_id() -> str:
    return webhooks.activate()


def post(*bodies: bytes) -> None:
    for number, body in enumerate(bodies):
        assert webhooks.post(Client(), body, delivery_id=f"{number}-{new_id()}").status_code == 200


def states() -> list[tuple[str, str | None]]:
    return [(row["State"], row["QuarantineCode"]) for row in webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")]


def write(sql: str, *params: Any) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, params)


def arm(scope: str, *, seconds: int | None = None, namespace: str = "demo", lifted: bool = False) -> str:
    fence_id = new_id()
    now = datetime.now(UTC).replace(tzinfo=None)
    expires = None if seconds is None else now + timedelta(seconds=seconds)
    write(
        "INSERT INTO _System_ConnectorAdmissionFence (FenceId, Namespace, Scope, ExpiresAt, ArmedAt, ArmedBy, Reason,"
        " LiftedAt) VALUES (%s, %s, %s, %s, %s, 'test', 'test', %s)",
        *(fence_id, namespace, scope, expires, now, now if lifted else None),
    )
    return fence_id


def test_materialize__a_receipt__becomes_an_event_and_a_pending_work_item(pack_id: str):
    body = webhooks.deal(7)
    post(body)
    batch = materialize_batch(pack_id)
    assert (batch.count, batch.event_count, dict(batch.quarantined), batch.held) == (1, 1, {}, 0)
    (receipt,), (event,), (item,) = (webhooks.rows(name) for name in ("IngressReceipt", "Event", "WorkItem"))
    assert (receipt["State"], receipt["MaterializedPackInstallId"]) == ("materialized", pack_id)
    assert (event["ExecutionOwner"], event["Status"], event["LaneOrdinal"]) == ("event", "pending", 1)
    assert (event["ReceiptId"], event["ReceiptIndex"]) == (receipt["ReceiptId"], 0)
    assert event["OccurredAt"] == datetime(2026, 11, 29, 18, 0, 0, 250_000)  # noqa: DTZ001 - as the column has it
    aad = crypto.row_aad(crypto.SealedColumn.EVENT_PAYLOAD, event["EventId"])
    assert crypto.open_sealed(event["Payload"], aad) == body
    assert json.loads(event["RouteSnapshot"])["flow"] == {"name": "demo.apply_deal", "version": 1}
    expected = {
        "State": "pending",
        "Attempt": 0,
        "MaxAttempts": 3,
        "OwnershipEpoch": 0,
        "OwnerGeneration": 1,
        "WorkFamily": "connector",
        "WorkType": "connector_event",
        "SubjectKind": "event",
        "SubjectId": event["EventId"],
        "FlowName": "demo.apply_deal",
        "FlowVersion": "1",
        "QueueClass": "default",
        "SourceLane": "deal:7",
        "TargetLane": "deal:7",
        "LaneOrdinal": 1,
        "ProjectionKey": None,
        "ProjectionActiveKey": None,
        "TargetLaneActiveKey": None,
        "CatalogRevision": 1,
        "CatalogDigest": webhooks.pack().digest(),
    }
    assert {name: item[name] for name in expected} == expected
    assert item["RunAfter"] == item["CreatedAt"]


def test_materialize__a_backlog__keeps_the_order_of_arrival_and_never_reuses_an_ordinal(pack_id: str):
    post(*(webhooks.deal(number) for number in range(7)))
    assert read_backlog("demo").count == 7
    assert materialize_ready(limit=3) == 7
    assert materialize_ready() == 0
    found = [(row["LaneOrdinal"], row["SourceLane"]) for row in webhooks.rows("Event", "LaneOrdinal")]
    assert found == [(number + 1, f"deal:{number}") for number in range(7)]
    (pack,) = webhooks.rows("PackInstall")
    assert pack["NextLaneOrdinal"] == 8
    backlog = read_backlog("demo")
    assert (backlog.count, backlog.is_capped, backlog.oldest_age_seconds) == (0, False, None)


def test_materialize__poison__is_quarantined_beside_the_others(pack_id: str):
    no_lane = json.dumps({"event": "deal.created", "deal": {}}).encode()
    unprintable = webhooks.deal("a\nb")  # type: ignore[arg-type]
    surrogate = b'{"event": "deal.created", "deal": {"id": "\\ud800"}}'
    bodies = (
        webhooks.deal(1),
        b"{",
        webhooks.deal(event="deal.exploded"),
        no_lane,
        unprintable,
        surrogate,
        webhooks.deal(event="a b"),
        webhooks.deal(2),
    )
    post(*bodies)
    batch = materialize_batch(pack_id)
    assert (batch.count, batch.event_count) == (2, 2)
    assert states() == [
        ("materialized", None),
        ("quarantined", "body_not_json"),
        ("quarantined", "route_not_live"),
        ("quarantined", "lane_unresolved"),
        ("quarantined", "lane_unresolved"),
        ("quarantined", "lane_unresolved"),
        ("quarantined", "event_kind_unresolved"),
        ("materialized", None),
    ]
    assert [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")] == [1, 2]


def test_materialize__a_body_that_was_changed_or_moved__is_quarantined(pack_id: str):
    post(webhooks.deal(1), webhooks.deal(2))
    first, second = webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")
    for ours, theirs in ((first, second), (second, first)):
        write(
            "UPDATE _System_ConnectorIngressReceipt SET Body = %s WHERE ReceiptId = %s",
            *(theirs["Body"], ours["ReceiptId"]),
        )
    assert materialize_batch(pack_id).quarantined == {QuarantineCode.BODY_UNREADABLE: 2}


def test_materialize__without_the_key__holds_the_receipt(pack_id: str, settings: Any):
    post(webhooks.deal())
    ring = settings.LOCKHOUSE_PAYLOAD_KEYS
    settings.LOCKHOUSE_PAYLOAD_KEYS = "other:" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    assert materialize_batch(pack_id).held == 1
    assert states() == [("received", None)]
    settings.LOCKHOUSE_PAYLOAD_KEYS = f"other:{ring.partition(':')[2]},{ring}"
    assert materialize_batch(pack_id).count == 1


@pytest.mark.parametrize("scope", ["*", "deal.created"])
def test_materialize__an_armed_fence__stops_it_and_never_the_receipt(pack_id: str, scope: str):
    fence_id = arm(scope)
    post(webhooks.deal(1), webhooks.deal(2, event="deal.updated"))
    assert materialize_ready(limit=1) == (1 if scope != "*" else 0)
    assert states()[0] == ("received", None)
    write("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6) WHERE FenceId = %s", fence_id)
    materialize_ready()
    assert states() == [("materialized", None)] * 2


@pytest.mark.parametrize("scope", ["*", "deal.created"])
def test_materialize__an_override__lets_its_scope_through(pack_id: str, scope: str):
    write(
        "INSERT INTO _System_ConnectorAdmissionOverride (OverrideId, FenceId, Scope, GrantedAt, GrantedBy, Reason)"
        " VALUES (%s, %s, %s, UTC_TIMESTAMP(6), 'test', 'test')",
        *(new_id(), arm("*"), scope),
    )
    post(webhooks.deal(1), webhooks.deal(2, event="deal.updated"))
    assert materialize_ready() == (2 if scope == "*" else 1)


def test_materialize__a_fence_that_is_over_or_elsewhere__stops_nothing(pack_id: str):
    arm("*", seconds=-5)
    arm("*", lifted=True)
    arm("*", namespace="sales")
    arm("deal.updated")
    post(webhooks.deal())
    assert materialize_ready() == 1


def test_materialize__under_the_pack_that_is_active_then(pack_id: str):
    post(webhooks.deal(1))
    newer = webhooks.activate(webhooks.variant("demo", ('version: "1.0.0"', 'version: "1.0.1"')))
    assert materialize_batch(pack_id).count == 0
    assert materialize_ready() == 1
    (receipt,), (event,) = webhooks.rows("IngressReceipt"), webhooks.rows("Event")
    assert (receipt["PackInstallId"], receipt["MaterializedPackInstallId"]) == (pack_id, newer)
    assert (event["PackInstallId"], event["LaneOrdinal"]) == (newer, 1)


def test_materialize__a_pack_retired_after_the_page_was_read__takes_nothing(pack_id: str):
    post(webhooks.deal(1))
    page = materialize.read_page(pack_id, 10, materialize.START)
    assert page is not None
    webhooks.activate(webhooks.variant("demo", ('version: "1.0.0"', 'version: "1.0.1"')))
    assert materialize.materialize_page(page).count == 0
    assert states() == [("received", None)]


def test_materialize__for_a_pack_whose_work_was_never_handed_over__mirrors_what_its_executor_runs(pack_id: str):
    write("DELETE FROM _System_ConnectorCutoverReceipt")
    post(webhooks.deal())
    assert materialize_ready() == 1
    (event,), (item,) = webhooks.rows("Event"), webhooks.rows("WorkItem")
    assert (event["ExecutionOwner"], event["Status"]) == ("event", "pending")
    assert (item["EventId"], item["State"], item["Attempt"]) == (event["EventId"], "pending", 0)
    assert item["OwnerGeneration"] == 1, "the one that its first receipt will have"


def test_materialize__a_page_that_another_took__is_passed_over(pack_id: str):
    post(webhooks.deal(1))
    page = materialize.read_page(pack_id, 10, materialize.START)
    assert page is not None
    assert materialize.materialize_page(page).count == 1
    assert materialize.materialize_page(page).count == 0
    assert len(webhooks.rows("WorkItem")) == 1


LISTS = (
    ("    event_kind: event\n", "    event_kind: event\n    items: {value: '@', id: item}\n"),
    ('version: "1.0.0"', 'version: "2.0.0"'),
)


def listed(*items: tuple[str, int]) -> bytes:
    return json.dumps([{"event": "deal.created", "item": item, "deal": {"id": deal}} for item, deal in items]).encode()


@pytest.mark.evidence("O-04")
def test_materialize__a_list__gives_one_event_an_item_and_knows_items_it_had(pack_id: str):
    pack_id = webhooks.activate(webhooks.variant("demo", *LISTS))
    post(listed(("a", 1), ("b", 2), ("a", 1)), listed(("b", 2), ("c", 3)))
    batch = materialize_batch(pack_id)
    assert (batch.count, batch.event_count) == (2, 3)
    post(listed(("c", 3)))
    assert materialize_batch(pack_id).event_count == 0
    found = [(row["ReceiptIndex"], row["SourceLane"]) for row in webhooks.rows("Event", "LaneOrdinal")]
    assert found == [(0, "deal:1"), (1, "deal:2"), (1, "deal:3")]
    post(b"[]", b"[1]", b"{}")
    assert materialize_batch(pack_id).quarantined == {QuarantineCode.ITEM_COUNT: 2, QuarantineCode.BODY_NOT_OBJECT: 1}


@pytest.mark.django_db(transaction=True)
def test_materialize__an_event_of_another_writer__quarantines_only_its_receipt():
    pack_id = webhooks.activate()
    post(*(webhooks.deal(number) for number in range(3)))
    second = webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")[1]
    now = datetime.now(UTC).replace(tzinfo=None)
    write(
        "INSERT INTO _System_ConnectorEvent (EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, Provider,"
        " EventKind, WorkType, IdempotencyKey, ReceiptId, ReceiptIndex, Payload, PayloadHash, ReceivedAt)"
        " VALUES (%s, %s, 'demo', %s, %s, 1, 'p', 'deal.created', 'connector_event', 'theirs', %s, 0, 'x', %s, %s)",
        *(new_id(), webhooks.ORG, new_id(), new_id(), second["ReceiptId"], "0" * 64, now),
    )
    batch = service.materialize_batch(pack_id)
    assert (batch.count, dict(batch.quarantined)) == (2, {QuarantineCode.EVENT_CONFLICT: 1})
    assert [state for state, _ in states()] == ["materialized", "quarantined", "materialized"]
    assert sorted(row["LaneOrdinal"] for row in webhooks.rows("Event") if row["LaneOrdinal"]) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_materialize__when_a_work_item_cannot_be_stored__nothing_of_it_is(monkeypatch: pytest.MonkeyPatch):
    pack_id = webhooks.activate()
    post(webhooks.deal())
    execute_many = db.Tx.execute_many

    def fail(self: db.Tx, statement: Any, rows: Any) -> int:
        if statement is work_items.INSERT_WORK_ITEMS:
            raise ZeroDivisionError
        return execute_many(self, statement, rows)

    monkeypatch.setattr(db.Tx, "execute_many", fail)
    with pytest.raises(ZeroDivisionError):
        materialize_batch(pack_id)
    assert states() == [("received", None)]
    assert webhooks.rows("Event") == []
    (pack,) = webhooks.rows("PackInstall")
    assert pack["NextLaneOrdinal"] == 1


def test_materialize__locks_the_pack_then_the_receipts(pack_id: str, monkeypatch: pytest.MonkeyPatch):
    traces: list[list[LockRank]] = []
    lock_receipts = locks.lock_receipts

    def trace(pack: Any, ids: Any) -> Any:
        found = lock_receipts(pack, ids)
        traces.append(pack.tx.lock_trace)
        return found

    monkeypatch.setattr(materialize, "lock_receipts", trace)
    post(webhooks.deal())
    materialize_batch(pack_id)
    assert traces == [[LockRank.PACK, LockRank.RECEIPT]]


def test_materialize__one_packs_trouble__does_not_stop_anothers(pack_id: str):
    webhooks.activate(webhooks.pack("outreach"))
    post(webhooks.deal())
    client = Client()
    assert webhooks.post(client, webhooks.prospect_updated(), "outreach", delivery_id="o").status_code == 200
    no_ordinal_left = "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s WHERE PackInstallId = %s"
    write(no_ordinal_left, LARGEST_ORDINAL, pack_id)
    assert materialize_ready() == 1
    assert sorted(states()) == [("materialized", None), ("received", None)]


def test_store__a_child_key_space__is_never_met_by_a_delivery(pack_id: str):
    post(webhooks.deal())
    materialize_ready()
    (event,) = webhooks.rows("Event")
    assert len(event["IdempotencyKey"]) == 64
    assert not event["IdempotencyKey"].startswith("replay:")
    with pytest.raises(IntegrityError):
        write(
            "UPDATE _System_ConnectorIngressReceipt SET IdempotencyKey = NULL WHERE Namespace = %s",
            settings.DATABASES and "demo",
        )


@pytest.mark.parametrize("error", [errors.Deadlock, errors.DatabaseUnavailable, errors.CommitUnknown])
def test_ready__that_met_a_busy_database_does_not_say_that_nothing_waits(pack_id, monkeypatch, error):
    """A worker that runs until nothing is left would end before its work."""
    post(webhooks.deal())

    def busy(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(service, "materialize_batch", busy)
    with pytest.raises(error):
        materialize_ready()


def test_ready__goes_on_past_the_trouble_of_a_pack_that_no_second_try_would_help(pack_id, monkeypatch):
    post(webhooks.deal())

    def gone(*_: object, **__: object) -> None:
        raise errors.PackNotFound

    monkeypatch.setattr(service, "materialize_batch", gone)
    assert materialize_ready() == 0


def test_ready__past_one_busy_pack_takes_the_others_receipts(pack_id, monkeypatch):
    other = webhooks.activate(webhooks.pack("outreach"))
    post(webhooks.deal())
    real = service.materialize_batch

    def busy_for_another(pack_install_id, *arguments, **options):
        if pack_install_id == other:
            raise errors.Deadlock
        return real(pack_install_id, *arguments, **options)

    monkeypatch.setattr(service, "materialize_batch", busy_for_another)
    assert materialize_ready() == 1
    assert states() == [("materialized", None)]
