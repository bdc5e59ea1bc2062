"""B2: claim, run a flow that does nothing, complete behind the fence; two worker processes on a backlog.

Each side has a backlog of its own. A round drains each side's backlog for the same time, one side after the other,
so that what else the machine does hits all of them.
"""

from __future__ import annotations

import contextlib
import json
import time

from bench import rivals
from bench.harness import Server, resident_mib, workspace
from bench.postgres import PostgresUnavailable, postgres_server
from bench.report import Report
from bench.sides import Floor, Lockhouse, Plan, Side, await_work, measure_rounds

PROCESSES = 2


def run(server: Server, *, quick: bool, rounds: int) -> Report:
    """Measure; see the module's docstring."""
    backlog, seconds = (1500, 2.0) if quick else (20_000, 6.0)
    report = Report(bench="b2", engine=server.engine, quick=quick)
    report.facts |= {"worker processes": PROCESSES, "backlog": backlog, "seconds a window": seconds}
    with workspace() as work, contextlib.ExitStack() as stack:
        ours = Lockhouse(work, server, "lockhouse", "lockhouse")
        laned = Lockhouse(work, server, "lockhouse, lanes", "lockhouse_lanes", is_laned=True)
        bare = Floor(work, server)
        peers: list[Side] = []
        if not server.is_tidb:
            peers.append(rivals.tasks_db(work, server).side())
            queue = rivals.dj_queue(work, server)
            if queue is None:
                report.facts["dj-queue"] = "not measured: no Python 3.12"
            else:
                peers.append(queue.side())
            try:
                postgres = stack.enter_context(postgres_server())
            except PostgresUnavailable as error:
                report.facts["procrastinate"] = f"not measured: {error}"
            else:
                peers.append(rivals.procrastinate(work, postgres).side())
        sides = [ours.side(appetite=2), bare.side(), *peers, laned.side(appetite=2)]
        plan = Plan(rounds=rounds, backlog=backlog, seconds=seconds, processes=PROCESSES)
        measure_rounds(report, server, sides, plan)
        for side in (ours, laned, bare):
            report.facts[f"{side.name}: lost claims, %"] = side.lost_percent
        _burn_down(report, server, ours)
        _judge(report, server, [peer.name for peer in peers])
    return report


def _judge(report: Report, server: Server, peers: list[str]) -> None:
    to_floor = report.compare("lockhouse / floor, jobs/s", "lockhouse: jobs/s", "floor: jobs/s")
    report.demand(">= 0.6 x the raw floor", to_floor.median >= 0.6)
    report.compare("lockhouse with lanes / without", "lockhouse, lanes: jobs/s", "lockhouse: jobs/s")
    rates, memory = {}, {}
    for peer in peers:
        rates[peer] = report.compare(f"lockhouse / {peer}, jobs/s", "lockhouse: jobs/s", f"{peer}: jobs/s")
        memory[peer] = report.compare(f"lockhouse / {peer}, RSS", "lockhouse: RSS MiB", f"{peer}: RSS MiB")
    if rates:
        report.demand(">= 1.5 x the best Python peer", min(ratio.median for ratio in rates.values()) >= 1.5)
    if "dj-queue" in memory:
        report.demand("RSS <= 0.6 x dj-queue", memory["dj-queue"].median <= 0.6)
    if not server.is_tidb:
        worst = max(report.series["lockhouse: commits/job"])
        # The workers' own heartbeats are commits too.
        report.demand("<= 2 commits a job (2.05 with heartbeats)", worst <= 2.05)


def _burn_down(report: Report, server: Server, ours: Lockhouse) -> None:
    """Drain what is left, and hold the books against each other: every item ended once."""
    with ours.start(PROCESSES) as running:
        pids = [process.pid for process in running]
        if ours.count("pending") > 40:
            await_work(ours.side(), running)
        before = resident_mib(pids)
        while any(ours.count(state) for state in ("pending", "processing", "retry")):
            time.sleep(0.2)
        report.facts["RSS growth over the burn-down, MiB"] = round(resident_mib(pids) - before, 1)
    items, done, epochs = map(
        int,
        server.rows(
            "SELECT COUNT(*), SUM(State = 'succeeded'), SUM(OwnershipEpoch)"
            f" FROM `{ours.database}`._System_ConnectorWorkItem"
        )[0],
    )
    # A worker that is stopped gives back what it has claimed ahead: a claim, an attempt row, and no execution.
    attempts, released = map(
        int,
        server.rows(
            "SELECT COUNT(*), COALESCE(SUM(Outcome = 'released'), 0)"
            f" FROM `{ours.database}`._System_ConnectorExecutionAttempt"
        )[0],
    )
    report.facts["items, succeeded, claims, attempt rows, given back"] = json.dumps(
        [items, done, epochs, attempts, released]
    )
    report.demand("every item ended exactly once", items == done == epochs - released == attempts - released)
