"""A database that stands still: every answer within the provider's patience, and no 200 for what is not stored."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connections

from tests.concurrency.ingress.races import deliver
from tests.support import webhooks
from tests.support.processes import until_met, web_server
from tests.support.webhooks import send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("O-02")]


def test_stall__of_the_receipts_table__is_a_503_in_time_and_the_repeat_is_stored(database_url: str):
    webhooks.activate()
    deliveries: list[str] = []
    # The production settings: the alias with a provider's timeouts.
    with web_server(database_url, DJANGO_SETTINGS_MODULE="console.settings") as (_, base):
        assert deliver(base, webhooks.deal(), "before") == 200

        def once() -> float:
            delivery = f"waiting-{len(deliveries)}"
            deliveries.append(delivery)
            seconds = slowest_refusal(base, delivery)
            assert deliver(base, webhooks.deal(), delivery) == 200
            return seconds

        # The bound is the program's: where others take the processors, one of several rounds must keep it.
        assert until_met(once, lambda seconds: seconds < 5)
    assert sorted(row["DeliveryId"] for row in webhooks.rows("IngressReceipt")) == sorted(["before", *deliveries])


def slowest_refusal(base: str, delivery: str) -> float:
    """Post a delivery twice while its key is taken and not committed; return how long the slower 503 took."""
    answers: list[tuple[int, float]] = []

    def post() -> None:
        started = time.monotonic()
        answers.append((send(base, webhooks.deal(), delivery), time.monotonic() - started))

    blocker = connections["default"].copy()
    blocker.set_autocommit(False)
    try:
        with blocker.cursor() as cursor:
            cursor.execute(
                "INSERT INTO _System_ConnectorIngressReceipt (ReceiptId, PackInstallId, Namespace, RouteKey,"
                " Provider, IdempotencyKey, BodyHash, Body, State, ReceivedAt)"
                " SELECT 'blocker', PackInstallId, Namespace, RouteKey, Provider, %s, BodyHash, Body, 'x', ReceivedAt"
                " FROM _System_ConnectorIngressReceipt WHERE DeliveryId = 'before'",
                [waiting_key(delivery)],
            )
        threads = [threading.Thread(target=post) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        blocker.rollback()
        blocker.close()
    assert [status for status, _ in answers] == [503, 503]
    return max(seconds for _, seconds in answers)


def waiting_key(delivery_id: str) -> str:
    from integration.ingress.idempotency import delivery_key

    return delivery_key(namespace="demo", route_key="deals", subscription_generation=1, delivery_id=delivery_id)
