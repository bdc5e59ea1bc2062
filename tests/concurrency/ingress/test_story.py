"""One webhook all the way: a real web server, a real worker, and a request of the shape that Outreach publishes.

The request is made by hand here, with the standard library alone: nothing that the program uses to sign or to
read a webhook takes part in making it.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import signal
import time
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from tests.support import webhooks
from tests.support.authority import system_rows
from tests.support.processes import Command, manage, web_server
from tests.support.work import attempt_rows, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
LOOKS = 2400
BODY = (
    b'{"data":{"type":"prospect","id":88121,"attributes":{"title":"VP Sales","updatedAt":"2025-11-06T18:11:12.000Z"},'
    b'"relationships":{"owner":{"type":"owner","id":2}}},'
    b'"meta":{"deliveredAt":"2025-11-06T10:11:12.795-08:00","eventName":"prospect.updated",'
    b'"jobId":"0b0f5c7e-6a37-4a6c-9b3e-2f1f4c0c9a51"}}'
)
DELIVERY_ID = "7c1b1c0e-9f58-4a8e-8f3e-5f3f2f1d6a10"


def signed(body: bytes) -> str:
    """Return the lowercase hex HMAC-SHA256 of the raw body."""
    return hmac.new(settings.LOCKHOUSE_SECRETS["OUTREACH"].encode(), body, hashlib.sha256).hexdigest()


def deliver(base: str, body: bytes, signature: str) -> int:
    """Post as the provider does; return the status."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=200)
    headers = {
        "Content-Type": "application/vnd.api+json",
        "User-Agent": "Ruby",
        "Outreach-Webhook-Signature": signature,
        "outreach-webhook-event-id": DELIVERY_ID,
        "outreach-webhook-id": "7",
    }
    try:
        connection.request("POST", "/hooks/sales/prospects", body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def rejections(base: str) -> dict[str, float]:
    """Return what /metrics counts as rejected, by reason."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=200)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
    finally:
        connection.close()
    found = re.findall(r'^lockhouse_ingress_rejected_total\{reason="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {reason: float(count) for reason, count in found if float(count)}


def await_ended(worker: Command) -> list[dict[str, object]]:
    """Look until every WorkItem has ended, a bounded number of times."""
    for _ in range(LOOKS):
        items = query("SELECT * FROM _System_ConnectorWorkItem")
        if items and all(item["TerminalAt"] is not None for item in items):
            return items
        assert worker.process.poll() is None, "the worker ended before the work did"
        time.sleep(0.1)
    message = "the work did not end"
    raise AssertionError(message)


@pytest.mark.evidence("O-01")
def test_story__a_signed_prospect_becomes_one_piece_of_work_that_succeeds(database_url: str):
    webhooks.activate(webhooks.pack("outreach"))
    worker = manage(["work"], database_url)
    try:
        with web_server(database_url) as (_, base):
            assert deliver(base, BODY, signed(BODY)) == 200
            (item,) = await_ended(worker)
            assert rejections(base) == {}
            # The provider's own second try changes nothing.
            assert deliver(base, BODY, signed(BODY)) == 200
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.output
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.wait()

    (receipt,) = webhooks.rows("IngressReceipt")
    (event,) = webhooks.rows("Event")
    assert (receipt["State"], receipt["DeliveryId"]) == ("materialized", DELIVERY_ID)
    assert receipt["BodyHash"] == hashlib.sha256(BODY).hexdigest()
    assert (item["State"], item["Attempt"], item["EventId"]) == ("succeeded", 1, event["EventId"])
    assert (event["EventKind"], event["SourceLane"]) == ("prospect.updated", "prospect:88121")
    assert (event["ReceiptId"], event["OccurredAt"].isoformat()) == (receipt["ReceiptId"], "2025-11-06T18:11:12.795000")
    assert len(attempt_rows(str(item["WorkId"]))) == 1
    assert len(query("SELECT WorkId FROM _System_ConnectorWorkItem")) == 1


@pytest.mark.evidence("O-01")
def test_story__one_flipped_byte_leaves_nothing_but_a_count(database_url: str):
    webhooks.activate(webhooks.pack("outreach"))
    before = system_rows()
    place = BODY.index(b"VP Sales")
    flipped = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
    forged = signed(BODY)[:-1] + ("0" if signed(BODY)[-1] != "0" else "1")
    with web_server(database_url) as (_, base):
        assert rejections(base) == {}
        assert deliver(base, flipped, signed(BODY)) == 401
        assert system_rows() == before
        ((reason, count),) = rejections(base).items()
        assert count == 1
        assert deliver(base, BODY, forged) == 401
        assert rejections(base) == {reason: 2}
        worker = manage(["work", "--until-idle"], database_url)
        assert worker.wait() == 0, worker.output
    after = system_rows()
    # A worker notes that it lived; nothing else may be there.
    assert len(after.pop("_System_ConnectorClaimProcess")) == 1
    before.pop("_System_ConnectorClaimProcess")
    assert after == before
