"""Retained history: does a claim, an admission or a payload read cost more, the more has ended before?

Three databases with one, ten and a hundred times as many ended generations, and as many ended items of per-event
work, all in the one lane that is worked on. They take turns step by step. The rows that the server reads for a
step are counted beside its time, and the plans of its statements are compared.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench.depths import make_numbers, stored_columns
from bench.harness import ROOT, Server, Workspace, workspace
from bench.report import Report
from bench.stats import median
from tests.support.servers import BOUND_TO_CALLER

_FACTORS = (1, 10, 100)
_STEPS = ("admission", "claim", "payload read")
_KINDS = {"projection": "deal.created", "per event": "deal.updated"}
_INPUTS = 5
#: The work that is measured comes after everything retained.
_FIRST_ORDINAL = 10_000_000
_BATCH = 10_000
_ID = "CONCAT(LOWER(LPAD(HEX(n), 8, '0')), '-0000-7{place}00-{variant}000-000000000000')"


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    base, samples = (20, 4) if quick else (500, 20)
    report = Report(bench="history", engine=server.engine, quick=quick)
    report.facts |= {"ended generations, x 1": base, "inputs of a batch": _INPUTS, "samples a round": samples}
    with workspace() as work, contextlib.ExitStack() as stack:
        make_numbers(server, base * max(_FACTORS))
        probes = {factor: stack.enter_context(_probe(work, server, base * factor, factor)) for factor in _FACTORS}
        for probe in probes.values():
            for event in _KINDS.values():
                probe.ask("cycle", event=event, count=_INPUTS)
        for _ in range(rounds):
            _round(report, probes, samples, counts_rows=not server.is_tidb)
        _judge(report, server)
        _compare_plans(report, probes)
    return report


class Probe:
    """A process of the program on one of the databases."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        """Keep the process."""
        self._running = running

    def ask(self, command: str, **values: Any) -> dict[str, Any]:
        """Send one command and return its answer."""
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        self._running.stdin.write(json.dumps({"do": command, **values}) + "\n")
        self._running.stdin.flush()
        answer = self._running.stdout.readline()
        if not answer:
            message = f"the probe ended at {command}; its error is above"
            raise RuntimeError(message)
        return dict(json.loads(answer))


@contextlib.contextmanager
def _probe(work: Workspace, server: Server, history: int, factor: int) -> Iterator[Probe]:
    """Start a probe on a database of its own, and put the history before it."""
    database = f"history_{factor}"
    environment = work.environment(server.database_url(database))
    work.python(["manage.py", "migrate", "--verbosity", "0"], environment)
    work.python(["manage.py", "install_schema"], environment)
    running = subprocess.Popen(
        [*BOUND_TO_CALLER, sys.executable, "-m", "bench.probe"],
        cwd=ROOT,
        env={**environment, "LOCKHOUSE_LOG_LEVEL": "ERROR"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        probe = Probe(running)
        probe.ask("activate")
        # One ended item of each kind, to be copied.
        for event in _KINDS.values():
            probe.ask("cycle", event=event, count=1)
        _retain(server, database, history)
        yield probe
    finally:
        assert running.stdin is not None
        running.stdin.close()
        running.wait(timeout=30)


def _retain(server: Server, database: str, history: int) -> None:
    """Copy the ended rows: a generation of two inputs, and an item of one, for each number."""
    server.run(f"UPDATE `{database}`._System_ConnectorPackInstall SET NextLaneOrdinal = %s", (_FIRST_ORDINAL,))
    copies = (
        # Of which kind, which Event of it, and whether it is an item's selected one.
        ("IS NOT NULL", 1, False),
        ("IS NOT NULL", 2, True),
        ("IS NULL", 3, True),
    )
    offset = 10
    for projection, place, is_selected in copies:
        ordinal = f"3 * n + {offset + place}"
        event_id, work_id = (_ID.format(place=place, variant=variant) for variant in ("8", "9"))
        changed: dict[str, dict[str, str]] = {
            "Event": {
                "EventId": event_id,
                "LaneOrdinal": ordinal,
                "IdempotencyKey": f"CONCAT('retained:', {place}, ':', n)",
                "ReceiptId": _ID.format(place=place, variant="a"),
                **({} if is_selected else {"Status": "'skipped'"}),
            }
        }
        if is_selected:
            start = {"InputStartOrdinal": f"3 * n + {offset + 1}"} if projection == "IS NOT NULL" else {}
            changed["WorkItem"] = {"WorkId": work_id, "EventId": event_id, "LaneOrdinal": ordinal, **start}
            changed["ExecutionAttempt"] = {"WorkId": work_id}
        template = server.rows(
            f"SELECT WorkId, EventId FROM `{database}`._System_ConnectorWorkItem"
            f" WHERE State = 'succeeded' AND ProjectionKey {projection} AND LaneOrdinal < 3"
        )[0]
        for table, values in changed.items():
            one = str(template[1 if table == "Event" else 0])
            _copy(server, database, table, values, template=one, count=history)
    server.run(f"ANALYZE TABLE `{database}`._System_ConnectorEvent, `{database}`._System_ConnectorWorkItem")


def _copy(server: Server, database: str, table: str, changed: dict[str, str], *, template: str, count: int) -> None:
    key = "EventId" if table == "Event" else "WorkId"
    names = stored_columns(server, database, f"_System_Connector{table}")
    listed = ", ".join(names)
    server.run("DROP TABLE IF EXISTS bench_numbers.template")
    server.run(
        f"CREATE TABLE bench_numbers.template LIKE `{database}`._System_Connector{table}",
    )
    server.run(
        f"INSERT INTO bench_numbers.template ({listed})"
        f" SELECT {listed} FROM `{database}`._System_Connector{table} WHERE {key} = %s",
        (template,),
    )
    values = ", ".join(changed.get(name, f"r.`{name}`") for name in names)
    for first in range(0, count, _BATCH):
        server.run(
            f"INSERT INTO `{database}`._System_Connector{table} ({listed}) SELECT {values}"
            " FROM bench_numbers.numbers CROSS JOIN bench_numbers.template AS r WHERE n >= %s AND n < %s",
            (first, min(first + _BATCH, count)),
        )


def _round(report: Report, probes: dict[int, Probe], samples: int, *, counts_rows: bool) -> None:
    found: dict[tuple[str, int, str], list[float]] = {}
    for _ in range(samples):
        for kind, event in _KINDS.items():
            for factor, probe in probes.items():
                for name, value in probe.ask("cycle", event=event, count=_INPUTS).items():
                    found.setdefault((kind, factor, name), []).append(value)
    for (kind, factor, name), values in found.items():
        if name in _STEPS:
            report.add(f"{kind}, x {factor}: {name}, ms", 1000 * median(values))
        elif counts_rows:
            report.add(f"{kind}, x {factor}: {name}", median(values))


def _judge(report: Report, server: Server) -> None:
    for kind in _KINDS:
        for step in _STEPS:
            for factor in _FACTORS[1:]:
                ratio = report.compare(
                    f"{kind}: {step}, x {factor} / x 1",
                    f"{kind}, x {factor}: {step}, ms",
                    f"{kind}, x 1: {step}, ms",
                )
                report.demand(f"{kind}: {step} at x {factor} <= 1.2 x", ratio.median <= 1.2)
            if not server.is_tidb:
                rows = [median(report.series[f"{kind}, x {factor}: {step}, rows read"]) for factor in _FACTORS]
                report.demand(f"{kind}: {step} reads as many rows at x 100", rows[-1] <= 1.2 * rows[0] + 2)


def _compare_plans(report: Report, probes: dict[int, Probe]) -> None:
    for kind, event in _KINDS.items():
        plans = {factor: probe.ask("plans", event=event, count=_INPUTS) for factor, probe in probes.items()}
        first, last = plans[_FACTORS[0]], plans[_FACTORS[-1]]
        for name, plan in last.items():
            report.facts[f"plan, {kind}: {name}"] = "; ".join(plan)
        changed = sorted(name for name in last if last[name] != first.get(name))
        for name in changed:
            report.facts[f"plan at x 1, {kind}: {name}"] = "; ".join(first.get(name, ["not sent"]))
        scans = sorted(
            name
            for name, plan in last.items()
            if any(
                (" ALL " in step or " index " in step or "FullScan" in step)
                and ("Event" in step or "WorkItem" in step or "ExecutionAttempt" in step)
                for step in plan
            )
        )
        report.demand(
            f"{kind}: no statement scans a table that keeps history{': ' if scans else ''}{', '.join(scans)}", not scans
        )
