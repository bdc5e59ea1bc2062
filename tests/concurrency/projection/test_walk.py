"""Four hundred sources, visited by a window that walks over them while two workers admit and execute."""

from __future__ import annotations

import signal
import time

import pytest

from tests.concurrency.work.waits import until
from tests.support import admission, walking, webhooks
from tests.support.processes import Command, manage
from tests.support.walking import Walk
from tests.support.work import change, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1500)]


def is_over(workers: list[Command]) -> bool:
    for worker in workers:
        assert worker.process.poll() is None, worker.wait() or worker.output
    received = query("SELECT 1 FROM _System_ConnectorIngressReceipt WHERE State = 'received' LIMIT 1")
    unfinished = query(
        "SELECT 1 FROM _System_ConnectorWorkItem WHERE State IN ('pending', 'processing', 'retry') LIMIT 1"
    )
    return not received and not unfinished


@pytest.mark.evidence("P-01", "P-21")
def test_walk__over_four_hundred_sources_gives_every_input_once_and_in_order(database_url, tmp_path):
    walk, written = Walk(width=2, laps=2), tmp_path / "written"
    webhooks.activate(walking.document())
    # Nobody reads what they say until they have ended.
    workers = [manage(["work", "--poll-ms", "10"], database_url, LOCKHOUSE_LOG_LEVEL="WARNING") for _ in range(2)]
    try:
        begun = time.monotonic()
        for inputs in walk.steps():
            for source, number in inputs:
                admission.receive(walking.body(source, number, str(written)))
        until(lambda: is_over(workers), "every receipt became work and every generation ended", seconds=900)
        took = time.monotonic() - begun
    finally:
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)
        codes = [worker.wait() for worker in workers]
    assert codes == [0, 0], [worker.output for worker in workers]

    assert walking.faults(walk, written) == {}
    assert admission.unowned_inputs() == {}
    (count,) = query("SELECT COUNT(*) AS n, COUNT(DISTINCT SourceLane) AS lanes FROM _System_ConnectorWorkItem")
    assert count["lanes"] == walking.SOURCES
    # Some inputs coalesced.
    assert walking.SOURCES <= count["n"] < walk.count
    print(f"{walk.count / took:.0f} inputs a second, {walk.count / count['n']:.2f} a generation")

    # The check itself sees an input that is nobody's, and one that was given twice.
    change(
        "UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = LaneOrdinal + 1 WHERE LaneOrdinal = %s", walk.count
    )
    assert set(walking.faults(walk, written)) == {"inputs not in exactly one generation"}
    line = written.read_text(encoding="ascii").splitlines()[0]
    with written.open("a", encoding="ascii") as file:
        file.write(f"{line}\n")
    assert set(walking.faults(walk, written)) == {
        "inputs not in exactly one generation",
        "generations executed twice",
    }
