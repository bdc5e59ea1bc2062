"""B4: one job every 10 ms on an idle system: how long until it starts, and what idling costs.

A job carries the time at which its enqueuing began; its first line writes down how long that was ago. Each side has
one worker process of eight threads. River and procrastinate are told of a job by PostgreSQL, the others look for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench import rivals
from bench.harness import Server, Workspace, workspace
from bench.pacing import read_waits
from bench.postgres import PostgresUnavailable, postgres_server
from bench.report import Report
from bench.sides import Lockhouse
from bench.stats import percentile

_INTERVAL_SECONDS = 0.01
_WARM_JOBS = 30
_PATIENCE_SECONDS = 60
_POLL = "0.05"
_SAME_POLL = "dj-queue, polling as we do"


class System(Protocol):
    """What enqueues and works."""

    name: str
    environment: dict[str, str]

    def start(self, processes: int) -> AbstractContextManager[list[Any]]:
        """Run its workers."""

    def enqueue_steadily(self, count: int, interval_seconds: float) -> None:
        """Enqueue one job after another at a pace."""


@dataclass
class Subject:
    """A system, and what counts the queries of its idle workers."""

    system: System
    queries: Callable[[], int]
    unit: str = "queries"


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    # A whole minute at a time: the first jobs find the worker at its laziest, and are few of them.
    seconds, idle = (2.0, 2.0) if quick else (60.0, 5.0)
    rounds = rounds if quick else (rounds + 1) // 2
    report = Report(bench="b4", engine=server.engine, quick=quick)
    report.facts |= {"seconds a round": round(seconds, 1), "jobs a second": round(1 / _INTERVAL_SECONDS)}
    with workspace() as work, contextlib.ExitStack() as stack:
        subjects = list(_subjects(report, server, work, stack))
        waits: dict[str, list[float]] = {subject.system.name: [] for subject in subjects}
        for _ in range(rounds):
            for subject in subjects:
                waits[subject.system.name] += _round(report, work.folder / "waits", subject, seconds, idle)
        for name, found in waits.items():
            report.facts[f"{name}: p50, p99, max ms"] = json.dumps(
                [round(percentile(found, share), 1) for share in (0.5, 0.99, 1.0)]
            )
    _judge(report)
    return report


def _subjects(report: Report, server: Server, work: Workspace, stack: contextlib.ExitStack) -> Iterator[Subject]:
    def questions() -> int:
        return 0 if server.is_tidb else server.status("Questions")["Questions"]

    yield Subject(Lockhouse(work, server, "lockhouse", "lockhouse", flow="bench.timed"), questions)
    if server.is_tidb:
        return
    found = [
        rivals.dj_queue(work, server, name=_SAME_POLL, poll=_POLL, database="dj_queue_same"),
        rivals.dj_queue(work, server, name="dj-queue, default"),
        rivals.tasks_db(work, server, name="django-tasks-db, polling as we do", interval=_POLL),
        rivals.tasks_db(work, server, name="django-tasks-db, default", interval=None),
    ]
    for peer in found:
        if peer is None:
            report.facts["dj-queue"] = "not measured: no Python 3.12"
        else:
            yield Subject(peer, questions)
    try:
        postgres = stack.enter_context(postgres_server())
    except PostgresUnavailable as error:
        report.facts["procrastinate, river"] = f"not measured: {error}"
        return
    for told in (rivals.procrastinate(work, postgres), rivals.river(work, postgres)):
        if told is None:
            report.facts["river"] = "not measured: it could not be built"
        else:
            database = told.database
            yield Subject(told, lambda name=database: postgres.transactions(name), unit="transactions")  # type: ignore[misc]


def _round(report: Report, path: Path, subject: Subject, seconds: float, idle: float) -> list[float]:
    """Measure one side once; return how long its jobs waited, in ms."""
    system = subject.system
    path.unlink(missing_ok=True)
    system.environment["BENCH_WAITS"] = str(path)
    count = round(seconds / _INTERVAL_SECONDS)
    with system.start(1) as running:
        system.enqueue_steadily(_WARM_JOBS, 0.02)
        _await(system.name, path, _WARM_JOBS, running)
        # Until the worker looks as seldom as it ever does.
        time.sleep(idle / 2)
        before, begun = subject.queries(), time.monotonic()
        time.sleep(idle)
        asked = subject.queries() - before - 1
        report.add(f"{system.name}: idle {subject.unit}/s", max(asked, 0) / (time.monotonic() - begun))
        os.truncate(path, 0)
        system.enqueue_steadily(count, _INTERVAL_SECONDS)
        found = _await(system.name, path, count, running)
    report.add(f"{system.name}: p50 ms", percentile(found, 0.5))
    report.add(f"{system.name}: p99 ms", percentile(found, 0.99))
    return found


def _await(name: str, path: Path, count: int, running: list[Any]) -> list[float]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(found := read_waits(path)) < count:
        if time.monotonic() > deadline or any(process.poll() is not None for process in running):
            message = f"{name} started {len(found)} of {count} jobs"
            raise RuntimeError(message)
        time.sleep(0.05)
    return found


def _judge(report: Report) -> None:
    for name in [name.removesuffix(": p99 ms") for name in report.series if name.endswith(": p99 ms")]:
        if name != "lockhouse":
            report.compare(f"lockhouse / {name}, p50", "lockhouse: p50 ms", f"{name}: p50 ms")
            report.compare(f"lockhouse / {name}, p99", "lockhouse: p99 ms", f"{name}: p99 ms")
            if f"{name}: idle queries/s" in report.series:
                report.compare(f"lockhouse / {name}, idle", "lockhouse: idle queries/s", f"{name}: idle queries/s")
    if f"{_SAME_POLL}: p99 ms" in report.series:
        report.demand(
            "p99 <= 0.8 x dj-queue at the same poll", report.ratios[f"lockhouse / {_SAME_POLL}, p99"].median <= 0.8
        )
        report.demand("idle <= 0.5 x its queries", report.ratios[f"lockhouse / {_SAME_POLL}, idle"].median <= 0.5)
