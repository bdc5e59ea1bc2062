from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.concurrency.work.waits import until
from tests.support.processes import manage
from tests.support.work import Pack, attempt_rows, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-08")]


def own_rows() -> list[dict]:
    return query("SELECT * FROM _System_ConnectorClaimProcess ORDER BY ProcessId")


def test_worker__on_sigterm_finishes_what_runs_and_claims_no_more(database_url, tmp_path):
    gate = tmp_path / "gate"
    pack = Pack(flow="tests.hold")
    (held,) = pack.admit(payload={"file": str(gate)})
    worker = manage(["work", "--concurrency", "1", "--roles", "claim", "--json"], database_url)
    until(gate.with_suffix(".started").exists, "the flow started")
    waiting = pack.admit(3, payload={"file": str(gate)})

    worker.process.send_signal(signal.SIGTERM)
    until(lambda: all(row["DrainStartedAt"] for row in own_rows()), "the drain was recorded")
    assert worker.process.poll() is None
    assert item_row(held)["State"] == "processing"
    gate.touch()

    assert worker.wait() == 0, worker.output
    assert item_row(held)["State"] == "succeeded"
    assert [item_row(work_id)["State"] for work_id in waiting] == ["pending"] * 3
    rows = own_rows()
    assert len(rows) == 2, "the worker's own row and one fence"
    assert all(row["StoppedAt"] for row in rows)


def test_worker__on_sigterm_gives_back_what_it_has_claimed_ahead(database_url, tmp_path):
    gate, record = tmp_path / "gate", tmp_path / "runs"
    pack = Pack(flow="tests.record")
    payload = {"file": str(record)}
    before = pack.admit(100, payload=payload)
    (held,) = pack.admit(payload={"file": str(gate)}, FlowName="tests.hold")
    after = pack.admit(60, payload=payload)
    worker = manage(["work", "--concurrency", "1", "--roles", "claim"], database_url)
    until(gate.with_suffix(".started").exists, "the flow started")
    waiting = "SELECT WorkId FROM _System_ConnectorWorkItem WHERE State = 'processing' AND WorkId <> %s"
    until(lambda: query(waiting, held), "fast flows made it claim ahead")

    worker.process.send_signal(signal.SIGTERM)
    until(lambda: all(row["DrainStartedAt"] for row in own_rows()), "the drain was recorded")
    gate.touch()

    assert worker.wait() == 0, worker.output
    rows = {work_id: item_row(work_id) for work_id in (*before, held, *after)}
    given_back = {work_id for work_id, row in rows.items() if row["FailureClass"] == "released"}
    assert given_back, "nothing was claimed ahead"
    for work_id in given_back:
        row = rows[work_id]
        assert (row["State"], row["Attempt"], row["MaxAttempts"], row["FailureCount"]) == ("retry", 1, 4, 0)
        assert (row["LeaseToken"], row["LeaseOwner"], row["LeaseUntil"]) == (None, None, None)
    assert {row["State"] for row in rows.values()} <= {"succeeded", "retry", "pending"}
    assert not given_back & set(record.read_text().split())

    other = manage(["work", "--roles", "claim", "--until-idle"], database_url)
    assert other.wait() == 0, other.output
    assert Counter(record.read_text().split()) == Counter([*before, *after])
    assert {tuple(row["Outcome"] for row in attempt_rows(work_id)) for work_id in given_back} == {("released", None)}


def test_worker__whose_flow_outlasts_the_drain_stops_and_leaves_the_lease(database_url, tmp_path):
    gate = tmp_path / "gate"
    (held,) = Pack(flow="tests.hold").admit(payload={"file": str(gate)})
    worker = manage(["work", "--concurrency", "1", "--drain-timeout", "0.2", "--roles", "claim"], database_url)
    until(gate.with_suffix(".started").exists, "the flow started")

    worker.process.send_signal(signal.SIGTERM)

    assert worker.wait() == 1, worker.output
    row = item_row(held)
    assert (row["State"], row["Attempt"]) == ("processing", 1)
    assert row["LeaseToken"] is not None
    assert all(row["StoppedAt"] is None for row in own_rows()), "it cannot say that it stopped"


def test_worker__renews_the_lease_of_a_flow_that_runs_longer(database_url, tmp_path):
    gate = tmp_path / "gate"
    (held,) = Pack(flow="tests.hold").admit(payload={"file": str(gate)})
    worker = manage(["work", "--concurrency", "1", "--lease-seconds", "3", "--until-idle"], database_url)
    until(gate.with_suffix(".started").exists, "the flow started")
    first = item_row(held)["LeaseUntil"]
    until(lambda: (item_row(held)["LeaseUntil"] - first).total_seconds() > 3, "the lease was renewed past its end")
    gate.touch()

    assert worker.wait() == 0, worker.output
    row = item_row(held)
    assert (row["State"], row["Attempt"], row["OwnershipEpoch"]) == ("succeeded", 1, 1)
