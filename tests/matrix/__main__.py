"""`python -m tests.matrix --database mariadb`: the whole matrix, by hand; the last line is its result as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime

_SHOWN = 20


def main() -> int:
    """Run on a throwaway server; exit 0 when every cell is as the table says, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description="Plan and replay every combination of rows."
    )
    parser.add_argument("--database", choices=["mariadb", "tidb"], default="mariadb")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth cell, from the Kth")
    parser.add_argument("--suite", action="store_true", help="only the cells that the suite runs")
    parser.add_argument("--tables", action="store_true", help="print what docs/replay-matrix.md holds, and end")
    options = parser.parse_args()
    from tests.matrix import document

    if options.tables:
        print(document.tables())
        return 0
    from batteries import database

    with database.server(options.database) as url:
        database.load_django(url)
        database.install_schema()
        result = _run(options)
    print(json.dumps(result))
    return 0 if result["holds"] else 1


def _run(options: argparse.Namespace) -> dict[str, object]:
    from tests.matrix import runs
    from tests.matrix.cells import all_cells
    from tests.matrix.subset import suite_cells
    from tests.matrix.table import count_answers

    first, of = map(int, options.part.split("/"))
    cells = (suite_cells() if options.suite else all_cells())[first - 1 :: of]
    began = time.monotonic()

    def tell(tally: runs.Tally) -> None:
        print(f"{tally.cells} of {len(cells)} cells, {len(tally.findings)} findings", file=sys.stderr, flush=True)

    tally = runs.run(cells, after_batch=tell)
    for finding in tally.findings[:_SHOWN]:
        print(finding)
    return {
        "database": options.database,
        "on": datetime.now(UTC).date().isoformat(),
        "part": options.part,
        "holds": not tally.findings and tally.answers == count_answers(cells),
        "seconds": round(time.monotonic() - began, 1),
        "cells": tally.cells,
        "impossible": tally.impossible,
        "replayed": sum(count for answer, count in tally.answers.items() if answer.startswith("replayed")),
        "answers": dict(sorted(tally.answers.items())),
        "findings": len(tally.findings),
        "rows": tally.rows,
    }


if __name__ == "__main__":
    sys.exit(main())
