"""B2: claim, run a flow that does nothing, complete behind the fence; two worker processes on a backlog.

Each side has a backlog of its own on the same server. A round drains each side's backlog for the same time,
one side after the other, so that what else the machine does hits all of them.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.harness import PEER_PYTHON, Report, Server, Workspace, install_lockhouse, resident_mib, workspace
from bench.peers import floor
from tests.support.processes import free_port

PROCESSES = 2
_LANES = 2000
Starter = Callable[[], contextlib.AbstractContextManager[list[Any]]]


@dataclass
class Side:
    """One system under measurement.

    Attributes:
        name: As the report calls it.
        database: Where its backlog is.
        done: SQL that counts what is finished.
        ready: SQL that counts what waits.
        load: Adds so many items to the backlog.
        start: Runs the worker processes.
        appetite: How many times the backlog it may drain within a round.
    """

    name: str
    database: str
    done: str
    ready: str
    load: Callable[[int], None]
    start: Starter
    appetite: int = 1


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    backlog, seconds = (1500, 2.0) if quick else (20_000, 6.0)
    report = Report(bench="b2", engine=server.engine, quick=quick)
    report.facts |= {"worker processes": PROCESSES, "backlog": backlog, "seconds a window": seconds}
    with workspace() as work:
        lost: dict[str, list[int]] = {}
        sides = [_lockhouse(work, server, lost, "lockhouse"), _floor(work, server)]
        if not server.is_tidb:
            sides.append(_tasks_db(work, server))
        sides.append(_lockhouse(work, server, lost, "lockhouse, lanes"))
        for _ in range(rounds):
            for side in sides:
                # A peer that stood still for a whole window is no measure; that it did so is.
                while not _measure(report, server, side, backlog, seconds):
                    still = f"{side.name}: windows in which nothing was done"
                    report.facts[still] = report.facts.get(still, 0) + 1
        for name, (tried, won) in lost.items():
            report.facts[f"{name}: lost claims, %"] = round(100 * (tried - won) / max(tried, 1), 2)
        _burn_down(report, server, sides[0])
    _judge(report, server)
    return report


def _judge(report: Report, server: Server) -> None:
    to_floor = report.compare("lockhouse / floor, jobs/s", "lockhouse: jobs/s", "floor: jobs/s")
    report.demand(">= 0.6 x the raw floor", to_floor.median >= 0.6)
    report.compare("lockhouse with lanes / without", "lockhouse, lanes: jobs/s", "lockhouse: jobs/s")
    if "django-tasks-db: jobs/s" in report.series:
        to_peer = report.compare("lockhouse / django-tasks-db, jobs/s", "lockhouse: jobs/s", "django-tasks-db: jobs/s")
        report.compare("lockhouse / django-tasks-db, RSS", "lockhouse: RSS MiB", "django-tasks-db: RSS MiB")
        report.demand(">= 1.5 x the best Python peer", to_peer.median >= 1.5)
    if not server.is_tidb:
        worst = max(report.series["lockhouse: commits/job"])
        # The workers' own heartbeats are commits too.
        report.demand("<= 2 commits a job (2.05 with heartbeats)", worst <= 2.05)


def _measure(report: Report, server: Server, side: Side, backlog: int, seconds: float) -> bool:
    waiting = int(server.value(side.ready))
    if waiting < backlog * side.appetite:
        side.load(backlog * side.appetite - waiting)
    with side.start() as running:
        base = int(server.value(side.done))
        deadline = time.monotonic() + 60
        while int(server.value(side.done)) < base + 40:
            if time.monotonic() > deadline or any(process.poll() is not None for process in running):
                message = f"{side.name} did not start to work"
                raise RuntimeError(message)
            time.sleep(0.05)
        # Workers learn of each other by their heartbeats.
        time.sleep(seconds)
        first, commits, started = int(server.value(side.done)), server.commits(), time.monotonic()
        time.sleep(seconds)
        last, committed, ended = int(server.value(side.done)), server.commits(), time.monotonic()
        if last == first:
            return False
        report.add(f"{side.name}: RSS MiB", resident_mib([process.pid for process in running]))
        if int(server.value(side.ready)) == 0:
            message = f"{side.name} emptied its backlog within the window"
            raise RuntimeError(message)
    report.add(f"{side.name}: jobs/s", (last - first) / (ended - started))
    if not server.is_tidb:
        report.add(f"{side.name}: commits/job", (committed - commits) / (last - first))
    return True


def _lockhouse(work: Workspace, server: Server, lost: dict[str, list[int]], name: str) -> Side:
    laned = name.endswith("lanes")
    database = "lockhouse_lanes" if laned else "lockhouse"
    environment = install_lockhouse(work, server, database)
    state = [""]

    def load(count: int) -> None:
        printed = work.python(["-m", "bench.loading", str(count), state[0]], environment)
        state[0] = printed.splitlines()[-1]
        if laned:
            # Some ten items a lane, each lane's spread over the backlog.
            for table in ("Event", "WorkItem"):
                server.run(
                    f"UPDATE `{database}`._System_Connector{table}"
                    " SET SourceLane = CONCAT('deal:', MOD(LaneOrdinal, %s)),"
                    " TargetLane = CONCAT('deal:', MOD(LaneOrdinal, %s)) WHERE SourceLane IS NULL",
                    (_LANES, _LANES),
                )

    @contextlib.contextmanager
    def start() -> Iterator[list[Any]]:
        ports = [free_port() for _ in range(PROCESSES)]
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(
                    work.process(
                        ["manage.py", "work", "--roles", "claim,reap", "--metrics-port", str(port)], environment
                    )
                )
                for port in ports
            ]
            counts = lost.setdefault(name, [0, 0])
            for port in ports:
                for outcome, count in _claims(port):
                    counts[0] += count
                    counts[1] += count if outcome == "claimed" else 0

    table = f"`{database}`._System_ConnectorWorkItem"
    return Side(
        name=name,
        database=database,
        done=f"SELECT COUNT(*) FROM {table} WHERE State = 'succeeded'",
        ready=f"SELECT COUNT(*) FROM {table} WHERE State = 'pending'",
        load=load,
        start=start,
    )


def _claims(port: int) -> list[tuple[str, int]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("lockhouse_work_claims_total{")]
    return [(line.split('"')[1], int(float(line.rsplit(" ", 1)[1]))) for line in found]


def _peer_environment(work: Workspace, server: Server, database: str) -> dict[str, str]:
    socket = parse_qs(urlsplit(server.url).query)["unix_socket"][0]
    return work.environment(
        server.database_url(database), "bench.peers.tasks_db.settings", PEER_DATABASE=database, PEER_SOCKET=socket
    )


def _floor(work: Workspace, server: Server) -> Side:
    environment = _peer_environment(work, server, "floor")
    connection = server.connect("floor")
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(floor.TABLE)

    def load(count: int) -> None:
        rows = [("ready", "2026-01-01", b"x" * 900)] * count
        with contextlib.closing(connection.cursor()) as cursor:
            for start in range(0, len(rows), 1000):
                cursor.executemany(
                    "INSERT INTO floor_item (state, run_after, payload) VALUES (%s, %s, %s)", rows[start : start + 1000]
                )

    @contextlib.contextmanager
    def start() -> Iterator[list[Any]]:
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(work.process(["-m", "bench.peers.floor"], environment)) for _ in range(PROCESSES)
            ]

    return Side(
        name="floor",
        database="floor",
        done="SELECT COUNT(*) FROM floor.floor_item WHERE state = 'done'",
        ready="SELECT COUNT(*) FROM floor.floor_item WHERE state = 'ready'",
        load=load,
        start=start,
        appetite=3,
    )


def _tasks_db(work: Workspace, server: Server) -> Side:
    environment = _peer_environment(work, server, "tasks_db")
    work.python(["-m", "django", "migrate", "--verbosity", "0"], environment, PEER_PYTHON)
    table = server.value(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'tasks_db' AND table_name LIKE %s",
        ("%dbtaskresult",),
    )

    def load(count: int) -> None:
        work.python(["-m", "bench.peers.tasks_db.load", str(count)], environment, PEER_PYTHON)

    @contextlib.contextmanager
    def start() -> Iterator[list[Any]]:
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(
                    work.process(
                        ["-m", "django", "db_worker", "--interval", "0.05", "--no-startup-delay", "--no-reload"],
                        environment,
                        PEER_PYTHON,
                    )
                )
                for _ in range(PROCESSES)
            ]

    return Side(
        name="django-tasks-db",
        database="tasks_db",
        done=f"SELECT COUNT(*) FROM tasks_db.`{table}` WHERE status = 'SUCCESSFUL'",
        ready=f"SELECT COUNT(*) FROM tasks_db.`{table}` WHERE status = 'READY'",
        load=load,
        start=start,
    )


def _burn_down(report: Report, server: Server, side: Side) -> None:
    """Drain what is left, and hold the books against each other: every item ended once."""
    unfinished = (
        f"SELECT COUNT(*) FROM `{side.database}`._System_ConnectorWorkItem"
        " WHERE State IN ('pending', 'processing', 'retry')"
    )
    with side.start() as running:
        pids = [process.pid for process in running]
        base = int(server.value(side.done))
        while int(server.value(side.done)) < base + 40:
            time.sleep(0.1)
        before = resident_mib(pids)
        while int(server.value(unfinished)) > 0:
            time.sleep(0.2)
        report.facts["RSS growth over the burn-down, MiB"] = round(resident_mib(pids) - before, 1)
    database = side.database
    items, done, epochs = server.rows(
        f"SELECT COUNT(*), SUM(State = 'succeeded'), SUM(OwnershipEpoch) FROM `{database}`._System_ConnectorWorkItem"
    )[0]
    attempts = server.value(f"SELECT COUNT(*) FROM `{database}`._System_ConnectorExecutionAttempt")
    report.facts["items, succeeded, claims, attempt rows"] = json.dumps(
        [int(items), int(done), int(epochs), int(attempts)]
    )
    report.demand("every item ended exactly once", int(items) == int(done) == int(epochs) == int(attempts))
