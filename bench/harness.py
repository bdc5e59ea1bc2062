"""What every benchmark needs: a durable throwaway server, counters, and processes on it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import MySQLdb

from bench.addresses import connect
from tests.support import servers
from tests.support.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
#: Eight processes that start at once on two busy cores take their time.
_START_SECONDS = 180
SECRET = "the-secret-that-signs-the-benchmark"
PEER_PYTHON = ROOT / ".cache" / "bench-venv" / "bin" / "python"
DJ_QUEUE_PYTHON = ROOT / ".cache" / "bench-dj-queue-venv" / "bin" / "python"


@dataclass
class Server:
    """A running database server and an administrator's connection to it."""

    engine: str
    url: str
    connection: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.connection = self.connect()

    @property
    def is_tidb(self) -> bool:
        return self.engine == "tidb"

    def connect(self, database: str | None = None) -> Any:
        """Open a connection of the harness's own, at the console's isolation."""
        return connect(self._address(database or ""))

    def database_url(self, name: str) -> str:
        """Return the address of one database, which is made if it is missing."""
        self.run(f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        return self._address(name)

    def _address(self, name: str) -> str:
        head, _, query = self.url.partition("?")
        return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(sql, params or None)
            return int(cursor.rowcount)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(sql, params or None)
            return list(cursor.fetchall())

    def value(self, sql: str, params: Sequence[Any] = ()) -> Any:
        return self.rows(sql, params)[0][0]

    def pid(self) -> int:
        """Return the server's process id; MariaDB only."""
        return int(Path(str(self.value("SELECT @@pid_file"))).read_text())

    def commits(self) -> int:
        """Return how many transactions that wrote something were committed since the start; 0 where not counted."""
        if self.is_tidb:
            return 0
        return int(self.value("SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rw_commits'"))

    def status(self, *names: str) -> dict[str, int]:
        """Return counters of SHOW GLOBAL STATUS; MariaDB only."""
        found = {str(name): value for name, value in self.rows("SHOW GLOBAL STATUS")}
        return {name: int(found[name]) for name in names}


@contextlib.contextmanager
def database_server(engine: str) -> Iterator[Server]:
    """Run a throwaway server that flushes at every commit, as the embedded one does."""
    running = servers.mariadb_server(durable=True) if engine == "mariadb" else servers.tidb_server()
    with running as url:
        server = Server(engine=engine, url=url)
        if engine == "mariadb":
            flush = server.value("SELECT @@innodb_flush_log_at_trx_commit")
            if int(flush) != 1:
                message = "the benchmark's server does not flush at every commit"
                raise RuntimeError(message)
            server.run("SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'")
        try:
            yield server
        finally:
            with contextlib.suppress(MySQLdb.Error):
                server.connection.close()


@dataclass
class Workspace:
    """A var directory and log files, gone afterwards."""

    folder: Path

    def environment(self, database_url: str, settings: str = "bench.settings", **extra: str) -> dict[str, str]:
        """Return the environment of a process under measurement: the local run's, with its shipped log level."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings,
            "LOCKHOUSE_DATABASE_URL": database_url,
            "LOCKHOUSE_LOCAL": "1",
            "LOCKHOUSE_VAR_DIR": str(self.folder / "var"),
            "LOCKHOUSE_SECRETS_DEMO": SECRET,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            **extra,
        }

    def python(self, arguments: Sequence[str], environment: Mapping[str, str], python: Path | None = None) -> str:
        """Run a Python command to its end and return its output."""
        done = subprocess.run(
            [str(python or sys.executable), *arguments],
            cwd=ROOT,
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            message = f"{' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            raise RuntimeError(message)
        return done.stdout

    @contextlib.contextmanager
    def process(
        self, arguments: Sequence[str], environment: Mapping[str, str], python: Path | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a Python process beside the benchmark; its log goes to a file."""
        log = self.folder / f"process-{time.monotonic_ns()}.log"
        with log.open("w") as errors:
            running = subprocess.Popen(
                [*servers.BOUND_TO_CALLER, str(python or sys.executable), *arguments],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                # A pipe that nobody reads would stop a peer that talks.
                stdout=errors,
                stderr=errors,
                text=True,
            )
        try:
            yield running
            if running.poll() not in {None, 0}:
                message = f"{' '.join(arguments)} ended with {running.returncode}:\n{log.read_text()[-4000:]}"
                raise RuntimeError(message)
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGTERM)
                try:
                    running.wait(timeout=40)
                except subprocess.TimeoutExpired:
                    running.kill()
                    running.wait()

    def newest_log(self) -> Path:
        """Return the log of the process that was started last."""
        return max(self.folder.glob("process-*.log"), key=lambda log: int(log.stem.partition("-")[2]))

    @contextlib.contextmanager
    def gunicorn(self, application: str, environment: Mapping[str, str]) -> Iterator[str]:
        """Serve an application with the console's own gunicorn settings; yield its base address."""
        port = free_port()
        command = ["-m", "gunicorn", "--config", "console/gunicorn.conf.py", "--bind", f"127.0.0.1:{port}", application]
        with self.process(command, environment) as running:
            await_port(running, port)
            yield f"http://127.0.0.1:{port}"


def await_port(running: subprocess.Popen[str], port: int) -> None:
    """Return when a process listens on a loopback port."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    ended = running.poll()
    message = f"a process did not listen in {_START_SECONDS} s" if ended is None else f"a process ended with {ended}"
    raise RuntimeError(message)


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    """Make a scratch folder for one benchmark."""
    with tempfile.TemporaryDirectory(prefix="lh-bench-") as name:
        yield Workspace(Path(name))


def install_lockhouse(work: Workspace, server: Server, database: str = "lockhouse") -> dict[str, str]:
    """Make the console's tables and the demo pack; return the environment of its processes."""
    environment = work.environment(server.database_url(database))
    work.python(["manage.py", "migrate", "--verbosity", "0"], environment)
    work.python(["manage.py", "install_schema"], environment)
    work.python(["manage.py", "install_pack", "integration/packs/demo.yaml", "--activate"], environment)
    return environment


def resident_mib(pids: Sequence[int]) -> float:
    """Return the resident memory of processes and of all that they started, in MiB."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            pid = int(status.parent.name)
            parents[pid] = int(fields["PPid"])
            resident[pid] = int(fields.get("VmRSS", "0 kB").split()[0])
    family = set(pids)
    grown = True
    while grown:
        born = {pid for pid, parent in parents.items() if parent in family} - family
        family |= born
        grown = bool(born)
    return sum(resident.get(pid, 0) for pid in family) / 1024
