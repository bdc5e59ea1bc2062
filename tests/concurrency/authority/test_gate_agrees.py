"""Processes of other settings and other memories see the same owner, before and after a claim elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from integration.storage.install import install_schema
from integration.storage.schema import Vintage
from tests.support.authority import World, change, rows_of
from tests.support.processes import Command, start_python

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
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


def ask_around(racer: str, event_id: str, database_url: str, act: Callable[[], None]) -> list[list[dict[str, Any]]]:
    """Let processes of different settings ask for the owner, before and after something happens elsewhere."""
    target = f"tests.concurrency.authority.racers:{racer}"
    arguments = ["-m", "tests.support.processes", target, json.dumps({"event_id": event_id})]
    started = [start_python(arguments, database_url, **extra) for extra in SETTINGS]
    try:
        for command in started:
            assert hear(command) == "ready"
            say(command, "go")
            assert hear(command) == "asked"
        act()
        answers: list[list[dict[str, Any]]] = []
        for command in started:
            say(command, "again")
        for command in started:
            assert command.wait() == 0, command.output
            answers.append(json.loads(command.output.splitlines()[-1]))
        return answers
    finally:
        for command in started:
            if command.process.poll() is None:
                command.process.kill()
                command.process.communicate()


@pytest.mark.evidence("A-34")
def test_gate__reads_only_the_database(database_url: str):
    world = World()
    mirror = world.work("pending", Attempt=0, event={"Status": "dead", "TerminalAt": world.now})
    event_id = rows_of(ITEMS)[0]["EventId"]

    def claim() -> None:
        # Another service claims it; none of the processes is told.
        assert change(f"UPDATE {ITEMS} SET Attempt = 1, State = 'processing' WHERE WorkId = %s", mirror.id) == 1

    answers = ask_around("own_twice", event_id, database_url, claim)
    before = {"kind": "event", "work_id": mirror.id, "rule": 2, "code": "zero_attempt_mirror"}
    after = {"kind": "work_item", "work_id": mirror.id, "rule": 1, "code": "work_item_claimed"}
    assert answers == [[before, after]] * len(SETTINGS)


ADDED = "_System_ConnectorWorkItem", "ReplayedAt"


@pytest.mark.evidence("A-03", "A-34")
def test_gate__of_processes_that_run_follows_the_schema(database_url: str):
    """A column is missing, then it arrives: every process goes over from the fourth rule to the first."""
    world = World()
    ref = world.work("dead", event={"Status": "dead", "TerminalAt": world.now})
    event_id = rows_of(ITEMS, "WorkId = %s", ref.id)[0]["EventId"]
    table, column = ADDED
    change(f"ALTER TABLE {table} DROP COLUMN {column}")
    try:
        answers = ask_around(
            "own_until_changed",
            event_id,
            database_url,
            lambda: install_schema(connections["default"], Vintage.CURRENT) and None,
        )
    finally:
        install_schema(connections["default"], Vintage.CURRENT)
    before = {"kind": "event", "work_id": None, "rule": 4, "code": "old_schema"}
    after = {"kind": "work_item", "work_id": ref.id, "rule": 1, "code": "work_item_claimed"}
    assert answers == [[before, after]] * len(SETTINGS)
