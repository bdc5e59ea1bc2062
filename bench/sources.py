"""Four hundred sources, visited by a window that walks over them: every input once, in order, and how fast.

A process stores signed-off receipts as the webhook does, one source after the other, while two workers admit and
execute. What became of them is then checked input by input. The same number of inputs as per-event work, on a
database of its own, is what coalescing is compared with.
"""

from __future__ import annotations

import json
import time

from bench.harness import Server, Workspace, workspace
from bench.report import Report
from tests.support.walking import SOURCES, Walk

PROCESSES = 2
_PATIENCE_SECONDS = 900


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    walk = Walk(width=2) if quick else Walk(width=10, laps=2)
    report = Report(bench="sources", engine=server.engine, quick=quick)
    report.facts |= {"sources": SOURCES, "inputs a round": walk.count, "worker processes": PROCESSES}
    with workspace() as work:
        for number in range(min(rounds, 2) if quick else rounds):
            for kind in ("projection", "per event"):
                _walk(report, server, work, walk, kind=kind, number=number)
    report.compare("projection / per event, inputs/s", "projection: inputs/s", "per event: inputs/s")
    report.compare("projection / per event, executions", "projection: executions", "per event: executions")
    report.demand("every input was given once and in order", not report.facts.get("faults"))
    return report


def _walk(report: Report, server: Server, work: Workspace, walk: Walk, *, kind: str, number: int) -> None:
    database = f"walk_{kind.replace(' ', '_')}_{number}"
    written = work.folder / database
    environment = {**work.environment(server.database_url(database)), "LOCKHOUSE_LOG_LEVEL": "ERROR"}
    work.python(["manage.py", "migrate", "--verbosity", "0"], environment)
    work.python(["manage.py", "install_schema"], environment)
    command = ["-m", "bench.walking", kind, str(walk.width), str(walk.laps), str(written)]
    work.python([*command, "activate"], environment)
    worker = ["manage.py", "work", "--poll-ms", "10"]
    with work.process(worker, environment) as one, work.process(worker, environment) as other:
        begun = time.monotonic()
        with work.process([*command, "store"], environment) as storing:
            deadline = begun + _PATIENCE_SECONDS
            while storing.poll() is None or _is_unfinished(server, database):
                if time.monotonic() > deadline or one.poll() is not None or other.poll() is not None:
                    message = f"{database} did not come to its end"
                    raise RuntimeError(message)
                time.sleep(0.1)
        took = time.monotonic() - begun
    checked = json.loads(work.python([*command, "check"], environment).splitlines()[-1])
    if checked["faults"]:
        report.facts["faults"] = checked["faults"]
    report.add(f"{kind}: inputs/s", walk.count / took)
    report.add(f"{kind}: executions", checked["executions"])
    report.add(f"{kind}: inputs an execution", walk.count / checked["executions"])


def _is_unfinished(server: Server, database: str) -> bool:
    return bool(
        server.rows(
            f"(SELECT 1 FROM `{database}`._System_ConnectorIngressReceipt WHERE State = 'received' LIMIT 1)"
            f" UNION ALL (SELECT 1 FROM `{database}`._System_ConnectorWorkItem"
            " WHERE State IN ('pending', 'processing', 'retry') LIMIT 1)"
        )
    )
