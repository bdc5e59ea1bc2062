"""A pack's work handed to WorkItems while executors and workers run: nobody overlaps, nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.cutover.inbound.verify import verify
from tests.support.inbound import arguments, forward, receipts_of, roll_back, work_of
from tests.support.legacy import LegacyPack, expire_claim
from tests.support.meetings import await_file
from tests.support.processes import Command, manage, race, start_python
from tests.support.work import event_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACERS = "tests.concurrency.cutover.inbound_racers"
_PATIENCE = 200.0
WORK = ["work", "--concurrency", "2", "--roles", "claim,reap", "--poll-ms", "10", "--json"]


def document(command: Command, code: int = 0) -> Any:
    assert command.wait(_PATIENCE) == code, command.output
    return json.loads(command.output.splitlines()[-1])


def await_change(is_so: Any) -> None:
    deadline = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def started(function: str, **kwargs: Any) -> Any:
    """Return the arguments of a process that runs one function of the racers."""
    return ["-m", "tests.support.processes", f"{RACERS}:{function}", json.dumps(kwargs)]


@pytest.mark.evidence("C-01", "C-02", "C-08")
def test_forward__beside_a_running_executor_and_a_worker_never_lets_both_execute(database_url, tmp_path):
    gate, record = tmp_path / "gate", tmp_path / "runs"
    pack = LegacyPack(flow="tests.record")
    pack.route()
    held_route = pack.route("deal.held", flow={"name": "tests.hold", "version": 1})
    (held,) = pack.events(payload={"file": str(gate)}, RouteId=held_route, EventKind="deal.held")
    rest = pack.events(8, payload={"file": str(record)})
    mirrors = [pack.mirror(event_id) for event_id in rest[:4]]

    executor = manage(["legacy_execute", "--pack-install-id", pack.pack_id, "--json"], database_url)
    await_file(gate.with_suffix(".started"))
    worker = manage(WORK, database_url, LOCKHOUSE_LOG_LEVEL="WARNING")
    cutover = manage(arguments(pack, "forward", "--timeout", "200"), database_url)
    await_change(lambda: all(work_of(event_id) for event_id in rest))
    # The executor still runs what it had claimed: no receipt, and no WorkItem is claimed.
    assert event_row(held)["Status"] == "processing"
    assert receipts_of(pack) == []
    assert query("SELECT WorkId FROM _System_ConnectorWorkItem WHERE Attempt > 0") == []
    restarted = manage(["legacy_execute", "--pack-install-id", pack.pack_id, "--json"], database_url)
    assert document(restarted, 3)["error"] == "claim_fenced"
    assert receipts_of(pack) == [], "the held Event has not ended"
    gate.touch()

    done = document(cutover)
    assert done["is_new"] is True
    await_change(lambda: len(record.read_text().split()) == len(rest) if record.exists() else False)
    await_change(lambda: not query("SELECT 1 FROM _System_ConnectorWorkItem WHERE State <> 'succeeded'"))
    assert document(executor, 3)["error"] == "claim_fenced", "it ended by itself"
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait(_PATIENCE) == 0, worker.output

    works = [work_of(event_id)[0]["WorkId"] for event_id in rest]
    assert Counter(record.read_text().split()) == Counter(works)
    assert set(mirrors) < set(works)
    assert event_row(held)["Status"] == "processed"
    assert work_of(held) == []
    (receipt,) = receipts_of(pack)
    first = query("SELECT MIN(StartedAt) AS At FROM _System_ConnectorExecutionAttempt")[0]["At"]
    assert first > receipt["WrittenAt"] >= event_row(held)["TerminalAt"], "the old owner had ended before the new began"
    assert verify(pack.pack_id).faults == ()


#: Failpoint -> whether a receipt is there after the kill.
KILLS = {
    "cutover.before_evict": False,
    "inbound_forward.stopping": False,
    "inbound_forward.stopped": False,
    "inbound_forward.materializing": False,
    "inbound_forward.materialized": False,
    "inbound_forward.taken_back": False,
    "inbound_forward.proved": False,
    "inbound_forward.written": False,
    "inbound_forward.committed": True,
}


@pytest.mark.evidence("C-01", "C-02", "C-11")
@pytest.mark.parametrize("point", KILLS)
def test_forward__killed_at_any_step_is_taken_up_by_the_next(database_url, tmp_path, point):
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    events = pack.events(3)
    pack.mirror(events[0])
    pack.claim(events[1])
    expire_claim(events[1])

    killed = manage(arguments(pack, "forward"), database_url, failpoint=point, folder=tmp_path)
    assert killed.wait(_PATIENCE) == -signal.SIGKILL, killed.output
    assert killed.fired() == point
    assert len(receipts_of(pack)) == int(KILLS[point])

    done = forward(pack, timeout_seconds=60.0)
    assert done.is_new is not KILLS[point]
    (receipt,) = receipts_of(pack)
    assert receipt["ReceiptId"] == done.receipt_id
    assert [len(work_of(event_id)) for event_id in events] == [1, 1, 1]
    assert verify(pack.pack_id).holds
    ended = query("SELECT action FROM console_auditentry WHERE action = 'inbound_cutover.moved_forward'")
    assert len(ended) == 1


@pytest.mark.evidence("C-01", "C-11")
def test_forwards__at_once_write_one_receipt_and_one_work_item_an_event(database_url):
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    events = pack.events(40)
    done = race(f"{RACERS}:forward_at_once", [{"pack_id": pack.pack_id}] * 3, database_url)
    (receipt,) = receipts_of(pack)
    assert {one["receipt_id"] for one in done} == {receipt["ReceiptId"]}
    assert [one["is_new"] for one in done].count(True) == 1
    assert sum(one["materialized"] for one in done) == len(events)
    assert [len(work_of(event_id)) for event_id in events] == [1] * len(events)


# A process that is stopped after it observed whose the work is


def stopped(command: Command, folder: Path) -> int:
    """Let a process go on to where it stops itself; return its id once the system has stopped it."""
    assert command.process.stdout is not None
    assert command.process.stdin is not None
    assert command.process.stdout.readline() == "ready\n"
    command.process.stdin.write("go\n")
    command.process.stdin.flush()
    await_file(folder / "observed")
    await_change(lambda: (folder / "observed").read_text() != "")
    pid = int((folder / "observed").read_text())
    await_change(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    return pid


def answer(command: Command, pid: int) -> Any:
    os.kill(pid, signal.SIGCONT)
    assert command.wait(_PATIENCE) == 0, command.output
    return json.loads(command.output.splitlines()[-1])


@pytest.mark.evidence("C-12", "C-02")
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
def test_executor__stopped_before_its_claim_cannot_claim_after_the_cutover(database_url, tmp_path, guarded):
    """Without the look at its own row and the lease, it would: the control."""
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    (event_id,) = pack.events()
    asked = {"pack_id": pack.pack_id, "event_id": event_id, "folder": str(tmp_path), "guarded": guarded}
    executor = start_python(started("claim_event_after_stop", **asked), database_url)
    pid = stopped(executor, tmp_path)
    assert forward(pack, timeout_seconds=60.0).is_new, "what is stopped does not hold it up"
    found = answer(executor, pid)
    if guarded:
        assert found == "fenced"
        assert event_row(event_id)["Status"] == "pending"
        assert verify(pack.pack_id).holds
    else:
        assert found == "claimed", "the race would not have been noticed"
        assert not verify(pack.pack_id).holds


@pytest.mark.evidence("C-12", "C-08")
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
def test_worker__stopped_between_the_receipt_and_its_claim_cannot_claim_once_evicted(database_url, tmp_path, guarded):
    """It observed a receipt that is not the newest any more; without the look at its own row it would claim."""
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    (event_id,) = pack.events()
    forward(pack)
    asked = {"pack_id": pack.pack_id, "folder": str(tmp_path), "guarded": guarded}
    worker = start_python(started("claim_item_after_stop", **asked), database_url)
    pid = stopped(worker, tmp_path)
    roll_back(pack)
    assert forward(pack).owner_generation == 3
    found = answer(worker, pid)
    assert found == ("fenced" if guarded else "claimed")
    assert work_of(event_id)[0]["Attempt"] == int(not guarded)


@pytest.mark.evidence("C-01", "C-02")
def test_forward__waits_for_a_claim_in_flight_and_then_sees_it(database_url, tmp_path):
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    (event_id,) = pack.events()
    pack.mirror(event_id)
    shared = {"pack_id": pack.pack_id, "folder": str(tmp_path)}
    claimed, cutover = meet({**shared, "event_id": event_id}, shared, database_url)
    assert claimed == "claimed"
    assert cutover == {"written": False, "refused": ["events_processing", "event_claims"]}
    assert receipts_of(pack) == []


def test_forward__without_its_guards_writes_a_receipt_over_a_claim_in_flight(database_url, tmp_path):
    """The negative control: rows that are not locked and a lease that is not taken; both own the Event."""
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    (event_id,) = pack.events()
    pack.mirror(event_id)
    shared = {"pack_id": pack.pack_id, "folder": str(tmp_path)}
    claimed, cutover = meet(
        {**shared, "event_id": event_id, "until": "written"}, {**shared, "guarded": False}, database_url
    )
    assert (claimed, cutover["written"]) == ("claimed", True), "the race would not have been noticed"
    assert event_row(event_id)["Status"] == "processing"
    assert len(receipts_of(pack)) == 1


def meet(claim: dict[str, Any], cutover: dict[str, Any], database_url: str) -> tuple[Any, Any]:
    """Run a claim and a cutover at once; return what each came to."""
    commands = [
        start_python(started(function, **kwargs), database_url)
        for function, kwargs in (("claim_in_flight", claim), ("forward_around_claim", cutover))
    ]
    for command in commands:
        assert command.process.stdout is not None
        assert command.process.stdout.readline() == "ready\n"
    for command in commands:
        assert command.process.stdin is not None
        command.process.stdin.write("go\n")
        command.process.stdin.flush()
    found = []
    for command in commands:
        assert command.wait(_PATIENCE) == 0, command.output
        found.append(json.loads(command.output.splitlines()[-1]))
    return found[0], found[1]
