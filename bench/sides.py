"""The systems under measurement, each with a backlog of its own, and the window in which one of them works."""

from __future__ import annotations

import contextlib
import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bench.harness import Server, Workspace, await_port, install_lockhouse, resident_mib
from bench.peers import batch_floor, floor
from bench.report import Report
from tests.support.processes import free_port

WORK = ("manage.py", "work", "--roles", "claim,reap")
_LANES = 2000
_START_SECONDS = 180


@dataclass
class Side:
    """One system under measurement.

    Attributes:
        name: As the report calls it.
        done: Counts what is finished.
        ready: Counts what waits.
        load: Adds so many items to the backlog.
        start: Runs so many worker processes.
        appetite: How many times the backlog it may drain within a round.
        is_counted: Whether the server under test counts its commits.
        processes: How many worker processes it is given; None is as many as the benchmark says.
    """

    name: str
    done: Callable[[], int]
    ready: Callable[[], int]
    load: Callable[[int], None]
    start: Callable[[int], AbstractContextManager[list[Any]]]
    appetite: int = 1
    is_counted: bool = True
    processes: int | None = None


@dataclass
class Lockhouse:
    """The program in a database of its own.

    Attributes:
        name: As the report calls it.
        tried: Claims that its workers tried.
        won: Claims that they had.
    """

    work: Workspace
    server: Server
    name: str
    database: str
    is_laned: bool = False
    command: tuple[str, ...] = WORK
    flow: str = "bench.noop"
    tried: int = 0
    won: int = 0
    environment: dict[str, str] = field(init=False, repr=False)
    _state: str = field(init=False, default="")
    _ports: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.environment = install_lockhouse(self.work, self.server, self.database)

    def load(self, count: int) -> None:
        """Admit items with sealed payloads."""
        self._admit(count)
        if self.is_laned:
            # Some ten items a lane, each lane's spread over the backlog.
            for table in ("Event", "WorkItem"):
                self.server.run(
                    f"UPDATE `{self.database}`._System_Connector{table}"
                    " SET SourceLane = CONCAT('deal:', MOD(LaneOrdinal, %s)),"
                    " TargetLane = CONCAT('deal:', MOD(LaneOrdinal, %s)) WHERE SourceLane IS NULL",
                    (_LANES, _LANES),
                )

    def enqueue_steadily(self, count: int, interval_seconds: float) -> None:
        """Admit one item after another at a pace."""
        self._admit(count, "--interval", str(interval_seconds))

    def _admit(self, count: int, *options: str) -> None:
        command = ["-m", "bench.loading", str(count), self.flow, self._state, *options]
        self._state = self.work.python(command, self.environment).splitlines()[-1]

    @contextlib.contextmanager
    def start(self, processes: int) -> Iterator[list[Any]]:
        """Run workers, and note at their end how many claims they lost."""
        ports = [free_port() for _ in range(processes)]
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(self.work.process([*self.command, "--metrics-port", str(port)], self.environment))
                for port in ports
            ]
            for process, port in zip(running, ports, strict=True):
                await_port(process, port)
            self._ports = ports
            yield running
            self._tally(1)

    def begin_counting(self, running: list[Any]) -> None:
        """Forget the claims that the running workers have tried so far."""
        del running
        self._tally(-1)

    def _tally(self, sign: int) -> None:
        for port in self._ports:
            for outcome, count in claims_of(port):
                self.tried += sign * count
                self.won += sign * count if outcome == "claimed" else 0

    def count(self, state: str) -> int:
        """Return how many items are in a state."""
        return int(
            self.server.value(
                f"SELECT COUNT(*) FROM `{self.database}`._System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)"
                " WHERE State = %s",
                (state,),
            )
        )

    @property
    def lost_percent(self) -> float:
        """The share of claims tried that were not had."""
        return round(100 * (self.tried - self.won) / max(self.tried, 1), 2)

    def side(self, *, appetite: int = 1) -> Side:
        """Return it as a side."""
        return Side(
            name=self.name,
            done=lambda: self.count("succeeded"),
            ready=lambda: self.count("pending"),
            load=self.load,
            start=self.start,
            appetite=appetite,
        )


