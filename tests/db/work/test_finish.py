from __future__ import annotations

import re

import pytest
from django.db import OperationalError, connections

from integration.errors import CommitUnknown, StaleClaim
from integration.states import FailureClass
from integration.storage import db
from integration.work import finish
from integration.work.claim import renew
from integration.work.finish import Ended
from integration.work.reap import reap_expired
from tests.support.work import attempt_rows, change, event_row, expire_lease, item_row, make_due, query

pytestmark = pytest.mark.django_db

ENDINGS = {
    "complete": finish.complete,
    "skip": finish.skip,
    "retry": lambda claim: finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=1),
    "bury": lambda claim: finish.bury(claim, FailureClass.FLOW_REJECTED),
}
KERNEL_TABLES = ("Event", "ExecutionAttempt", "PackInstall", "CutoverReceipt", "ClaimProcess")


def other_tables() -> dict[str, list[dict]]:
    return {name: query(f"SELECT * FROM _System_Connector{name}") for name in KERNEL_TABLES}


@pytest.mark.evidence("A-25")
@pytest.mark.parametrize("name", ENDINGS)
def test_end__is_one_statement_on_the_work_item_and_on_no_other_table(pack, take, name):
    claim = take(pack.admit()[0])
    bystander = item_row(pack.admit()[0])
    others = other_tables()
    statements = []

    def record(execute, sql, params, many, context):
        # On TiDB a lone statement has a transaction around it; inside a test's own one that is a savepoint.
        if "SAVEPOINT" not in sql:
            statements.append(" ".join(sql.split()))
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(record):
        ENDINGS[name](claim)

    assert len(statements) == 1
    assert re.match(r"UPDATE _System_ConnectorWorkItem SET ", statements[0])
    assert set(re.findall(r"_System_\w+", statements[0])) == {"_System_ConnectorWorkItem"}
    assert other_tables() == others
    assert item_row(bystander["WorkId"]) == bystander


def test_complete__ends_the_item_and_clears_the_lease(pack, take):
    claim = take(pack.admit(TargetLane="account:1")[0])
    assert item_row(claim.work_id)["TargetLaneActiveKey"] is not None

    assert finish.complete(claim) is Ended.COMPLETE

    row = item_row(claim.work_id)
    assert (row["State"], row["Outcome"], row["OwnershipEpoch"], row["Attempt"]) == ("succeeded", "succeeded", 1, 1)
    assert row["TerminalAt"] == row["UpdatedAt"]
    assert {row[name] for name in ("LeaseOwner", "LeaseToken", "LeaseUntil", "TargetLaneActiveKey")} == {None}


def test_retry__records_fixed_failure_facts(pack, take):
    claim = take(pack.admit()[0])
    assert finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=1.5) is Ended.RETRY

    row = item_row(claim.work_id)
    assert (row["State"], row["FailureClass"], row["FailureCount"]) == ("retry", "flow_error", 1)
    assert row["FailureSummary"] == "The flow raised an error."
    assert row["FirstFailedAt"] == row["LastFailedAt"]
    assert 1.0 < (row["RunAfter"] - row["LastFailedAt"]).total_seconds() <= 1.6
    assert row["TerminalAt"] is None


def test_retry__after_the_last_attempt_buries(pack, take):
    claim = take(pack.admit(MaxAttempts=1)[0])
    assert finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=1) is Ended.BURY
    row = item_row(claim.work_id)
    assert (row["State"], row["Outcome"], row["FailureCount"]) == ("dead", "dead", 1)
    assert row["TerminalAt"] is not None


def test_retry__of_an_item_whose_cancellation_was_asked_for_cancels_it(pack, take):
    claim = take(pack.admit()[0])
    change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6), CancelRequestedBy = 'ana'")
    assert finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=1) is Ended.ACKNOWLEDGE_CANCEL
    assert item_row(claim.work_id)["State"] == "cancelled"


def test_acknowledge_cancel__that_nobody_asked_for_is_refused(pack, take):
    claim = take(pack.admit()[0])
    with pytest.raises(StaleClaim):
        finish.acknowledge_cancel(claim)
    assert item_row(claim.work_id)["State"] == "processing"


def test_summaries__are_fixed_texts_for_every_class():
    assert set(finish.SUMMARIES) == set(FailureClass)
    assert all(text.endswith(".") and len(text) < 100 for text in finish.SUMMARIES.values())


@pytest.mark.evidence("K-04")
def test_reap__takes_an_expired_lease_back_and_the_next_claim_says_lost(pack, process, take):
    claim = take(pack.admit()[0])
    assert reap_expired(process).total == 0

    expire_lease(claim.work_id)
    reaped = reap_expired(process)

    assert (reaped.retried, reaped.buried) == (1, 0)
    row = item_row(claim.work_id)
    assert (row["State"], row["FailureClass"], row["LeaseToken"], row["Attempt"]) == ("retry", "lease_lost", None, 1)
    make_due(claim.work_id)
    second = take(claim.work_id)
    assert (second.attempt, second.epoch) == (2, 2)
    first, last = attempt_rows(claim.work_id)
    assert (first["Outcome"], last["Outcome"]) == ("lost", None)
    assert first["FinishedAt"] == row["LastFailedAt"]


