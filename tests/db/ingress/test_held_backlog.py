"""What a fence over one kind holds is opened once, not at every look; and is found again when the fence is not the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from integration.ingress import materialize
from integration.ingress.backlog import HeldBacklog
from integration.ingress.service import materialize_ready
from integration.values import new_id
from tests.db.ingress.test_materialize import arm
from tests.support import webhooks
from tests.support.work import change, query

pytestmark = pytest.mark.django_db


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pack_id() -> str:
    return webhooks.activate()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backlog(clock: Clock) -> HeldBacklog:
    return HeldBacklog(clock)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The receipts that were opened."""
    found: list[str] = []
    real = materialize._open_and_derive

    def note(receipt: Any, *others: Any) -> Any:
        found.append(receipt.row["ReceiptId"])
        return real(receipt, *others)

    monkeypatch.setattr(materialize, "_open_and_derive", note)
    return found


def post(event: str, count: int = 1, *, minutes_ago: int = 0) -> None:
    for number in range(count):
        answer = webhooks.post(Client(), webhooks.deal(number, event=event), delivery_id=new_id())
        assert answer.status_code == 200
    change(
        "UPDATE _System_ConnectorIngressReceipt SET ReceivedAt = ReceivedAt - INTERVAL %s MINUTE"
        " WHERE State = 'received' AND ReceivedAt > UTC_TIMESTAMP(6) - INTERVAL 30 SECOND",
        minutes_ago,
    )


def waiting() -> int:
    return len(query("SELECT 1 FROM _System_ConnectorIngressReceipt WHERE State = 'received'"))


def test_materialize_ready__behind_a_fence__opens_what_it_holds_once(pack_id, backlog, opened):
    arm("deal.created")
    post("deal.created", 7, minutes_ago=5)
    assert materialize_ready(3, backlog=backlog) == 0
    assert len(opened) == 7
    opened.clear()
    post("deal.updated")
    assert materialize_ready(3, backlog=backlog) == 1
    assert (len(opened), waiting()) == (1, 7)
    # Without it, each look opens them all.
    opened.clear()
    assert materialize_ready(3) == 0
    assert len(opened) == 7


def test_materialize_ready__finds_what_was_held__once_the_fences_are_others(pack_id, backlog):
    fence_id = arm("deal.created")
    post("deal.created", 4, minutes_ago=5)
    post("deal.updated", minutes_ago=5)
    assert materialize_ready(2, backlog=backlog) == 1
    arm("deal.updated")
    change("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6) WHERE FenceId = %s", fence_id)
    assert materialize_ready(2, backlog=backlog) == 4
    assert waiting() == 0


def test_materialize_ready__finds_what_was_held__by_an_override_and_by_the_last_fence_lifted(pack_id, backlog):
    fence_id = arm("deal.created")
    post("deal.created", 2, minutes_ago=5)
    assert materialize_ready(backlog=backlog) == 0
    change(
        "INSERT INTO _System_ConnectorAdmissionOverride (OverrideId, FenceId, Scope, GrantedAt, GrantedBy, Reason)"
        " VALUES (%s, %s, 'deal.created', UTC_TIMESTAMP(6), 'test', 'test')",
        new_id(),
        fence_id,
    )
    assert materialize_ready(backlog=backlog) == 2
    post("deal.updated", minutes_ago=5)
    change("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6)")
    assert materialize_ready(backlog=backlog) == 1


def test_materialize_ready__looks_at_everything_again_after_a_while(pack_id, backlog, clock):
    """A receipt whose commit came late lies before what was passed."""
    arm("deal.created")
    post("deal.created", 2, minutes_ago=5)
    assert materialize_ready(backlog=backlog) == 0
    post("deal.updated", minutes_ago=50)
    assert materialize_ready(backlog=backlog) == 0
    clock.now = 31
    assert materialize_ready(backlog=backlog) == 1


def test_materialize_ready__passes_nothing_that_something_else_holds(pack_id, backlog, settings):
    """A key that is missing may be there at the next look: what it holds is looked at each time."""
    post("deal.updated", minutes_ago=5)
    ring = settings.LOCKHOUSE_PAYLOAD_KEYS
    settings.LOCKHOUSE_PAYLOAD_KEYS = "other:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    arm("deal.created")
    assert materialize_ready(backlog=backlog) == 0
    settings.LOCKHOUSE_PAYLOAD_KEYS = ring
    assert materialize_ready(backlog=backlog) == 1
