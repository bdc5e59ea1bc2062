"""The projection cutover over a long history: how long its audit reads, how long its locks are held, what waits.

Two databases, one with a tenth of the other's Events, each in projections of three inputs of which an ended WorkItem
names the last. The cutover is made once in each, beside a process that asks for the lock of the namespace, as an
admission does, again and again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.harness import ROOT, Server, workspace
from bench.report import Report
from tests.support.servers import BOUND_TO_CALLER

_SMALLER = 10
_FLAT = 1.1


def run(server: Server, *, quick: bool, rounds: int, rows: int | None = None) -> Report:
    """Measure; rounds mean nothing here: an incarnation is cut over once.

    Args:
        server: The database.
        quick: With 30,000 Events.
        rounds: Left alone.
        rows: How many Events the larger database has, instead of 1,000,000.
    """
    del rounds
    events = rows or (30_000 if quick else 1_000_000)
    report = Report(bench="cutover-audit", engine=server.engine, quick=quick)
    found = {size: _cut_over(server, size) for size in (events // _SMALLER, events)}
    for size, figures in found.items():
        report.facts |= {f"{size} Events: {name}": value for name, value in figures.items()}
    small, large = found.values()
    per_event = [figures["audit s"] / size for size, figures in found.items()]
    report.facts |= {
        "audit s a million": round(1_000_000 * per_event[1], 1),
        "audit s an Event, larger / smaller": round(per_event[1] / per_event[0], 2),
        "peak RSS, larger / smaller": round(large["peak RSS MiB"] / small["peak RSS MiB"], 3),
        "locked ms, larger / smaller": round(large["locked ms"] / small["locked ms"], 2),
    }
    report.demand(
        f"peak RSS <= {_FLAT} x at ten times the history", report.facts["peak RSS, larger / smaller"] <= _FLAT
    )
    return report


def _cut_over(server: Server, events: int) -> dict[str, Any]:
    with workspace() as work:
        database = f"audit_{events}"
        environment = work.environment(server.database_url(database)) | {"LOCKHOUSE_LOG_LEVEL": "ERROR"}
        work.python(["manage.py", "migrate", "--verbosity", "0"], environment)
        work.python(["manage.py", "install_schema"], environment)
        pack = json.loads(work.python(["-m", "bench.auditing", "load", str(events)], environment))
        server.run(
            f"ANALYZE TABLE `{database}`._System_ConnectorEvent, `{database}`._System_ConnectorWorkItem",
        )
        waiting = subprocess.Popen(
            [*BOUND_TO_CALLER, sys.executable, "-m", "bench.auditing", "ask", pack["namespace"]],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert waiting.stdout is not None
            waiting.stdout.readline()
            figures = json.loads(work.python(["-m", "bench.auditing", "cut", pack["id"]], environment))
        finally:
            waited, _ = waiting.communicate(timeout=60)
        return {**figures, **json.loads(waited)}
