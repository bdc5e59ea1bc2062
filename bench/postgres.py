"""A private PostgreSQL cluster for the peers that need one: Debian's server, its own durability, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import BOUND_TO_CALLER

_START_SECONDS = 60.0


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL server could be run."""


def binaries() -> Path | None:
    """Return the folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A running cluster.

    Attributes:
        folder: Where its socket is.
    """

    folder: Path

    def url(self, database: str) -> str:
        """Return the address of a database, which is made if it is missing."""
        if self.value("postgres", f"SELECT COUNT(*) FROM pg_database WHERE datname = '{database}'") == "0":
            self.value("postgres", f"CREATE DATABASE {database}")
        return self._address(database)

    def _address(self, database: str) -> str:
        return f"postgresql:///{database}?host={self.folder}&user=bench"

    def value(self, database: str, sql: str) -> str:
        """Return the first value that a statement gives."""
        done = subprocess.run(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql, self._address(database)],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip().partition("\n")[0]

    def count(self, database: str, sql: str) -> int:
        """Return the number that a statement gives."""
        return int(self.value(database, sql))

    def transactions(self, database: str) -> int:
        """Return how many transactions a database has ended, those that only read among them."""
        return self.count(
            "postgres", f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{database}'"
        )


@contextlib.contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Run a cluster that flushes at every commit, with as much memory as the embedded MariaDB has.

    Raises:
        PostgresUnavailable: It is not installed, or it did not start.
    """
    programs = binaries()
    if programs is None:
        message = "no PostgreSQL server is installed"
        raise PostgresUnavailable(message)
    folder = Path(tempfile.mkdtemp(prefix="lh-pg-"))
    # The server refuses to run as root.
    as_user: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    launcher = [*BOUND_TO_CALLER, *as_user]
    data, log = folder / "data", folder / "log"
    try:
        made = subprocess.run(
            [*launcher, str(programs / "initdb"), "-D", str(data), "-U", "bench", "-A", "trust", "-E", "UTF8"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise PostgresUnavailable(made.stderr[-1000:])
        options = ["-c", "listen_addresses=", "-c", "shared_buffers=256MB", "-k", str(folder)]
        with log.open("wb") as output:
            running = subprocess.Popen(
                [*launcher, str(programs / "postgres"), "-D", str(data), *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            server = Postgres(folder=folder)
            _await(server, running, log)
            if server.value("postgres", "SHOW fsync") + server.value("postgres", "SHOW synchronous_commit") != "onon":
                message = "the peer's server does not flush at every commit"
                raise PostgresUnavailable(message)
            yield server
        finally:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(timeout=10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await(server: Postgres, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.value("postgres", "SELECT 1")
            return
        time.sleep(0.1)
    raise PostgresUnavailable(log.read_text(errors="replace")[-1000:])
