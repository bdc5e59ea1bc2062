"""The embedded database: starts, stops, survives its own death, and leaves alone what is not its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import MySQLdb
import pytest

from integration.storage import addresses, localdb
from integration.storage.localdb import DatabaseBinaryMissing, DirectoryNotOurs, DiskFull, LocalDatabase
from tests.support.servers import BOUND_TO_CALLER, QUICK, ROOT


@pytest.fixture
def server(tmp_path: Path):
    found = LocalDatabase(directory=tmp_path / "mariadb", extra_options=QUICK, launcher=BOUND_TO_CALLER)
    yield found
    if found.directory.is_dir() and (found.directory / localdb.MARKER).is_file():
        found.stop()


def query(server: LocalDatabase, sql: str) -> list[tuple]:
    connection = MySQLdb.connect(unix_socket=str(server.socket), user="root", db=addresses.DATABASE_NAME)
    try:
        cursor = connection.cursor()
        cursor.execute(sql)
        connection.commit()
        return list(cursor.fetchall())
    finally:
        connection.close()


def test_start__listens_on_its_socket_and_nowhere_else(server: LocalDatabase):
    status = server.start()
    assert status.running
    assert status.version is not None
    assert query(server, "SELECT @@skip_networking, @@port") == [(1, 0)]
    assert query(server, "SELECT @@tmpdir") == [(str(server.directory / "tmp"),)]
    assert server.directory.stat().st_mode & 0o777 == 0o700


def test_start__works_in_a_directory_whose_name_a_shell_would_split(tmp_path: Path):
    server = LocalDatabase(directory=tmp_path / "a b 'é" / "mariadb", extra_options=QUICK, launcher=BOUND_TO_CALLER)
    try:
        assert server.start().running
        assert query(server, "SELECT @@datadir") == [(f"{server.directory / 'data'}/",)]
    finally:
        server.stop()


def test_start__is_harmless_when_it_runs(server: LocalDatabase):
    first = server.start()
    assert server.start().pid == first.pid


def test_stop__leaves_the_rows_and_is_harmless_when_nothing_runs(server: LocalDatabase):
    server.start()
    query(server, "CREATE TABLE kept (id INT)")
    query(server, "INSERT INTO kept VALUES (7)")
    assert server.stop() is True
    assert server.status().running is False
    assert server.stop() is False
    server.start()
    assert query(server, "SELECT id FROM kept") == [(7,)]


def test_start__after_sigkill_recovers_the_rows(server: LocalDatabase):
    status = server.start()
    query(server, "CREATE TABLE kept (id INT) ENGINE=InnoDB")
    query(server, "INSERT INTO kept VALUES (7)")
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    assert server.start().pid != status.pid
    assert query(server, "SELECT id FROM kept") == [(7,)]


def test_start__refuses_a_directory_of_somebody_else_and_touches_nothing(server: LocalDatabase):
    server.directory.mkdir()
    (server.directory / "letters.txt").write_text("mine")
    with pytest.raises(DirectoryNotOurs, match="nothing was touched"):
        server.start()
    assert [path.name for path in server.directory.iterdir()] == ["letters.txt"]


def test_start__names_the_packages_when_the_server_is_missing(server: LocalDatabase, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kwargs: None)
    with pytest.raises(DatabaseBinaryMissing, match="apt-get install mariadb-server-core mariadb-client-core"):
        server.start()
    assert not server.directory.exists()


def test_start__says_that_the_disk_is_full(server: LocalDatabase, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage(server.directory.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=10 * 2**20))
    with pytest.raises(DiskFull, match="has 10 MiB free; the database needs 300 MiB"):
        server.start()


def test_socket_path__of_a_long_checkout_is_short_enough(tmp_path: Path):
    long = tmp_path / ("d" * 90) / "var" / "mariadb"
    short = addresses.socket_path(long)
    assert len(os.fsencode(short)) <= addresses.MAX_SOCKET_PATH_BYTES
    assert short == addresses.socket_path(long)
    assert short != addresses.socket_path(long.with_name("other"))


@pytest.mark.parametrize("form", ["text", "json"])
def test_command__starts_reports_and_stops(tmp_path: Path, form: str):
    environment = {**os.environ, "LOCKHOUSE_VAR_DIR": str(tmp_path / "var"), "LOCKHOUSE_LOCAL": "1"}
    environment.pop("LOCKHOUSE_DATABASE_URL", None)
    environment["DJANGO_SETTINGS_MODULE"] = "console.settings"
    flags = ["--json"] if form == "json" else []

    def call(action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", "localdb", action, *flags],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
        )

    before, started, running, stopped = (call(action) for action in ("status", "start", "status", "stop"))
    assert [done.returncode for done in (before, started, running, stopped)] == [1, 0, 0, 0], started.stderr
    if form == "json":
        found = [json.loads(done.stdout)["running"] for done in (before, started, running, stopped)]
        assert found == [False, True, True, False]
    else:
        assert "does not run" in before.stdout
        assert "runs: MariaDB 1" in running.stdout
