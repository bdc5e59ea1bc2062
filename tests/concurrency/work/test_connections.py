"""The server ends a worker's connections again and again while it works: nothing is lost, nothing is stored twice."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import DatabaseError, connections

from tests.concurrency.work.waits import until
from tests.support.processes import manage
from tests.support.relay import Relay
from tests.support.work import Pack, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-03")]
COUNT, KILLS = 600, 40


OTHERS = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"


def end_connections() -> int:
    """Have the server end every other connection to this test's database; return how many there were."""
    try:
        others = query(OTHERS)
        for row in others:
            with connections["default"].cursor() as cursor:
                cursor.execute(f"KILL {row['ID']}")
    except DatabaseError:
        # It was gone already.
        connections["default"].close()
        return 0
    return len(others)


@pytest.fixture
def cut(database_url, tmp_path, engine):
    """Return the address for the worker, and how its connections are ended.

    A TiDB of this version falls over as a whole when a session is killed whose transaction has written: its rollback
    asks for memory, and that finds the kill pending and panics. There they are cut on the way.
    """
    if engine == "mariadb":
        yield database_url, end_connections
        return
    with Relay(database_url, tmp_path / "relay.sock").running() as relay:
        yield relay.url, relay.cut


def test_worker__goes_on_after_its_connections_are_ended(cut, tmp_path):
    url, end = cut
    record = tmp_path / "runs"
    record.touch()
    ids = Pack(flow="tests.record").admit(COUNT, payload={"file": str(record)}, MaxAttempts=100)
    worker = manage(
        ["work", "--until-idle", "--concurrency", "4", "--lease-seconds", "2", "--roles", "claim,reap"], url
    )
    ended = 0

    def kill_until_done() -> bool:
        nonlocal ended
        if ended < KILLS:
            ended += end()
        return worker.process.poll() is not None or ended >= KILLS

    until(lambda: record.read_text(), "the worker runs")  # noqa: PLW0108
    until(kill_until_done, "enough connections were ended, or the work was done")

    assert worker.wait() == 0, worker.output
    assert ended >= 4, "each of its threads lost its connection once"
    assert "work.database_away" in worker.output or "transaction.failed" in worker.output
    runs = Counter(record.read_text().split())
    rows = query("SELECT WorkId, State, Attempt, OwnershipEpoch FROM _System_ConnectorWorkItem")
    assert Counter(row["State"] for row in rows) == {"succeeded": COUNT}
    assert {row["WorkId"] for row in rows} == set(ids)
    assert all(row["Attempt"] == row["OwnershipEpoch"] for row in rows)
    assert all(1 <= runs[row["WorkId"]] <= row["Attempt"] for row in rows)