def claims_of(port: int) -> list[tuple[str, int]]:
    """Return a worker's own count of claims by how they ended."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("lockhouse_work_claims_total{")]
    return [(line.split('"')[1], int(float(line.rsplit(" ", 1)[1]))) for line in found]


@dataclass
class Floor:
    """A bare loop of claims and completions, in a database of its own.

    Attributes:
        module: `bench.peers.floor` for one item a commit, `bench.peers.batch_floor` for a hundred.
        tried: Claims that its loops tried.
        won: Claims that they had.
    """

    work: Workspace
    server: Server
    name: str = "floor"
    module: str = floor.__name__
    tried: int = 0
    won: int = 0
    environment: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        database = self.name.replace(" ", "_")
        url = self.server.database_url(database)
        self.environment = self.work.environment(url, PEER_URL=url)
        self._connection = self.server.connect(database)
        self._run(floor.TABLE)

    def _run(self, sql: str) -> None:
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)

    def load(self, count: int) -> None:
        """Add rows of the same size as the others' payloads."""
        rows = [("ready", "2026-01-01", b"x" * 900)] * count
        with contextlib.closing(self._connection.cursor()) as cursor:
            for start in range(0, len(rows), 1000):
                cursor.executemany(
                    "INSERT INTO floor_item (state, run_after, payload) VALUES (%s, %s, %s)", rows[start : start + 1000]
                )

    @contextlib.contextmanager
    def start(self, processes: int) -> Iterator[list[Any]]:
        """Run the loops, and note at their end how many claims they lost."""
        logs = []
        with contextlib.ExitStack() as stack:
            running = []
            for _ in range(processes):
                running.append(stack.enter_context(self.work.process(["-m", self.module], self.environment)))
                logs.append(self.work.newest_log())
            while not all("up" in log.read_text() for log in logs) and all(one.poll() is None for one in running):
                time.sleep(0.02)
            yield running
        for log in logs:
            counted = json.loads(log.read_text().splitlines()[-1])
            self.won += counted["won"]
            self.tried += counted["won"] + counted["lost"]

    def begin_counting(self, running: list[Any]) -> None:
        """Forget the claims that the running loops have tried so far."""
        for process in running:
            process.send_signal(signal.SIGUSR1)

    def count(self, state: str) -> int:
        """Return how many rows are in a state."""
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute("SELECT COUNT(*) FROM floor_item WHERE state = %s", (state,))
            return int(cursor.fetchone()[0])

    @property
    def lost_percent(self) -> float:
        """The share of claims tried that were not had."""
        return round(100 * (self.tried - self.won) / max(self.tried, 1), 2)

    def side(self, *, appetite: int = 3) -> Side:
        """Return it as a side."""
        return Side(
            name=self.name,
            done=lambda: self.count("done"),
            ready=lambda: self.count("ready"),
            load=self.load,
            start=self.start,
            appetite=appetite,
        )


BATCH_FLOOR = batch_floor.__name__


def fill(side: Side, backlog: int) -> None:
    """Add what a side's backlog has lost."""
    missing = backlog * side.appetite - side.ready()
    if missing > 0:
        side.load(missing)


def await_work(side: Side, running: list[Any]) -> None:
    """Return when a side has begun to work; one that does not is an error."""
    base = side.done()
    deadline = time.monotonic() + _START_SECONDS
    while side.done() < base + 40:
        if time.monotonic() > deadline or any(process.poll() is not None for process in running):
            message = f"{side.name} did not start to work"
            raise RuntimeError(message)
        time.sleep(0.05)


class Window(StrEnum):
    """What a window came to."""

    MEASURED = "measured"
    #: Nothing was done in the whole window.
    STILL = "still"
    #: The backlog ended first; the next one is twice as long.
    EMPTIED = "emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How sides are measured.

    Attributes:
        rounds: How many interleaved rounds.
        backlog: How much must wait before the workers start.
        seconds: The length of a window, and of the warm-up before it.
        processes: How many workers, unless a side says otherwise.
    """

    rounds: int
    backlog: int
    seconds: float
    processes: int


def drain_window(report: Report, server: Server, side: Side, plan: Plan) -> Window:
    """Measure one side for one window; what was measured goes into the series of the report.

    Args:
        report: It gets jobs/s, RSS, and commits a job where they are counted.
        server: The server whose commits are counted.
        side: Who works.
        plan: For how long.
    """
    fill(side, plan.backlog)
    with side.start(side.processes or plan.processes) as running:
        await_work(side, running)
        # Workers learn of each other by their heartbeats.
        time.sleep(plan.seconds)
        first, commits, started = side.done(), server.commits(), time.monotonic()
        time.sleep(plan.seconds)
        last, committed, ended = side.done(), server.commits(), time.monotonic()
        resident = resident_mib([process.pid for process in running])
        if side.ready() == 0:
            side.appetite *= 2
            return Window.EMPTIED
    if last == first:
        return Window.STILL
    report.add(f"{side.name}: jobs/s", (last - first) / (ended - started))
    report.add(f"{side.name}: RSS MiB", resident)
    if side.is_counted and not server.is_tidb:
        report.add(f"{side.name}: commits/job", (committed - commits) / (last - first))
    return Window.MEASURED


def measure_rounds(report: Report, server: Server, sides: list[Side], plan: Plan) -> None:
    """Measure all sides in interleaved rounds: what else the machine does hits each of them."""
    for _ in range(plan.rounds):
        for side in sides:
            while (window := drain_window(report, server, side, plan)) is not Window.MEASURED:
                if window is Window.STILL:
                    # A peer that stood still for a whole window is no measure; that it did so is.
                    still = f"{side.name}: windows in which nothing was done"
                    report.facts[still] = report.facts.get(still, 0) + 1
