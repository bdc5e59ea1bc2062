"""B7: bulk replay by the worker, with a ledger and an audit entry for each row, beside webhooks at half their rate.

Its peers in the same rounds: the single replay in a bare loop (what the ledger costs), UPDATEs of 500 rows a
transaction on the same table (what no replay can be), and dj-queue's retry of all failed jobs. Then webhooks at a
steady pace, admitted by the same worker into the pack that is replayed, without a bulk replay beside them and with one.
At the end a worker is killed in the middle of a batch, and another one goes on. All of it may run over a table that
holds as many dead rows as are asked for, which nobody replays.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import dead_rows, rivals, webhooks
from bench.harness import ROOT, Server, Workspace, await_port, install_lockhouse, workspace
from bench.history import Probe
from bench.report import Report
from bench.rivals import DjangoPeer
from bench.stats import median
from tests.support.processes import free_port
from tests.support.servers import BOUND_TO_CALLER

_WORKER = ("manage.py", "work", "--roles", "batches,materialize", "--lease-seconds", "5")
_CONNECTIONS = 32
_ENDS_SECONDS = 240
_LOST = ("1205", "1213")
_COUNTERS = ("lock_deadlocks", "lock_timeouts")


def run(server: Server, *, quick: bool, rounds: int, dead: int = 0) -> Report:
    """Measure; see the module's docstring."""
    report = Report(bench="b7", engine=server.engine, quick=quick)
    rows, seconds = (60, 2.0) if quick else (600, 8.0)
    with workspace() as work, contextlib.ExitStack() as stack:
        environment = install_lockhouse(work, server)
        if dead:
            started = time.monotonic()
            dead_rows.load(server, dead)
            report.facts |= {"dead rows": dead, "seconds to load them": round(time.monotonic() - started)}
        peer = None if server.is_tidb else rivals.dj_queue(work, server)
        bodies = work.folder / "bodies"
        webhooks.write_bodies(bodies)
        driver = stack.enter_context(running_driver(environment))
        base = stack.enter_context(work.gunicorn("console.wsgi:application", environment))
        webhooks.await_answers(base)
        load = Load(work.folder, base, bodies, _half_of(report, base, bodies, seconds))
        if not server.is_tidb:
            for counter in _COUNTERS:
                server.run(f"SET GLOBAL innodb_monitor_enable = '{counter}'")
        lost = _lost(server, work)
        with _worker(environment, work):
            driver.ask("loop", count=20)
            for _ in range(rounds):
                _await_admission(server)
                _compare(report, driver, peer, rows)
                _beside(report, driver, load, seconds)
        for name, before in lost.items():
            report.facts[name] = _lost(server, work)[name] - before
        _kill(report, driver, environment, rows)
    if peer is None:
        report.facts["dj-queue"] = "left out: no Python of at least 3.12, or TiDB"
    _judge(report, has_peer=peer is not None)
    return report


