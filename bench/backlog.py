"""B5: what a backlog costs. B2's rate at a thousand to a million ready rows, under an old snapshot, and with readers.

Two worker processes drain backlogs of different depths in interleaved rounds; each backlog is fed while it is
drained, so that it stays as deep as it was. In the middle depth the same workers then go on while one session holds a
REPEATABLE READ snapshot, after it has let go of it, and while four sessions read all the time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench import rivals
from bench.depths import Depth, DjQueueDepth, Fed, LockhouseDepth, Stage, feeding, make_numbers
from bench.harness import Server, Workspace, workspace
from bench.report import Report
from bench.stats import percentile

PROCESSES = 2
_READERS = 4
#: What is held at hand for the first window, in jobs a second; later ones go by what was measured.
_FIRST_GUESS = 3000
#: Old row versions that a server at rest keeps, and how long it is waited for one to remove the others.
_RESTING_VERSIONS = 2_000
_LONGEST_PURGE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured.

    Attributes:
        depths: Ready rows, from shallow to deep.
        seconds: The length of a window, and of the warm-up before it.
        held_seconds: How long the snapshot is held.
    """

    depths: tuple[int, int, int]
    seconds: float
    held_seconds: float


@dataclass
class System:
    """One system at every depth.

    Attributes:
        name: As the report calls it.
        database: Of a depth.
        claim: The look for candidates that is timed; None times nothing.
        table: What readers read, and its predicate.
        backlogs: One a depth.
        rate: Jobs a second, as last measured.
    """

    name: str
    database: Callable[[int], str]
    claim: str | None
    table: str
    backlogs: list[Depth]
    rate: float = _FIRST_GUESS


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    if quick:
        sizes = Sizes(depths=(1_000, 2_000, 5_000), seconds=1.5, held_seconds=3.0)
    elif server.is_tidb:
        # The embedded store keeps all of it in memory.
        sizes = Sizes(depths=(1_000, 20_000, 200_000), seconds=4.0, held_seconds=60.0)
    else:
        sizes = Sizes(depths=(1_000, 100_000, 1_000_000), seconds=4.0, held_seconds=60.0)
    report = Report(bench="b5", engine=server.engine, quick=quick)
    report.facts |= {"worker processes": PROCESSES, "depths": str(sizes.depths), "seconds a window": sizes.seconds}
    with workspace() as work, _memory(server):
        started = time.monotonic()
        make_numbers(server, max(sizes.depths))
        systems = [_lockhouse(work, server, sizes)]
        queue = None if server.is_tidb else _dj_queue(work, server, sizes)
        if queue is not None:
            systems.append(queue)
        report.facts["seconds to load them"] = round(time.monotonic() - started)
        for _ in range(rounds):
            for system in systems:
                for backlog in system.backlogs:
                    _window(report, server, system, backlog, sizes)
        for system in systems:
            for _ in range(1 if quick else 2):
                _under_pressure(report, server, system, sizes)
            _judge(report, system, sizes)
    return report


@contextlib.contextmanager
def _memory(server: Server) -> Iterator[None]:
    """Give the server the memory that the indexes of a million rows take."""
    if server.is_tidb:
        yield
        return
    pool = int(server.value("SELECT @@innodb_buffer_pool_size"))
    server.run("SET GLOBAL innodb_buffer_pool_size = %s", (2 << 30,))
    server.run("SET SESSION unique_checks = 0")
    yield
    server.run("SET GLOBAL innodb_buffer_pool_size = %s", (pool,))


def _lockhouse(work: Workspace, server: Server, sizes: Sizes) -> System:
    stage = Stage(work, server)
    stage.hold(1)
    return System(
        name="lockhouse",
        database=lambda depth: f"depth_{depth}",
        claim=(
            "SELECT WorkId FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)"
            " WHERE State = 'pending' AND RunAfter <= UTC_TIMESTAMP(6) ORDER BY RunAfter, QueueClass, WorkId LIMIT 64"
        ),
        table="_System_ConnectorWorkItem",
        backlogs=[LockhouseDepth(stage, depth, sizes.depths[0]) for depth in sizes.depths],
    )


def _dj_queue(work: Workspace, server: Server, sizes: Sizes) -> System | None:
    backlogs: list[Depth] = []
    for depth in sizes.depths:
        peer = rivals.dj_queue(work, server, database=f"dj_queue_{depth}")
        if peer is None:
            return None
        backlogs.append(DjQueueDepth(peer, depth))
    return System(
        name="dj-queue",
        database=lambda depth: f"dj_queue_{depth}",
        claim=None,
        table="dj_queue_jobs",
        backlogs=backlogs,
    )


@contextlib.contextmanager
def _working(server: Server, system: System, backlog: Depth, seconds: float) -> Iterator[Fed]:
    # Half as much again, and what is done before the window.
    backlog.prepare(round(1.5 * system.rate * (seconds + 4)))
    # What the window before this one left to the server is no part of this one.
    _await_purge(server)
    with backlog.start(PROCESSES) as running, feeding(backlog) as fed:
        base, deadline = backlog.done(), time.monotonic() + 180
        while backlog.done() < base + 40:
            if time.monotonic() > deadline or any(process.poll() is not None for process in running):
                message = f"{backlog.name} did not start to work"
                raise RuntimeError(message)
            time.sleep(0.05)
        yield fed


