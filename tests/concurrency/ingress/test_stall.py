"""A database that stands still: every answer within the provider's patience, and no 200 for what is not stored."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connections

from tests.concurrency.ingress.races import send
from tests.support import webhooks
from tests.support.processes import web_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("O-02")]


def test_stall__of_the_receipts_table__is_a_503_in_time_and_the_repeat_is_stored(database_url: str):
    webhooks.activate()
    body = webhooks.deal()
    # The production settings: the alias with a provider's timeouts.
    with web_server(database_url, DJANGO_SETTINGS_MODULE="console.settings") as (_, base):
        assert send(base, body, "before") == 200
        blocker = connections["default"].copy()
        blocker.set_autocommit(False)
        try:
            with blocker.cursor() as cursor:
                # The same key, not yet committed: the request's INSERT waits for it.
                cursor.execute(
                    "INSERT INTO _System_ConnectorIngressReceipt (ReceiptId, PackInstallId, Namespace, RouteKey,"
                    " Provider, IdempotencyKey, BodyHash, Body, State, ReceivedAt)"
                    " SELECT 'blocker', PackInstallId, Namespace, RouteKey, Provider, %s, BodyHash, Body, 'x', ReceivedAt"
                    " FROM _System_ConnectorIngressReceipt",
                    [waiting_key("waiting")],
                )
                answers: list[tuple[int, float]] = []

                def post() -> None:
                    started = time.monotonic()
                    answers.append((send(base, body, "waiting"), time.monotonic() - started))

                threads = [threading.Thread(target=post) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(30)
        finally:
            blocker.rollback()
            blocker.close()
        assert [status for status, _ in answers] == [503, 503]
        assert max(seconds for _, seconds in answers) < 5
        assert send(base, body, "waiting") == 200
    assert sorted(row["DeliveryId"] for row in webhooks.rows("IngressReceipt")) == ["before", "waiting"]


def waiting_key(delivery_id: str) -> str:
    from integration.ingress.idempotency import delivery_key

    return delivery_key(namespace="demo", route_key="deals", subscription_generation=1, delivery_id=delivery_id)