@contextlib.contextmanager
def running_driver(environment: dict[str, str]) -> Iterator[Probe]:
    """Run `bench.bulk_driver`."""
    running = subprocess.Popen(
        [*BOUND_TO_CALLER, sys.executable, "-m", "bench.bulk_driver"],
        cwd=ROOT,
        env={**environment, "LOCKHOUSE_LOG_LEVEL": "WARNING"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Probe(running)
    finally:
        assert running.stdin is not None
        running.stdin.close()
        running.wait(timeout=30)


@contextlib.contextmanager
def _worker(environment: dict[str, str], work: Workspace) -> Iterator[None]:
    port = free_port()
    with work.process([*_WORKER, "--metrics-port", str(port)], environment) as running:
        await_port(running, port)
        yield


@dataclass(frozen=True, slots=True, kw_only=False)
class Load:
    """Webhooks at a steady pace, each client waiting between two posts.

    Attributes:
        folder: Where its script is written.
        base: The web server.
        bodies: What is posted.
        pause_ms: How long a client waits, on average.
    """

    folder: Path
    base: str
    bodies: Path
    pause_ms: float

    @contextlib.contextmanager
    def running(self, seconds: float) -> Iterator[dict[str, float]]:
        """Post for some seconds; what was measured is there when the block ends."""
        script = self.folder / "paced.lua"
        script.write_text(
            f"dofile({json.dumps(str(Path(webhooks.__file__).with_name('webhooks.lua')))})\n"
            # Clients that waited equally long would post together.
            f"function delay() return math.random(0, {2 * round(self.pause_ms)}) end\n"
        )
        posting = subprocess.Popen(
            [
                *(*BOUND_TO_CALLER, "wrk", f"-c{_CONNECTIONS}", "-t1", f"-d{seconds:.0f}s", "--timeout", "10s"),
                *("-s", str(script), self.base + webhooks.PATH, "--", str(self.bodies), uuid.uuid4().hex),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        found: dict[str, float] = {}
        try:
            yield found
            said, _ = posting.communicate(timeout=seconds + 60)
            (line,) = [line for line in said.splitlines() if line.startswith("RESULT ")]
            found.update(json.loads(line.removeprefix("RESULT ")))
        finally:
            if posting.poll() is None:
                posting.kill()
                posting.wait()


def _half_of(report: Report, base: str, bodies: Path, seconds: float) -> float:
    """Return how long each client has to wait so that half as much is posted as can be."""
    full = webhooks.wrk(base, bodies, seconds, connections=_CONNECTIONS)
    rate = full["requests"] / full["seconds"]
    report.facts["webhooks as fast as they go, a second"] = round(rate)
    return max(1.0, 1000 * _CONNECTIONS / (rate / 2) - full["p50"] / 2)


def _await_admission(server: Server) -> None:
    """Return when every webhook became work: admission runs in the process that replays."""
    waiting = "SELECT COUNT(*) FROM lockhouse._System_ConnectorIngressReceipt WHERE State = 'received'"
    deadline = time.monotonic() + _ENDS_SECONDS
    while int(server.value(waiting)) and time.monotonic() < deadline:
        time.sleep(0.1)


def _compare(report: Report, driver: Probe, peer: DjangoPeer | None, rows: int) -> None:
    """Replay rows in every way, one after the other."""
    report.add("loop without a ledger: rows/s", driver.ask("loop", count=rows)["rate"])
    batch = driver.ask("batch", count=rows)["id"]
    report.add("bulk replay: rows/s", _end(driver, batch)["rate"])
    report.add("raw UPDATE: rows/s", driver.ask("raw", count=10 * rows)["rate"])
    if peer is not None:
        peer.load(10 * rows)
        jobs, took = json.loads(
            peer.work.python(["-m", "bench.peers.dj_queue.retry"], peer.environment, peer.python).splitlines()[-1]
        )
        report.add("dj-queue: rows/s", jobs / took)


def _beside(report: Report, driver: Probe, load: Load, seconds: float) -> None:
    """Post webhooks alone, then beside a bulk replay that lasts longer than they do."""
    with load.running(seconds) as alone:
        pass
    count = min(10_000, int(1.2 * seconds * median(report.series["bulk replay: rows/s"])))
    batch = driver.ask("batch", count=count)["id"]
    while driver.ask("state", id=batch)["done"] < 1:
        time.sleep(0.02)
    with load.running(seconds) as beside:
        before = driver.ask("state", id=batch)["done"]
        started = time.monotonic()
    during, took = driver.ask("state", id=batch), time.monotonic() - started
    if during["state"] == "running":
        report.add("bulk replay beside webhooks: rows/s", (during["done"] - before) / took)
    else:
        report.add("bulk replay beside webhooks: rows/s", during["rate"])
    _end(driver, batch)
    for name, found in (("alone", alone), ("beside a bulk replay", beside)):
        report.add(f"webhooks {name}: a second", found["requests"] / found["seconds"])
        report.add(f"webhooks {name}: p50 ms", found["p50"])
        report.add(f"webhooks {name}: p99 ms", found["p99"])


def _end(driver: Probe, batch: str) -> dict[str, Any]:
    """Return a bulk replay's state when it has ended; anything but a child for each row is an error."""
    deadline = time.monotonic() + _ENDS_SECONDS
    while (found := driver.ask("state", id=batch))["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    if found["state"] != "finished" or found["left"] or found["replayed"] != found["done"]:
        message = f"a bulk replay ended as {found}"
        raise RuntimeError(message)
    return found


def _lost(server: Server, work: Workspace) -> dict[str, int]:
    """Return how many lock waits ran out and how many deadlocks there were, by the processes' logs and the server."""
    logs = "".join(log.read_text(errors="replace") for log in work.folder.glob("process-*.log"))
    found = {f"{number} in the logs": len(re.findall(rf"error_number\W+{number}\b", logs)) for number in _LOST}
    if not server.is_tidb:
        sql = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = %s"
        found |= {f"{name}, by the server": int(server.value(sql, (name,))) for name in _COUNTERS}
    return found


def _kill(report: Report, driver: Probe, environment: dict[str, str], rows: int) -> None:
    """Kill a worker in the middle of a batch, and let another one go on."""

    def start() -> subprocess.Popen[str]:
        command = [*BOUND_TO_CALLER, sys.executable, *_WORKER]
        quiet = {**environment, "LOCKHOUSE_LOG_LEVEL": "ERROR"}
        return subprocess.Popen(command, cwd=ROOT, env=quiet, stdout=subprocess.DEVNULL, text=True)

    batch = driver.ask("batch", count=rows)["id"]
    killed = start()
    try:
        while driver.ask("state", id=batch)["done"] < rows // 3 and killed.poll() is None:
            time.sleep(0.01)
    finally:
        killed.kill()
        killed.wait()
    between = driver.ask("state", id=batch)
    started, after = time.monotonic(), start()
    try:
        ended = _end(driver, batch)
    finally:
        after.terminate()
        after.wait(timeout=60)
    report.facts["killed after, of"] = f"{between['done']}, {rows}"
    report.facts["ended so many seconds later"] = round(time.monotonic() - started, 1)
    report.demand("the totals added up after the kill", between["adds_up"] and between["left"] > 0)
    report.demand("nothing was lost or done twice", ended["adds_up"] and driver.ask("whole", id=batch)["whole"])


def _judge(report: Report, *, has_peer: bool) -> None:
    ours = "bulk replay: rows/s"
    ledger = report.compare("bulk replay / loop without a ledger", ours, "loop without a ledger: rows/s")
    report.demand("the ledger costs at most half the rate", ledger.median >= 0.5)
    raw = report.compare("bulk replay / raw UPDATE", ours, "raw UPDATE: rows/s")
    report.demand(">= 0.2 x the raw UPDATE", raw.median >= 0.2)
    if has_peer:
        retried = report.compare("bulk replay / dj-queue", ours, "dj-queue: rows/s")
        report.demand(">= 3 x dj-queue", retried.median >= 3)
    late = report.compare(
        "webhooks' p99, beside / alone", "webhooks beside a bulk replay: p99 ms", "webhooks alone: p99 ms"
    )
    report.demand("webhooks' p99 <= 2 x that without a bulk replay", late.median <= 2)
