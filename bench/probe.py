"""A process of the program that does one step at a time and says how long it took: `python -m bench.probe`.

It reads commands as lines of JSON and answers each with one. The benchmark runs one probe for each database, so that
databases of different sizes take turns step by step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import django

_LANE = 1
#: Planned after the transaction: MariaDB would wait for the rows that it holds.
_LOCKED = frozenset({"FIRST_CLAIM"})


class Probe:
    """One pack of the demo's provider: `deal.created` coalesces, `deal.updated` does not; both in one lane."""

    def __init__(self) -> None:
        """Load the program."""
        from tests.support import admission

        self._admission = admission
        self._process: Any = None
        self._queue: Any = None

    def activate(self, _command: dict[str, Any]) -> dict[str, Any]:
        """Install the pack and register a process that may claim from it."""
        from integration.work.candidates import CandidateQueue
        from integration.work.process import register_process

        pack_id = self._admission.activate(("demo.apply_deal", "bench.inputs"))
        self._process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="bench")
        self._queue = CandidateQueue(self._process)
        return {"pack": pack_id}

    def cycle(self, command: dict[str, Any]) -> dict[str, Any]:
        """Admit a batch of one lane, claim what became of it, read its payloads, complete it.

        Returns:
            Seconds of each step, and how many rows the database read for it; the receipts are stored before.
        """
        from integration.ingress.service import materialize_ready

        event, count = command["event"], int(command["count"])
        self._admission.inputs(*[_LANE] * count, event=event)
        answer: dict[str, Any] = {}
        with _measured(answer, "admission"):
            while materialize_ready():
                pass
        generations = 1 if event == self._admission.PROJECTED else count
        for _ in range(generations):
            self._run_one(answer)
        return {name: value / (1 if "admission" in name else generations) for name, value in answer.items()}

    def _run_one(self, answer: dict[str, Any]) -> None:
        from integration.work import finish
        from integration.work.claim import claim_some

        with _measured(answer, "claim"):
            found = claim_some(self._process, self._queue, 1)
            if not found:
                # What was read before is of lanes that have moved on.
                self._queue.forget()
                found = claim_some(self._process, self._queue, 1)
        (claim,) = found
        with _measured(answer, "payload read"):
            self._read(claim)
        finish.complete(claim)

    def _read(self, claim: Any) -> None:
        from integration.work.execute import run

        verdict = run(claim)
        if verdict.ended != "complete":
            message = f"the flow ended as {verdict.ended}: {verdict.failure}"
            raise RuntimeError(message)

    def plans(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return how the database finds the rows of every statement of one cycle."""
        with _explained() as plans:
            self.cycle(command)
        return dict(sorted(plans.items()))


@contextmanager
def _measured(answer: dict[str, Any], name: str) -> Iterator[None]:
    rows, begun = _rows_read(), time.perf_counter()
    yield
    took = time.perf_counter() - begun
    answer[name] = answer.get(name, 0.0) + took
    answer[f"{name}, rows read"] = answer.get(f"{name}, rows read", 0) + _rows_read() - rows


def _rows_read() -> int:
    from django.db import connection

    if connection.settings_dict["ENGINE"] == "django_tidb":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(row[1]) for row in cursor.fetchall())


@contextmanager
def _explained() -> Iterator[dict[str, list[str]]]:
    """Ask for the plan of each of the program's statements, filled in when the block ends.

    MariaDB looks rows up while it plans, so it is asked just before the statement is sent, on another connection.
    TiDB does not, and is asked afterwards.
    """
    from django.db import connection

    from integration.storage.statements import all_statements

    # Older schemas have the same text under a longer name.
    names: dict[str, str] = {}
    for _, name, statement in sorted(all_statements(), key=lambda found: len(found[1])):
        names.setdefault(statement.text, name)
    is_tidb = connection.settings_dict["ENGINE"] == "django_tidb"
    asking = connection.copy()
    sent: dict[str, tuple[str, Any]] = {}
    plans: dict[str, list[str]] = {}

    def ask(name: str, sql: str, params: Any) -> None:
        with asking.cursor() as cursor:
            cursor.execute("EXPLAIN " + sql, params)
            steps = _steps(cursor)
        plans[name] = _tidb_plan(steps) if is_tidb else _mariadb_plan(steps)

    def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        name = names.get(sql)
        if name is not None and name not in sent and not name.startswith("INSERT") and not many:
            sent[name] = (sql, params)
            if not is_tidb and name not in _LOCKED:
                ask(name, sql, params)
        return execute(sql, params, many, context)

    try:
        with connection.execute_wrapper(record):
            yield plans
        for name, (sql, params) in sent.items():
            if name not in plans:
                ask(name, sql, params)
    finally:
        asking.close()


def _steps(cursor: Any) -> list[dict[str, Any]]:
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _mariadb_plan(steps: list[dict[str, Any]]) -> list[str]:
    return [
        f"{_short(step['table'])} {step['type']} {step['key']}" if step["table"] else str(step["Extra"])
        for step in steps
    ]


def _tidb_plan(steps: list[dict[str, Any]]) -> list[str]:
    return [
        f"{str(step['id']).strip('│├└─ ').rpartition('_')[0]} {_short(step['access object'])}"
        for step in steps
        if step["access object"]
    ]


def _short(name: object) -> str:
    return str(name).replace("_System_Connector", "")


def main() -> None:
    """Answer commands until there are no more."""
    django.setup()
    from integration.work.flows import discover_flows

    discover_flows()
    probe = Probe()
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(probe, command["do"])(command)), flush=True)


if __name__ == "__main__":
    main()
