"""Processes of other settings and other memories see the same owner, before and after a claim elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.authority import World, change, rows_of
from tests.support.processes import Command, start_python

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
ITEMS = "_System_ConnectorWorkItem"
SETTINGS: list[dict[str, str]] = [
    {},
    {"LOCKHOUSE_SURFACES": "ingress", "LOCKHOUSE_LOG_LEVEL": "ERROR", "TZ": "Asia/Kolkata"},
    {"LOCKHOUSE_DEBUG": "1", "LOCKHOUSE_SECRET_KEY": "another-installation-" * 4, "PYTHONHASHSEED": "7"},
]


def say(command: Command, line: str) -> None:
    assert command.process.stdin is not None
    command.process.stdin.write(f"{line}\n")
    command.process.stdin.flush()


def hear(command: Command) -> str:
    assert command.process.stdout is not None
    return command.process.stdout.readline().strip()


@pytest.mark.evidence("A-34")
def test_gate__reads_only_the_database(database_url: str):
    world = World()
    mirror = world.work("pending", Attempt=0, event={"Status": "dead", "TerminalAt": world.now})
    event_id = rows_of(ITEMS)[0]["EventId"]
    target = "tests.concurrency.authority.racers:own_twice"
    arguments = ["-m", "tests.support.processes", target, json.dumps({"event_id": event_id})]
    started = [start_python(arguments, database_url, **extra) for extra in SETTINGS]
    try:
        for command in started:
            assert hear(command) == "ready"
            say(command, "go")
            assert hear(command) == "asked"
        # Another service claims it; none of the processes is told.
        assert change(f"UPDATE {ITEMS} SET Attempt = 1, State = 'processing' WHERE WorkId = %s", mirror.id) == 1
        answers: list[list[dict[str, Any]]] = []
        for command in started:
            say(command, "again")
            assert command.wait() == 0, command.output
            answers.append(json.loads(command.output.splitlines()[-1]))
    finally:
        for command in started:
            if command.process.poll() is None:
                command.process.kill()
                command.process.communicate()
    before = {"kind": "event", "work_id": mirror.id, "rule": 2, "code": "zero_attempt_mirror"}
    after = {"kind": "work_item", "work_id": mirror.id, "rule": 1, "code": "work_item_claimed"}
    assert answers == [[before, after]] * len(SETTINGS)
