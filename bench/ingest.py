"""B1: webhooks in, over HTTP: verified and committed before the answer.

Both sides are served by the same gunicorn settings on the same database server, and both wait the whole
time; a round posts to one, then to the other.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench import webhooks
from bench.harness import Server, install_lockhouse, workspace
from bench.report import Report
from bench.stats import percentile

_STALL_SECONDS = 8.0
_DEADLINE_SECONDS = 5.0
_OURS = "lockhouse._System_ConnectorIngressReceipt"
_THEIRS = "naive.naive_delivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One web server and the table that it stores deliveries in."""

    name: str
    base: str
    table: str


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    seconds = 2.0 if quick else 8.0
    report = Report(bench="b1", engine=server.engine, quick=quick)
    report.facts |= {"connections": 32, "body, bytes": webhooks.BODY_BYTES, "seconds a round": seconds}
    with workspace() as work:
        ours = install_lockhouse(work, server)
        theirs = {**work.environment(server.database_url("naive"))}
        work.python(["-m", "bench.peers.naive.app"], theirs)
        bodies = work.folder / "bodies"
        webhooks.write_bodies(bodies)
        with (
            work.gunicorn("console.wsgi:application", ours) as lockhouse,
            work.gunicorn("bench.peers.naive.app:application", theirs) as naive,
        ):
            sides = (
                Side(name="lockhouse", base=lockhouse, table=_OURS),
                Side(name="naive", base=naive, table=_THEIRS),
            )
            for side in sides:
                webhooks.await_answers(side.base)
                webhooks.wrk(side.base, bodies, 3)
            for _ in range(rounds):
                for side in sides:
                    _post(report, server, side, bodies, seconds)
            _judge(report)
            with work.process(["manage.py", "work", "--roles", "materialize"], ours):
                _materialize(report, server, lockhouse, bodies, seconds)
            if not server.is_tidb:
                for side in sides:
                    _stall(report, server, side)
    return report


def _post(report: Report, server: Server, side: Side, bodies: Path, seconds: float) -> None:
    name, table = side.name, side.table
    stored, commits = int(server.value(f"SELECT COUNT(*) FROM {table}")), server.commits()
    found = webhooks.wrk(side.base, bodies, seconds)
    stored = int(server.value(f"SELECT COUNT(*) FROM {table}")) - stored
    commits = server.commits() - commits
    report.add(f"{name}: receipts/s", stored / found["seconds"])
    report.add(f"{name}: p50 ms", found["p50"])
    report.add(f"{name}: p99 ms", found["p99"])
    report.add(f"{name}: max ms", found["max"])
    report.add(f"{name}: refused, %", 100 * found["refused"] / found["requests"])
    if not server.is_tidb:
        report.add(f"{name}: commits/receipt", commits / stored)
    if found["broken"]:
        report.facts[f"{name}: broken connections"] = (
            report.facts.get(f"{name}: broken connections", 0) + found["broken"]
        )


def _judge(report: Report) -> None:
    rate = report.compare("lockhouse / naive, receipts/s", "lockhouse: receipts/s", "naive: receipts/s")
    late = report.compare("lockhouse / naive, p99", "lockhouse: p99 ms", "naive: p99 ms")
    report.compare("lockhouse / naive, p50", "lockhouse: p50 ms", "naive: p50 ms")
    report.demand("receipts >= 0.8 x naive", rate.median >= 0.8)
    report.demand("p99 <= 1.5 x naive", late.median <= 1.5)


def _materialize(report: Report, server: Server, base: str, bodies: Path, seconds: float) -> None:
    """Post with a materializer beside it, and tell how far it stays behind."""
    waiting = f"SELECT COUNT(*) FROM {_OURS} WHERE State = 'received'"
    whole = int(server.value(waiting))
    deadline = time.monotonic() + 60
    # Not the worker's own start.
    while int(server.value(waiting)) == whole and time.monotonic() < deadline:
        time.sleep(0.05)
    started, backlog = time.monotonic(), int(server.value(waiting))
    while (left := int(server.value(waiting))) > 0 and time.monotonic() - started < 2 * seconds:
        time.sleep(0.1)
    report.facts["materialized from a backlog, receipts/s"] = round((backlog - left) / (time.monotonic() - started), 1)
    # What is left would only stand in the way of the lag that is measured next.
    server.run(f"DELETE FROM {_OURS} WHERE State = 'received'")
    since = server.value("SELECT UTC_TIMESTAMP(6)")
    found = webhooks.wrk(base, bodies, seconds)
    backlog = int(server.value(waiting))
    while int(server.value(waiting)) > 0:
        time.sleep(0.05)
    lags = [
        int(row[0]) / 1000
        for row in server.rows(
            f"SELECT TIMESTAMPDIFF(MICROSECOND, ReceivedAt, MaterializedAt) FROM {_OURS}"
            " WHERE ReceivedAt >= %s AND State = 'materialized'",
            (since,),
        )
    ]
    report.facts["with a materializer: receipts/s"] = round(len(lags) / found["seconds"], 1)
    report.facts["with a materializer: p99 ms"] = round(found["p99"], 1)
    report.facts["materialization lag p50, ms"] = round(percentile(lags, 0.5), 1)
    report.facts["materialization lag p99, ms"] = round(percentile(lags, 0.99), 1)
    report.facts["backlog when the posts ended"] = backlog
    quarantined = int(server.value(f"SELECT COUNT(*) FROM {_OURS} WHERE State = 'quarantined'"))
    report.demand("every receipt became work, none was quarantined", quarantined == 0)


def _stall(report: Report, server: Server, side: Side) -> None:
    """Stop the database for 8 s under load: no late answer may say that a receipt is stored, and none may lie."""
    name, table, pid = side.name, side.table, server.pid()
    clients = webhooks.SteadyClients(side.base, 16)
    clients.start()
    time.sleep(2)
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        time.sleep(_STALL_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    time.sleep(4)
    answers = clients.stop()
    acknowledged = [answer for answer in answers if answer.status == 200]
    column = "DeliveryId" if name == "lockhouse" else "delivery_id"
    stored = {str(row[0]) for row in server.rows(f"SELECT {column} FROM {table} WHERE CHAR_LENGTH({column}) = 32")}
    unstored = sum(answer.delivery_id not in stored for answer in acknowledged)
    late = sum(answer.seconds > _DEADLINE_SECONDS for answer in acknowledged)
    met = [
        answer for answer in answers if answer.at - answer.seconds < stopped + _STALL_SECONDS and answer.at > stopped
    ]
    report.facts[f"{name}, stalled 8 s: answers by status"] = dict(
        sorted(Counter(answer.status for answer in met).items())
    )
    report.facts[f"{name}, stalled 8 s: slowest answer, s"] = round(max(answer.seconds for answer in answers), 2)
    report.facts[f"{name}, stalled 8 s: acks over 5 s"] = late
    report.facts[f"{name}, stalled 8 s: acks unstored"] = unstored
    if name == "lockhouse":
        refused = [answer.seconds for answer in met if answer.status == 503]
        slowest = max(refused, default=0.0)
        report.facts["lockhouse, stalled 8 s: slowest 503, s"] = round(slowest, 2)
        report.demand("0 acks over 5 s while the database stalls", late == 0)
        report.demand("0 acks unstored", unstored == 0)
        report.demand("503 by the deadline (4 s, answered within 5 s)", bool(refused) and slowest <= _DEADLINE_SECONDS)
