"""Signed bodies that no flow could use: answered, stored, put aside by name, and never executed half."""

from __future__ import annotations

import pytest
from django.test import Client

from integration.ingress.json_bodies import MAX_DEPTH
from integration.ingress.service import materialize_ready
from tests.support import webhooks

pytestmark = pytest.mark.django_db
DEAL = b'{"event": "deal.created", "sent_at": "2026-11-29T10:00:00Z", "deal": {"id": 1}, "x": %b}'


@pytest.fixture
def client() -> Client:
    webhooks.activate()
    return Client(enforce_csrf_checks=True)


def states() -> list[tuple[str, str | None]]:
    return [(row["State"], row["QuarantineCode"]) for row in webhooks.rows("IngressReceipt")]


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 1_000 + b"]" * 1_000,
        b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b"1e999",
        b"-1e999",
        b'[1, {"a": 1e400}]',
        b"Infinity",
        b'"\xff\xfe"',
    ],
    ids=["nested 1,000", "objects 1,000 deep", "one too deep", "1e999", "-1e999", "inside", "Infinity", "no UTF-8"],
)
def test_body__that_is_no_json_as_it_is_read_here_is_answered_stored_and_put_aside(client: Client, value: bytes):
    assert webhooks.post(client, DEAL % value, delivery_id="bad").status_code == 200
    assert webhooks.post(client, DEAL % b"1", delivery_id="good").status_code == 200

    materialize_ready()

    assert sorted(states()) == [("materialized", None), ("quarantined", "body_not_json")]
    assert len(webhooks.rows("Event")) == len(webhooks.rows("WorkItem")) == 1


@pytest.mark.parametrize("value", [b"1.7976931348623157e308", b"1" + b"0" * 400, b"[" * 100 + b"]" * 100])
def test_body__with_great_numbers_or_deep_within_reason_becomes_work(client: Client, value: bytes):
    webhooks.post(client, DEAL % value, delivery_id="d-1")
    materialize_ready()
    assert states() == [("materialized", None)]


def test_body__whose_key_stands_twice_means_the_last_one_for_lane_and_payload_alike(client: Client):
    body = b'{"event": "deal.created", "deal": {"id": 1}, "deal": {"id": 2, "stage": "won"}}'
    webhooks.post(client, body, delivery_id="d-1")
    materialize_ready()
    (event,) = webhooks.rows("Event")
    assert event["SourceLane"] == "deal:2"
    from integration.work.material import open_payload

    assert open_payload(event)["deal"] == {"id": 2, "stage": "won"}


@pytest.mark.parametrize("megabytes", [1, 5])
def test_body__larger_than_the_pack_allows_is_413_and_leaves_no_row(client: Client, megabytes: int):
    body = DEAL % (b'"' + b"x" * (megabytes * 1024 * 1024) + b'"')
    assert webhooks.post(client, body).status_code == 413
    assert webhooks.rows("IngressReceipt") == []
