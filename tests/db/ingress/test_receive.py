"""The webhook's door: what it answers, and what it leaves behind."""

from __future__ import annotations

import hashlib
import json
import logging

import pytest
from django.db import OperationalError
from django.test import Client
from prometheus_client import REGISTRY, generate_latest

from integration import errors
from integration.ingress import crypto, service
from integration.ingress.service import materialize_ready
from integration.storage import db
from tests.support import webhooks

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    webhooks.activate()
    return Client(enforce_csrf_checks=True)


def rejected(reason: str) -> float:
    return REGISTRY.get_sample_value("lockhouse_ingress_rejected_total", {"reason": reason}) or 0.0


@pytest.mark.evidence("O-02")
def test_receive__a_signed_body__is_stored_before_the_200(client: Client):
    body = webhooks.deal()
    response = webhooks.post(client, body, delivery_id="d-1")
    assert (response.status_code, response.content) == (200, b"")
    assert response["Cache-Control"] == "no-store"
    (row,) = webhooks.rows("IngressReceipt")
    assert row["State"] == "received"
    assert row["DeliveryId"] == "d-1"
    assert row["BodyHash"] == hashlib.sha256(body).hexdigest()
    aad = crypto.row_aad(crypto.SealedColumn.RECEIPT_BODY, row["ReceiptId"])
    assert crypto.open_sealed(row["Body"], aad) == body
    assert json.loads(row["SafeHeaders"]) == {"content-type": "application/json"}
    assert webhooks.rows("Event") == []


@pytest.mark.evidence("O-01")
def test_receive__one_flipped_byte__is_401_and_leaves_no_row_but_a_count(client: Client):
    body = webhooks.deal()
    before = rejected("signature")
    for position in range(len(body)):
        flipped = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
        response = webhooks.post(client, flipped, **{"X-Demo-Signature": webhooks.signature(body)})
        assert response.status_code == 401
    assert webhooks.rows("IngressReceipt") == []
    assert rejected("signature") == before + len(body)


@pytest.mark.parametrize(
    "given", ["", "00", "zz" * 32, "a" * 63, "sha256=" + "0" * 64, "0" * 64 + "," + "0" * 64, "é" * 64, "0" * 64]
)
def test_receive__a_signature_that_is_none__is_401(client: Client, given: str):
    before = rejected("signature")
    assert webhooks.post(client, webhooks.deal(), **{"X-Demo-Signature": given}).status_code == 401
    assert rejected("signature") == before + 1
    assert webhooks.rows("IngressReceipt") == []


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "options", "head"])
def test_receive__another_method__is_405(client: Client, method: str):
    response = getattr(client, method)(webhooks.DEMO_URL)
    assert (response.status_code, response["Allow"]) == (405, "POST")


@pytest.mark.parametrize("url", ["/hooks/demo/others", "/hooks/elsewhere/deals"])
def test_receive__an_unknown_route__is_404(client: Client, url: str):
    body = webhooks.deal()
    before = rejected("unknown_route")
    response = client.post(url, data=body, content_type="application/json", headers=webhooks.headers(body))
    assert response.status_code == 404
    assert rejected("unknown_route") == before + 1


def test_receive__a_body_beyond_the_limit__is_413_and_was_not_read(client: Client):
    limit = webhooks.pack().webhooks[0].max_body_bytes
    largest = webhooks.deal(pad="x" * (limit - len(webhooks.deal(pad=""))))
    assert len(largest) == limit
    assert webhooks.post(client, largest).status_code == 200
    assert webhooks.post(client, largest + b" ").status_code == 413
    assert len(webhooks.rows("IngressReceipt")) == 1