@pytest.mark.evidence("K-04")
def test_reap__within_the_slack_leaves_the_lease(pack, process, take):
    claim = take(pack.admit()[0])
    expire_lease(claim.work_id, seconds=300)
    assert reap_expired(process, slack_seconds=600).total == 0
    assert finish.complete(claim) is Ended.COMPLETE


@pytest.mark.evidence("K-04")
def test_reap__of_the_last_attempt_buries(pack, process, take):
    claim = take(pack.admit(MaxAttempts=1)[0])
    expire_lease(claim.work_id)
    assert reap_expired(process).buried == 1
    row = item_row(claim.work_id)
    assert (row["State"], row["FailureClass"]) == ("dead", "lease_lost")


def test_reap__by_a_fenced_process_takes_nothing(pack, process, take):
    claim = take(pack.admit()[0])
    expire_lease(claim.work_id)
    pack.cut_over("rollback")
    before = item_row(claim.work_id)
    assert reap_expired(process).total == 0
    assert item_row(claim.work_id) == before


@pytest.mark.parametrize("name", [*ENDINGS, "acknowledge_cancel"])
def test_end__by_a_claimant_whose_item_was_reclaimed_is_refused(pack, process, take, name):
    stale = take(pack.admit()[0])
    expire_lease(stale.work_id)
    reap_expired(process)
    make_due(stale.work_id)
    live = take(stale.work_id)
    change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6)")
    before = item_row(stale.work_id)

    with pytest.raises(StaleClaim):
        {**ENDINGS, "acknowledge_cancel": finish.acknowledge_cancel}[name](stale)
    assert renew(stale) is False

    assert item_row(stale.work_id) == before
    assert finish.complete(live) is Ended.COMPLETE


def test_renew__extends_a_live_lease_only(pack, take):
    claim = take(pack.admit()[0])
    expire_lease(claim.work_id)
    assert renew(claim) is True
    (row,) = query("SELECT LeaseUntil > UTC_TIMESTAMP(6) AS Live FROM _System_ConnectorWorkItem")
    assert row["Live"] == 1
    finish.complete(claim)
    assert renew(claim) is False


@pytest.mark.parametrize("stored", [True, False])
def test_end__whose_commit_is_unknown_is_settled_by_token_and_epoch(pack, take, monkeypatch, stored):
    claim = take(pack.admit()[0])
    execute_alone, calls = db.execute_alone, []

    def cut_once(statement, params):
        calls.append(statement.name)
        if len(calls) == 1:
            if stored:
                execute_alone(statement, params)
            raise CommitUnknown from OperationalError(2013, "lost")
        return execute_alone(statement, params)

    monkeypatch.setattr(finish.db, "execute_alone", cut_once)
    assert finish.complete(claim) is Ended.COMPLETE
    assert calls == ["COMPLETE_WORK_ITEM"] * (1 if stored else 2)
    assert item_row(claim.work_id)["State"] == "succeeded"


@pytest.mark.parametrize("end", [finish.complete, finish.skip])
def test_end__whose_commit_is_unknown_is_settled_after_an_attempt_that_was_lost(pack, process, take, monkeypatch, end):
    (work_id,) = pack.admit()
    take(work_id)
    expire_lease(work_id)
    assert reap_expired(process).retried == 1
    claim = take(work_id)
    execute_alone = db.execute_alone

    def cut(statement, params):
        execute_alone(statement, params)
        monkeypatch.undo()
        raise CommitUnknown

    monkeypatch.setattr(finish.db, "execute_alone", cut)
    end(claim)
    assert (item_row(work_id)["State"] in {"succeeded", "skipped"}, item_row(work_id)["Attempt"]) == (True, 2)


def test_end__whose_commit_is_unknown_after_the_reaper_took_the_item_is_stale(pack, process, take, monkeypatch):
    claim = take(pack.admit()[0])

    def cut(statement, params):
        expire_lease(claim.work_id)
        monkeypatch.undo()
        assert reap_expired(process).retried == 1
        raise CommitUnknown

    monkeypatch.setattr(finish.db, "execute_alone", cut)
    with pytest.raises(StaleClaim):
        finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=0)
    assert item_row(claim.work_id)["FailureClass"] == "lease_lost"


def test_end__leaves_the_event_alone(pack, take):
    claim = take(pack.admit()[0])
    before = event_row(claim.item.event_id)
    finish.bury(claim, FailureClass.FLOW_REJECTED)
    assert event_row(claim.item.event_id) == before
