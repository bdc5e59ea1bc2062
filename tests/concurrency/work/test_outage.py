"""The database is killed under a running worker and comes back: nothing is lost and nobody has to help."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import MySQLdb
import pytest

from integration.storage.localdb import LocalDatabase
from tests.support import servers
from tests.support.processes import manage, race

COUNT = 500
BEFORE_THE_KILL = 20


@dataclass
class Killable:
    """A database server of the test's own, with its full durability."""

    url: str
    socket: Path
    kill: Callable[[], None]
    start: Callable[[], object]

    def create_database(self) -> None:
        connection = MySQLdb.connect(unix_socket=str(self.socket), user="root")
        connection.cursor().execute("CREATE DATABASE IF NOT EXISTS lockhouse CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        connection.close()


@contextlib.contextmanager
def killable_mariadb(folder: Path) -> Iterator[Killable]:
    server = LocalDatabase(directory=folder / "mariadb", launcher=servers.BOUND_TO_CALLER)
    server.start()

    def kill() -> None:
        pid = server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    url = f"mysql://root@localhost/lockhouse?unix_socket={quote(str(server.socket), safe='/')}"
    try:
        yield Killable(url=url, socket=server.socket, kill=kill, start=server.start)
    finally:
        server.stop()


@contextlib.contextmanager
def killable_tidb(folder: Path) -> Iterator[Killable]:
    running = [servers.launch_tidb(folder, is_killed=True)]

    def kill() -> None:
        running[-1].kill()
        running[-1].wait()

    socket = folder / "tidb.sock"
    url = f"tidb://root@localhost/lockhouse?unix_socket={quote(str(socket), safe='/')}"
    try:
        yield Killable(
            url=url, socket=socket, kill=kill, start=lambda: running.append(servers.launch_tidb(folder, is_killed=True))
        )
    finally:
        kill()


@pytest.fixture
def database(engine: str) -> Iterator[Killable]:
    with servers._scratch() as folder, {"mariadb": killable_mariadb, "tidb": killable_tidb}[engine](folder) as found:
        found.create_database()
        for command in (["migrate", "-v", "0"], ["install_schema"]):
            made = manage(command, found.url)
            assert made.wait() == 0, made.output
        yield found


@pytest.mark.evidence("K-03")
def test_worker__survives_the_databases_death_without_hands(database, tmp_path):
    record = tmp_path / "runs"
    record.touch()
    race("tests.concurrency.work.racers:admit", [{"count": COUNT, "file": str(record)}], database.url)
    worker = manage(
        ["work", "--until-idle", "--concurrency", "4", "--lease-seconds", "3", "--roles", "claim,reap"], database.url
    )
    deadline = time.monotonic() + 240
    while len(record.read_text().split()) < BEFORE_THE_KILL:
        assert worker.process.poll() is None, worker.wait() or worker.output
        assert time.monotonic() < deadline
        time.sleep(0.01)

    database.kill()
    assert len(record.read_text().split()) < COUNT, "it was over before the kill"
    database.start()

    assert worker.wait() == 0, worker.output
    assert "work.database_away" in worker.output
    assert "work.database_back" in worker.output
    (found,) = race("tests.concurrency.work.racers:ended", [{}], database.url)
    assert len(found) == COUNT
    runs = Counter(record.read_text().split())
    for work_id, state, attempt, epoch, outcomes in found:
        assert (state, attempt) == ("succeeded", epoch)
        assert outcomes == ["lost"] * (attempt - 1) + [None]
        assert 1 <= runs[work_id] <= attempt
