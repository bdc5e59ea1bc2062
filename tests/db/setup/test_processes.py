"""The tools that other tests prove races and crashes with do what they say."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes


def connection_id(number: int) -> dict[str, int]:
    """Run in a process of its own: say which connection it has."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        return {"number": number, "connection": cursor.fetchone()[0]}


def reach(point: str) -> str:
    """Run in a process of its own: pass a failpoint."""
    from integration.failpoints import failpoint

    failpoint(point)
    return "passed"


@pytest.mark.django_db(transaction=True)
def test_race__runs_each_call_in_its_own_process_and_connection(database_url: str):
    results = processes.race(f"{__name__}:connection_id", [{"number": n} for n in range(3)], database_url)
    assert [result["number"] for result in results] == [0, 1, 2]
    assert len({result["connection"] for result in results}) == 3


def test_listen__lets_a_process_say_more_than_its_pipe_holds():
    command = processes.start_python(["-c", "print('x' * 500_000); print('said'); input()"], "").listen()
    deadline = time.monotonic() + 240
    while "said\n" not in command.heard:
        assert time.monotonic() < deadline, "it stands still"
        time.sleep(0.01)
    command.process.stdin.write("\n")
    command.process.stdin.flush()
    assert command.wait() == 0
    assert len(command.output) > 500_000


@pytest.mark.django_db(transaction=True)
def test_failpoint__kills_where_it_is_armed_and_says_so(database_url: str, tmp_path: Path):
    arguments: list[Any] = ["-m", "tests.support.processes", f"{__name__}:reach", '{"point": "test.point"}']
    command = processes.start_python(arguments, database_url, failpoint="test.point", folder=tmp_path)
    command.process.stdin.write("go\n")
    command.process.stdin.flush()
    assert command.wait() == -signal.SIGKILL
    assert command.fired() == "test.point"


@pytest.mark.django_db(transaction=True)
def test_failpoint__passes_where_another_is_armed(database_url: str, tmp_path: Path):
    arguments: list[Any] = ["-m", "tests.support.processes", f"{__name__}:reach", '{"point": "test.point"}']
    command = processes.start_python(arguments, database_url, failpoint="other.point", folder=tmp_path)
    command.process.stdin.write("go\n")
    command.process.stdin.flush()
    assert (command.wait(), command.fired()) == (0, "")


def test_failpoint__is_refused_outside_tests(tmp_path: Path):
    command = processes.start_python(
        ["-c", "import integration.failpoints"], "", failpoint="x.y", folder=tmp_path, LOCKHOUSE_TESTING="0"
    )
    assert command.wait() == 1
    assert "unset it" in command.output