@pytest.mark.evidence("O-04")
def test_receive__a_repeated_delivery__is_200_and_creates_nothing(client: Client):
    body = webhooks.deal()
    answers = [webhooks.post(client, body, delivery_id="d-1").status_code for _ in range(3)]
    # The number decides, even when the provider's clock moved on in between.
    moved = webhooks.deal(sent_again=True)
    answers.append(webhooks.post(client, moved, delivery_id="d-1").status_code)
    assert answers == [200] * 4
    assert len(webhooks.rows("IngressReceipt")) == 1
    materialize_ready()
    assert webhooks.post(client, body, delivery_id="d-1").status_code == 200
    assert materialize_ready() == 0
    assert len(webhooks.rows("WorkItem")) == 1


@pytest.mark.evidence("O-04")
def test_receive__without_a_delivery_id__the_deterministic_key_decides(client: Client):
    for body in (webhooks.deal(1), webhooks.deal(1), webhooks.deal(2), webhooks.deal(1, stage="lost")):
        assert webhooks.post(client, body).status_code == 200
    assert len(webhooks.rows("IngressReceipt")) == 3
    assert webhooks.post(client, webhooks.deal(1), delivery_id="x" * 256).status_code == 200
    assert len(webhooks.rows("IngressReceipt")) == 3


@pytest.mark.evidence("O-04")
def test_receive__a_repeated_delivery_across_a_rotation__is_still_the_same(client: Client):
    assert webhooks.post(client, webhooks.deal(), delivery_id="d-1").status_code == 200
    webhooks.activate(webhooks.variant("demo", ('version: "1.0.0"', 'version: "1.0.1"')))
    assert webhooks.post(client, webhooks.deal(), delivery_id="d-1").status_code == 200
    assert len(webhooks.rows("IngressReceipt")) == 1


@pytest.mark.parametrize("junk", [b"", b"{", b"\xff\xfe\x00", b"[" * 20_000, b"NaN", b'{"deal": 1}', b"[]", b'"x"'])
def test_receive__well_signed_junk__is_stored_and_quarantined_later(client: Client, junk: bytes):
    assert webhooks.post(client, junk, delivery_id="j").status_code == 200
    assert materialize_ready() == 1
    (row,) = webhooks.rows("IngressReceipt")
    assert row["State"] == "quarantined"
    assert row["QuarantineCode"] in {"body_not_json", "body_not_object", "event_kind_unresolved"}
    assert webhooks.rows("Event") == []


