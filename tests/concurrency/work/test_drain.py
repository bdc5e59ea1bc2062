from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.support.processes import manage
from tests.support.work import Pack, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-08")]


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


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
    worker = manage(["work", "--concurrency", "1", "--lease-seconds", "1", "--until-idle"], database_url)
    until(gate.with_suffix(".started").exists, "the flow started")
    first = item_row(held)["LeaseUntil"]
    until(lambda: (item_row(held)["LeaseUntil"] - first).total_seconds() > 1, "the lease was renewed past its end")
    gate.touch()

    assert worker.wait() == 0, worker.output
    row = item_row(held)
    assert (row["State"], row["Attempt"], row["OwnershipEpoch"]) == ("succeeded", 1, 1)
