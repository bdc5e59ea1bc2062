"""B3: batches. Claims of many items at once, each outcome fenced, completions grouped; and what races cost.

River is the ceiling: Go, PostgreSQL, completions in batches. The raw batch floor is two statements for each
hundred rows, on the server under test.
"""

from __future__ import annotations

import contextlib
import time

from bench import rivals
from bench.harness import Server, Workspace, workspace
from bench.postgres import PostgresUnavailable, postgres_server
from bench.report import Report
from bench.sides import BATCH_FLOOR, Floor, Lockhouse, Plan, Side, await_work, fill, measure_rounds
from bench.stats import median

PROCESSES = 2
_RACERS = (1, 2, 4, 8)


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    backlog, seconds = (3000, 1.5) if quick else (30_000, 6.0)
    report = Report(bench="b3", engine=server.engine, quick=quick)
    report.facts |= {"worker processes": PROCESSES, "backlog": backlog, "seconds a window": seconds}
    with workspace() as work, contextlib.ExitStack() as stack:
        ours = Lockhouse(work, server, "lockhouse", "lockhouse")
        bare = Floor(work, server, name="batch floor", module=BATCH_FLOOR)
        sides = [ours.side(appetite=3), bare.side(appetite=12)]
        if not server.is_tidb:
            sides += _peers(report, server, stack, work)
        plan = Plan(rounds=rounds, backlog=backlog, seconds=seconds, processes=PROCESSES)
        measure_rounds(report, server, sides, plan)
        _judge(report, {side.name for side in sides})
        _race(report, ours, bare, plan)
    return report


def _peers(report: Report, server: Server, stack: contextlib.ExitStack, work: Workspace) -> list[Side]:
    sides = []
    queue = rivals.dj_queue(work, server)
    if queue is None:
        report.facts["dj-queue"] = "not measured: no Python 3.12"
    else:
        sides.append(queue.side())
    try:
        postgres = stack.enter_context(postgres_server())
        river = rivals.river(work, postgres, workers=2000, cooldown_ms=2)
    except PostgresUnavailable as error:
        report.facts["river"] = f"not measured: {error}"
        return sides
    if river is None:
        report.facts["river"] = "not measured: it could not be built"
    else:
        # One process uses both cores. By default it looks ten times a second, for as many jobs as it has workers.
        sides.append(river.side(appetite=8, processes=1))
    return sides


def _judge(report: Report, measured: set[str]) -> None:
    report.compare("lockhouse / batch floor, jobs/s", "lockhouse: jobs/s", "batch floor: jobs/s")
    if "river" in measured:
        ceiling = report.compare("lockhouse / river, jobs/s", "lockhouse: jobs/s", "river: jobs/s")
        report.demand(">= 0.25 x River", ceiling.median >= 0.25)
    if "dj-queue" in measured:
        peer = report.compare("lockhouse / dj-queue, jobs/s", "lockhouse: jobs/s", "dj-queue: jobs/s")
        report.demand(">= 5 x dj-queue", peer.median >= 5)


def _race(report: Report, ours: Lockhouse, bare: Floor, plan: Plan) -> None:
    """Tell what share of the claims is lost, by how many processes claim."""
    sides = ((ours, ours.side(appetite=3)), (bare, bare.side(appetite=12)))
    for _ in range(plan.rounds):
        for processes in _RACERS:
            for system, side in sides:
                share = None
                while share is None:
                    share = _lost_percent(system, side, processes, plan)
                report.add(f"{side.name}: lost claims of {processes} processes, %", share)
    at_four = median(report.series["lockhouse: lost claims of 4 processes, %"])
    report.demand("< 10 % of the claims lost at 4 processes", at_four < 10)


def _lost_percent(system: Lockhouse | Floor, side: Side, processes: int, plan: Plan) -> float | None:
    """Return the share of claims lost in a window after a warm-up, or None when the backlog ended before it did."""
    fill(side, plan.backlog)
    tried, won = system.tried, system.won
    with side.start(processes) as running:
        await_work(side, running)
        # Workers learn of each other by their heartbeats.
        time.sleep(plan.seconds)
        system.begin_counting(running)
        time.sleep(plan.seconds)
        if side.ready() == 0:
            side.appetite *= 2
            return None
    tried, won = system.tried - tried, system.won - won
    return 100 * (tried - won) / max(tried, 1)