@pytest.mark.parametrize(
    "error",
    [errors.DatabaseUnavailable(), errors.CommitUnknown(), errors.LockTimeout(), OperationalError(2006, "gone")],
)
def test_receive__when_it_cannot_be_stored__is_503_and_promises_no_redelivery(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    before = rejected("not_stored")

    def refuse(*_args: object, **_kwargs: object) -> int:
        raise error

    monkeypatch.setattr(service, "_SETTLE_SECONDS", 99.0)
    monkeypatch.setattr(db, "execute_alone", refuse)
    response = webhooks.post(client, webhooks.deal())
    assert response.status_code == 503
    assert "Retry-After" not in response
    assert rejected("not_stored") == before + 1


def test_receive__an_unknown_commit__is_settled_by_reading_the_key(client: Client, monkeypatch: pytest.MonkeyPatch):
    store = db.execute_alone

    def store_and_lose(*args: object, **kwargs: object) -> int:
        store(*args, **kwargs)  # type: ignore[arg-type]
        raise errors.CommitUnknown

    monkeypatch.setattr(db, "execute_alone", store_and_lose)
    assert webhooks.post(client, webhooks.deal(), delivery_id="d-1").status_code == 200
    assert len(webhooks.rows("IngressReceipt")) == 1


def test_receive__without_its_secret__is_503(client: Client, settings: object):
    settings.LOCKHOUSE_SECRETS = {}  # type: ignore[attr-defined]
    assert webhooks.post(client, webhooks.deal(), **{"X-Demo-Signature": "0" * 64}).status_code == 503


def test_receive__while_a_secret_is_rotated__takes_both(client: Client, settings: object):
    old, new = "the-old-secret", "the-new-secret"
    settings.LOCKHOUSE_SECRETS = {"DEMO": f"{old},{new}"}  # type: ignore[attr-defined]
    for number, secret in enumerate((old, new)):
        body = webhooks.deal(number)
        answer = webhooks.post(client, body, **{"X-Demo-Signature": webhooks.signature(body, secret=secret)})
        assert answer.status_code == 200
    body = webhooks.deal()
    wrong = webhooks.signature(body, secret="another-secret")
    assert webhooks.post(client, body, **{"X-Demo-Signature": wrong}).status_code == 401


@pytest.mark.evidence("A-31", "K-11")
def test_receive__nothing_of_the_request_reaches_a_log_a_metric_or_a_plain_column(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    canary = "canary-3f9d1c"
    secret = "demo-secret-of-the-tests"
    caplog.set_level(logging.DEBUG)
    body = webhooks.deal(stage=canary)
    signed = webhooks.signature(body)
    assert webhooks.post(client, body, **{"X-Secret": canary, "Cookie": f"a={canary}"}).status_code == 200
    assert webhooks.post(client, body + canary.encode()).status_code == 200
    assert webhooks.post(client, body, **{"X-Demo-Signature": canary}).status_code == 401
    assert client.post(f"/hooks/{canary}/x", data=body, content_type="text/plain").status_code == 404
    assert webhooks.post(client, canary.encode() * 6000).status_code == 413
    materialize_ready()
    # Statements in the debug log are the test client's own connection's; the program logs none.
    written = [record.getMessage() for record in caplog.records if not record.name.startswith("django.db.backends")]
    captured = capfd.readouterr()
    places = [*written, captured.out, captured.err, generate_latest(REGISTRY).decode()]
    for table in ("IngressReceipt", "Event", "WorkItem"):
        for row in webhooks.rows(table):
            places += [value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row.values()]
    assert len(webhooks.rows("WorkItem")) == 1
    for text in (canary, signed, secret):
        assert not [place for place in places if text in place]


@pytest.mark.evidence("O-01")
def test_receive__an_outreach_prospect_updated__becomes_a_work_item():
    webhooks.activate(webhooks.pack("outreach"))
    client = Client(enforce_csrf_checks=True)
    body = webhooks.prospect_updated()
    kept = {"Content-Type": "application/vnd.api+json"}
    assert webhooks.post(client, body, "outreach", delivery_id="0b0f5c7e-1", **kept).status_code == 200
    assert webhooks.post(client, body[:-1] + b" ", "outreach").status_code == 200
    bad = webhooks.signature(body, "outreach")
    flipped = body.replace(b"VP Sales", b"VP Sakes")
    assert webhooks.post(client, flipped, "outreach", **{"Outreach-Webhook-Signature": bad}).status_code == 401
    materialize_ready()
    assert [row["QuarantineCode"] for row in webhooks.rows("IngressReceipt", "ReceivedAt")] == [None, "body_not_json"]
    (event,), (item,) = webhooks.rows("Event"), webhooks.rows("WorkItem")
    assert (event["EventKind"], event["SourceLane"]) == ("prospect.updated", "prospect:4711")
    assert event["OccurredAt"].isoformat() == "2025-11-06T18:11:12.795000"
    assert (item["FlowName"], item["FlowVersion"], item["MaxAttempts"]) == ("outreach.apply_prospect", "1", 8)


def test_metrics__every_rejection_is_scraped(client: Client):
    webhooks.post(client, webhooks.deal(), **{"X-Demo-Signature": "0" * 64})
    scraped = client.get("/metrics").content.decode()
    assert 'lockhouse_ingress_rejected_total{reason="signature"}' in scraped
    assert "lockhouse_ingress_seconds_bucket" in scraped


def test_receive__without_the_ingress_surface__is_not_served(settings: object):
    from django.core.exceptions import MiddlewareNotUsed

    from console.views.hooks import WebhookDoor

    settings.LOCKHOUSE_SURFACES = frozenset({"console"})  # type: ignore[attr-defined]
    with pytest.raises(MiddlewareNotUsed):
        WebhookDoor(lambda _request: None)  # type: ignore[arg-type, return-value]
