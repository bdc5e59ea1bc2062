"""Note which statements of docs/evidence.tsv each test proves, and how it ended in this run.

A pytest plugin. Every finished test that carries `@pytest.mark.evidence(ID, ...)` leaves one JSON line in
`LOCKHOUSE_EVIDENCE_DIR` (nothing is written when that is not set). `manage.py evidence` reads them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import servers

STATEMENTS: Final = servers.ROOT / "docs" / "evidence.tsv"


def known_ids() -> frozenset[str]:
    """Return the ids of docs/evidence.tsv."""
    lines = STATEMENTS.read_text(encoding="utf-8").splitlines()[1:]
    return frozenset(line.split("\t", 1)[0] for line in lines if line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse an id that no statement has."""
    known = known_ids()
    for item in items:
        unknown = set(ids_of(item)) - known
        if unknown:
            message = f"{item.nodeid} claims to prove {', '.join(sorted(unknown))}, which docs/evidence.tsv lacks"
            raise pytest.UsageError(message)


def ids_of(item: pytest.Item) -> list[str]:
    """Return the ids that a test carries."""
    return sorted({str(name) for mark in item.iter_markers("evidence") for name in mark.args})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Hand a test's ids to its reports, which are all that reaches the controller."""
    report = yield
    report.user_properties = [*report.user_properties, ("evidence", ids_of(item))]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a test's outcome: of its call, or of a set-up or tear-down that did not pass."""
    folder = os.environ.get("LOCKHOUSE_EVIDENCE_DIR")
    if not folder or "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    ids = next((value for name, value in reversed(report.user_properties) if name == "evidence"), [])
    if not ids:
        return
    path = Path(folder) / f"{servers.engine()}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"test": report.nodeid, "ids": ids, "outcome": report.outcome, "database": servers.engine()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
