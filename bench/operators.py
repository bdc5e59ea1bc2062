"""Fifty operators at the console at once, who look around and replay the same rows: answers, and each row once.

There is no peer: what is asked is that nobody meets an error and that every row that was replayed has one child and one
entry in the trail, however many wanted it. Each looks at a page, waits one to three seconds, and goes on; locust plays
them. A worker executes what they replay.
"""

from __future__ import annotations

import json
import os
import subprocess

from bench import dead_letters, dead_rows
from bench.bulk_replay import running_driver
from bench.harness import PEER_PYTHON, ROOT, Server, install_lockhouse, workspace
from bench.report import Report
from tests.support.servers import BOUND_TO_CALLER

_OPERATORS = 50
#: A password is made slow to check on purpose: they come one by one, and what is measured begins when all are there.
_A_SECOND = 1
#: More than all of them can try in one round.
_WANTED = 200


def run(server: Server, *, quick: bool, rounds: int, rows: int | None = None) -> Report:
    """Measure; see the module's docstring."""
    rows = rows or (5_000 if quick else 200_000 if server.is_tidb else 1_000_000)
    seconds = 30 if quick else 120
    report = Report(bench="operators", engine=server.engine, quick=quick)
    with workspace() as work:
        environment = install_lockhouse(work, server)
        dead_rows.load(server, rows)
        report.facts |= {"operators": _OPERATORS, "dead rows": rows, "seconds of a round": seconds}
        work.python(["manage.py", "collectstatic", "--noinput", "--verbosity", "0"], environment)
        given, result = work.folder / "operators.json", work.folder / "result.json"
        with running_driver(environment) as driver, work.gunicorn("console.wsgi:application", environment) as base:
            driver.ask("operators", count=_OPERATORS, password=dead_letters.PASSWORD)
            for _ in range(rounds):
                refs = driver.ask("dead", count=_WANTED)["ids"]
                given.write_text(json.dumps({"password": dead_letters.PASSWORD, "refs": refs, "result": str(result)}))
                # It would execute what is to be dead while that is made.
                with work.process(["manage.py", "work"], environment):
                    _play(base, str(given), seconds)
                _tell(report, json.loads(result.read_text()), driver.ask("replays", ids=refs))
    return report


def _play(base: str, given: str, seconds: int) -> None:
    """Let the operators come one by one, and work for so long once all are there."""
    command = [
        "-m",
        "locust",
        "--locustfile",
        "bench/operators_load.py",
        "--headless",
        "--only-summary",
        "--host",
        base,
    ]
    command += ["--users", str(_OPERATORS), "--spawn-rate", str(_A_SECOND), "--reset-stats", "--loglevel", "ERROR"]
    command += ["--run-time", f"{seconds + _OPERATORS // _A_SECOND}s", "--stop-timeout", "20"]
    done = subprocess.run(
        [*BOUND_TO_CALLER, str(PEER_PYTHON), *command],
        cwd=ROOT,
        env={**os.environ, "OPERATORS_FILE": given},
        capture_output=True,
        text=True,
        check=False,
    )
    # It ends with 1 when a request failed, which the report tells.
    if done.returncode not in {0, 1}:
        message = f"locust ended with {done.returncode}:\n{done.stderr[-4000:]}"
        raise RuntimeError(message)


def _tell(report: Report, found: dict[str, object], stored: dict[str, int]) -> None:
    pages, outcomes = found["pages"], found["outcomes"]
    assert isinstance(pages, dict)
    assert isinstance(outcomes, dict)
    for name, page in pages.items():
        report.add(f"{name}: p50, ms", page["p50"])
        report.add(f"{name}: p95, ms", page["p95"])
    total = pages["Aggregated"]
    report.add("requests", total["requests"])
    report.add("errors", total["failures"])
    if found["errors"]:
        report.facts["what failed"] = json.dumps(found["errors"])
    report.add("replays answered as done", outcomes.get("replayed", 0))
    report.add("replays told that another was first", outcomes.get("told that another was first", 0))
    for name, count in stored.items():
        report.add(name, count)
    report.demand("no error", sum(report.series["errors"]) == 0)
    report.demand("operators met at the same rows", min(report.series["replays told that another was first"]) > 0)
    made = report.series["rows with a child"]
    report.demand(
        "each replayed row has one child and one entry, and each of them was told to one operator",
        made == report.series["children"] == report.series["entries"] == report.series["replays answered as done"],
    )
