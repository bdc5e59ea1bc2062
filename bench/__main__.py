"""`python -m bench`: run the benchmarks that were asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from bench import (
    backlog,
    batches,
    bulk_replay,
    console_pages,
    cutover_audit,
    dead_letters,
    dead_list,
    history,
    ingest,
    latency,
    memory,
    operators,
    replay_cost,
    sources,
    work,
)
from bench.harness import database_server
from bench.report import Report

BENCHES: dict[str, Callable[..., Report]] = {
    "b1": ingest.run,
    "b2": work.run,
    "b3": batches.run,
    "b4": latency.run,
    "b5": backlog.run,
    "b6": dead_letters.run,
    "b6-service": dead_list.run,
    "b7": bulk_replay.run,
    "history": history.run,
    "sources": sources.run,
    "memory": memory.run,
    "replay": replay_cost.run,
    "cutover-audit": cutover_audit.run,
    "pages": console_pages.run,
    "operators": operators.run,
}


def main() -> int:
    """Run, print, store; the exit code says whether it ran, not whether a goal was met."""
    parser = argparse.ArgumentParser(prog="bench/run", description="Ratios against peers, in interleaved rounds.")
    parser.add_argument("bench", nargs="*", choices=[*BENCHES, []], help="which ones; all when none is named")
    parser.add_argument("--quick", action="store_true", help="a smoke run: seconds, and figures that mean nothing")
    parser.add_argument("--tidb", action="store_true", help="on TiDB instead of MariaDB")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5, or 2 when quick)")
    rows = (
        "rows of b6, b6-service, cutover-audit, pages, operators (1,000,000; fewer when quick),"
        " dead rows beside b7's own (none)"
    )
    parser.add_argument("--rows", type=int, help=rows)
    options = parser.parse_args()
    if options.rows:
        BENCHES["b6"] = partial(dead_letters.run, rows=options.rows)
        BENCHES["b6-service"] = partial(dead_list.run, rows=options.rows)
        BENCHES["b7"] = partial(bulk_replay.run, dead=options.rows)
        BENCHES["cutover-audit"] = partial(cutover_audit.run, rows=options.rows)
        BENCHES["pages"] = partial(console_pages.run, rows=options.rows)
        BENCHES["operators"] = partial(operators.run, rows=options.rows)
    rounds = options.rounds or (2 if options.quick else 5)
    for name in options.bench or BENCHES:
        with database_server("tidb" if options.tidb else "mariadb") as server:
            report = BENCHES[name](server, quick=options.quick, rounds=rounds)
        report.show()
        report.store()
    return 0


if __name__ == "__main__":
    sys.exit(main())