def _await_purge(server: Server) -> float:
    """Wait until a server has removed the row versions that nobody needs; return how many seconds that took."""
    started = time.monotonic()
    while not server.is_tidb and server.status("Innodb_history_list_length").popitem()[1] > _RESTING_VERSIONS:
        if time.monotonic() - started > _LONGEST_PURGE_SECONDS:
            break
        time.sleep(0.2)
    return time.monotonic() - started


def _rate(backlog: Depth, seconds: float) -> float:
    first, begun = backlog.done(), time.monotonic()
    time.sleep(seconds)
    return (backlog.done() - first) / (time.monotonic() - begun)


def _window(report: Report, server: Server, system: System, backlog: Depth, sizes: Sizes) -> None:
    with _working(server, system, backlog, 3 * sizes.seconds) as fed:
        time.sleep(sizes.seconds)
        with _timed(report, server, system, backlog):
            rate = _rate(backlog, sizes.seconds)
    report.add(f"{backlog.name}: fed too late, %", fed.dry_percent)
    report.add(f"{backlog.name}: jobs/s", rate)
    system.rate = rate


@contextlib.contextmanager
def _timed(report: Report, server: Server, system: System, backlog: Depth) -> Iterator[None]:
    """Time the look for candidates twenty times a second."""
    if system.claim is None:
        yield
        return
    stopping, took = threading.Event(), list[float]()
    connection, claim = server.connect(system.database(backlog.depth)), system.claim

    def look() -> None:
        with contextlib.closing(connection.cursor()) as cursor:
            while not stopping.wait(0.05):
                begun = time.perf_counter()
                cursor.execute(claim)
                cursor.fetchall()
                took.append((time.perf_counter() - begun) * 1000)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        connection.close()
    if took:
        report.add(f"{backlog.name}: look for candidates p99, ms", percentile(took, 0.99))


def _under_pressure(report: Report, server: Server, system: System, sizes: Sizes) -> None:
    """Let one set of workers go on before, under and after a held snapshot, and with readers."""
    backlog = system.backlogs[1]
    seconds = sizes.held_seconds + 9 * sizes.seconds + _LONGEST_PURGE_SECONDS
    with _working(server, system, backlog, seconds):
        time.sleep(sizes.seconds)
        before = _rate(backlog, sizes.seconds)
        with _snapshot(server, system, backlog):
            time.sleep(max(sizes.held_seconds - sizes.seconds, 0))
            under = _rate(backlog, sizes.seconds)
        time.sleep(sizes.seconds)
        soon = _rate(backlog, sizes.seconds)
        report.add(f"{backlog.name}: seconds until the old versions are gone", 2 * sizes.seconds + _await_purge(server))
        after = _rate(backlog, sizes.seconds)
        with _readers(server, system, backlog):
            time.sleep(sizes.seconds)
            beside = _rate(backlog, sizes.seconds)
    rates = {"before": before, "held snapshot": under, "just released": soon, "released": after, "readers": beside}
    for name, rate in rates.items():
        report.add(f"{backlog.name}: jobs/s, {name}", rate)


@contextlib.contextmanager
def _snapshot(server: Server, system: System, backlog: Depth) -> Iterator[None]:
    connection = server.connect(system.database(backlog.depth))
    with contextlib.closing(connection.cursor()) as cursor:
        _open_snapshot(cursor, system.table)
    yield
    connection.rollback()
    connection.close()


def _open_snapshot(cursor: Any, table: str) -> None:
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    cursor.execute(f"SELECT 1 FROM `{table}` LIMIT 1")
    cursor.fetchall()


def _readers(server: Server, system: System, backlog: Depth) -> AbstractContextManager[None]:
    """Run sessions that read in snapshots of a second each, so that one is always open."""

    @contextlib.contextmanager
    def reading() -> Iterator[None]:
        stopping = threading.Event()

        def read() -> None:
            connection = server.connect(system.database(backlog.depth))
            with contextlib.closing(connection.cursor()) as cursor:
                while not stopping.is_set():
                    _open_snapshot(cursor, system.table)
                    cursor.execute(f"SELECT COUNT(*) FROM (SELECT 1 FROM `{system.table}` LIMIT 10001) AS capped")
                    cursor.fetchall()
                    stopping.wait(1.0)
                    cursor.execute("COMMIT")
            connection.close()

        threads = [threading.Thread(target=read) for _ in range(_READERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopping.set()
            for thread in threads:
                thread.join()

    return reading()


def _judge(report: Report, system: System, sizes: Sizes) -> None:
    shallow, middle, deep = (backlog.name for backlog in system.backlogs)
    for name in (middle, deep):
        report.compare(f"{name} / {sizes.depths[0]:,}", f"{name}: jobs/s", f"{shallow}: jobs/s")
    for name in ("held snapshot", "just released", "released", "readers"):
        report.compare(f"{system.name}: {name} / before", f"{middle}: jobs/s, {name}", f"{middle}: jobs/s, before")
    if system.name == "lockhouse":
        ratios = report.ratios
        report.demand(f">= 0.9 x at {sizes.depths[2]:,}", ratios[f"{deep} / {sizes.depths[0]:,}"].median >= 0.9)
        report.demand(">= 0.7 x under a held snapshot", ratios["lockhouse: held snapshot / before"].median >= 0.7)
        report.demand("recovery >= 0.95 x", ratios["lockhouse: released / before"].median >= 0.95)
