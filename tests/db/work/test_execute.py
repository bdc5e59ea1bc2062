from __future__ import annotations

import json
import logging

import pytest

from integration.ingress.crypto import SealedColumn, row_aad, seal
from integration.states import FailureClass
from integration.work import execute as module
from integration.work.execute import execute
from integration.work.finish import Ended
from integration.work.reap import reap_expired
from tests.support import flows as _flows  # noqa: F401 - registers them
from tests.support.work import Pack, change, event_row, expire_lease, item_row

pytestmark = pytest.mark.django_db
CANARY = "canary-of-the-flow"


@pytest.fixture
def pack(db) -> Pack:
    return Pack(flow="tests.end")


@pytest.mark.parametrize(
    ("end", "ended", "stored"),
    [
        ("succeed", Ended.COMPLETE, ("succeeded", None)),
        ("skip", Ended.SKIP, ("skipped", None)),
        ("reject", Ended.BURY, ("dead", "flow_rejected")),
        ("retry", Ended.RETRY, ("retry", "flow_retry")),
        ("fail", Ended.RETRY, ("retry", "flow_error")),
        ("exit", Ended.RETRY, ("retry", "flow_error")),
        ("cancelled", Ended.RETRY, ("retry", "flow_error")),
        ("stop", Ended.RETRY, ("retry", "flow_error")),
        ("retry at no time", Ended.RETRY, ("retry", "flow_error")),
    ],
)
def test_execute__ends_as_the_flow_says(pack, take, end, ended, stored):
    claim = take(pack.admit(payload={"end": end})[0])
    assert execute(claim) is ended
    row = item_row(claim.work_id)
    assert (row["State"], row["FailureClass"]) == stored


@pytest.mark.evidence("K-11")
@pytest.mark.parametrize("end", ["reject", "retry", "fail", "exit", "cancelled"])
def test_execute__stores_and_logs_nothing_that_the_flow_says(pack, take, caplog, end):
    caplog.set_level(logging.DEBUG)
    claim = take(pack.admit(payload={"end": end, "secret": CANARY})[0])
    execute(claim)
    row = item_row(claim.work_id)
    assert row["FailureSummary"] in module.finish.SUMMARIES.values()
    assert CANARY not in json.dumps(row, default=str)
    assert caplog.records, "the end is logged"
    for record in caplog.records:
        assert CANARY not in f"{record.getMessage()} {vars(record)}"
    assert claim.lease_token not in "".join(f"{vars(record)}" for record in caplog.records)


def test_execute__waits_as_the_flow_asks_but_no_longer_than_the_cap(pack, take, monkeypatch):
    from integration.work.policy import RetryPolicy

    monkeypatch.setattr(module, "_policy_of", lambda route_id: RetryPolicy(base_seconds=1, cap_seconds=60))
    claim = take(pack.admit(payload={"end": "retry"})[0])
    execute(claim)
    row = item_row(claim.work_id)
    assert 59 < (row["RunAfter"] - row["LastFailedAt"]).total_seconds() < 61


def test_execute__waits_by_the_policy_and_the_attempt(pack, take, monkeypatch):
    from integration.work.policy import RetryPolicy

    policy = RetryPolicy(base_seconds=8, factor=2, cap_seconds=600, jitter=0.5)
    monkeypatch.setattr(module, "_policy_of", lambda route_id: policy)
    claim = take(pack.admit(payload={"end": "fail"})[0])
    execute(claim, chance=lambda: 1.0)
    row = item_row(claim.work_id)
    assert 11.9 < (row["RunAfter"] - row["LastFailedAt"]).total_seconds() < 12.1


def test_execute__of_an_unknown_flow_leaves_it_for_a_build_that_knows_it(pack, take):
    pack.flow = "tests.of_another_build"
    claim = take(pack.admit()[0])
    assert execute(claim) is Ended.RETRY
    assert item_row(claim.work_id)["FailureClass"] == FailureClass.FLOW_UNKNOWN


@pytest.mark.parametrize("kind", ["other row", "not json", "not an object", "too deep"])
def test_execute__of_a_payload_that_does_not_open_retries(pack, take, kind):
    (work_id,) = pack.admit(payload={"end": "succeed"})
    event_id = item_row(work_id)["EventId"]
    place = row_aad(SealedColumn.EVENT_PAYLOAD, "another" if kind == "other row" else event_id)
    text = {"other row": b"{}", "not json": b"{", "not an object": b"[1]", "too deep": b"[" * 5000}[kind]
    change("UPDATE _System_ConnectorEvent SET Payload = %s", seal(text, place))
    claim = take(work_id)
    assert execute(claim) is Ended.RETRY
    assert item_row(work_id)["FailureClass"] == FailureClass.PAYLOAD_UNREADABLE


def test_execute__of_a_cancelled_item_does_not_run_the_flow(pack, take):
    (work_id,) = pack.admit(payload={"end": "fail"})
    change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6)")
    assert execute(take(work_id)) is Ended.ACKNOWLEDGE_CANCEL
    assert item_row(work_id)["FailureCount"] == 0


def test_execute__of_a_claim_that_was_cancelled_while_it_waited_for_a_thread_does_not_run_the_flow(pack, take):
    claim = take(pack.admit(payload={"end": "fail"})[0])
    change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6)")
    verdict = module.run(claim, is_cancelled=lambda: True)
    assert module.store(claim, verdict) is Ended.ACKNOWLEDGE_CANCEL
    assert item_row(claim.work_id)["FailureCount"] == 0


@pytest.mark.evidence("K-08")
def test_execute__of_a_flow_that_stops_as_it_was_asked_acknowledges(pack, take):
    claim = take(pack.admit(payload={"end": "stop"})[0])
    change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6)")
    asked = iter([False, True])
    verdict = module.run(claim, is_cancelled=lambda: next(asked))
    assert module.store(claim, verdict) is Ended.ACKNOWLEDGE_CANCEL
    assert item_row(claim.work_id)["State"] == "cancelled"


def test_execute__of_a_claim_that_was_reaped_meanwhile_stores_nothing(pack, process, take):
    claim = take(pack.admit(payload={"end": "succeed"})[0])
    expire_lease(claim.work_id)
    assert reap_expired(process).retried == 1
    before = item_row(claim.work_id)
    assert execute(claim) is None
    assert item_row(claim.work_id) == before


def test_execute__leaves_the_event_as_the_claim_made_it(pack, take):
    claim = take(pack.admit(payload={"end": "fail"})[0])
    before = event_row(claim.item.event_id)
    execute(claim)
    assert event_row(claim.item.event_id) == before
