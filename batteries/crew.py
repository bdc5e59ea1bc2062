"""The processes of the soak: started, killed and started again; and what they and the database use while they run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import MySQLdb

from batteries import kernel, soaking
from batteries.database import Ground
from batteries.r5_outages import _await_open, process
from tests.support.processes import free_port

_SAMPLE_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_LONGEST_SECONDS = 60.0
_HISTORY = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"


class Crew:
    """Everything that runs beside the battery. Its main thread alone starts them: they die with the thread that did."""

    def __init__(self, ground: Ground, pack_id: str, *, kill_every: float) -> None:
        self.record = ground.folder / "runs"
        self.port = free_port()
        self.kills: Counter[str] = Counter()
        self.is_mutant = ground.mutant
        self._ground, self._pack_id, self._kill_every = ground, pack_id, kill_every
        self._stack = contextlib.ExitStack()
        self._running: dict[str, Any] = {}
        #: Since when it works, of those that are killed.
        self._works_since: dict[str, float] = {}

    def __enter__(self) -> Self:
        arguments = ["-m", "gunicorn", "--config", "console/gunicorn.conf.py", "--bind", f"127.0.0.1:{self.port}"]
        settings = {"DJANGO_SETTINGS_MODULE": "console.settings", "LOCKHOUSE_LOCAL": "1"}
        server = self._stack.enter_context(process(arguments, self._ground.url, self._log("web"), **settings))
        self._running["web"] = server
        _await_open(self.port, server, self._log("web"))
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    def _log(self, name: str) -> Path:
        return self._ground.folder / f"{name}.log"

    def start(self, name: str) -> None:
        """Start a process, or start it again."""
        arguments = ["-m", "batteries.soaking", name, self._pack_id]
        if self.is_mutant and name == "worker":
            arguments.append("--unfenced")
        extra = {"LOCKHOUSE_BATTERY_RECORD": str(self.record), "LOCKHOUSE_LOG_LEVEL": "ERROR"}
        self._running[name] = self._stack.enter_context(process(arguments, self._ground.url, self._log(name), **extra))
        self._works_since.pop(name, None)

    def forget(self, name: str) -> None:
        """Start it no more; it ends by itself."""
        self._running.pop(name, None)

    def pid(self, name: str) -> int:
        """Return a process's id."""
        return int(self._running[name].pid)

    def lives(self) -> bool:
        """Return whether those live that nobody kills."""
        return all(self._running[name].poll() is None for name in ("web", "materializer"))

    def said(self, name: str) -> str:
        """Return the end of what a process said."""
        return self._log(name).read_text(encoding="utf-8", errors="replace")[-2000:]

    def pause(self, seconds: float) -> None:
        """Wait; meanwhile kill whoever has executed for long enough, and start it again."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for name in ("worker", "executor"):
                self._kill_in_time(name)
            time.sleep(min(left, _LOOK_SECONDS))

    def await_run(self) -> None:
        """Wait until something more has been executed, by whomever."""
        before, until = len(kernel.runs(self.record)), time.monotonic() + _LONGEST_SECONDS
        while len(kernel.runs(self.record)) == before and time.monotonic() < until:
            self.pause(_LOOK_SECONDS)

    def _kill_in_time(self, name: str) -> None:
        running = self._running.get(name)
        if running is None or soaking.READY not in self.said(name):
            return
        since = self._works_since.setdefault(name, time.monotonic())
        if time.monotonic() - since >= self._kill_every:
            running.kill()
            running.wait()
            self.kills[name] += 1
            self.start(name)


class Watch:
    """Samples memory and MariaDB's history list, and holds snapshots, half of the time."""

    def __init__(self, ground: Ground, crew: Crew, *, hold_seconds: float) -> None:
        self.snapshots = 0
        self._engine = ground.engine
        self._socket = parse_qs(urlsplit(ground.url).query)["unix_socket"][0]
        self._database = urlsplit(ground.url).path.strip("/")
        self._crew = crew
        self._hold_seconds = hold_seconds
        self._rss: list[tuple[float, int]] = []
        self._history: list[int] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._hold, self._sample)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        with contextlib.closing(
            MySQLdb.connect(unix_socket=self._socket, user="root", database=self._database)
        ) as session:
            yield session.cursor()

    def _hold(self) -> None:
        with self._cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            while not self._over.is_set():
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                cursor.execute("SELECT COUNT(*) FROM _System_ConnectorWorkItem")
                self.snapshots += 1
                self._over.wait(self._hold_seconds)
                cursor.execute("COMMIT")
                self._over.wait(self._hold_seconds)

    def _sample(self) -> None:
        with self._cursor() as cursor:
            while not self._over.wait(_SAMPLE_SECONDS):
                with contextlib.suppress(KeyError, OSError):
                    status = Path(f"/proc/{self._crew.pid('materializer')}/status").read_text(encoding="ascii")
                    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
                    self._rss.append((time.monotonic(), kib))
                if self._engine == "mariadb":
                    cursor.execute(_HISTORY)
                    self._history.append(int(cursor.fetchone()[0]))

    def memory(self) -> list[float]:
        """Return the materializer's last size in KiB, and by how much it grew a minute after its first quarter."""
        kept = self._rss[len(self._rss) // 4 :]
        if len(kept) < 2:
            return []
        minutes = (kept[-1][0] - kept[0][0]) / 60
        return [kept[-1][1], round((kept[-1][1] - kept[0][1]) / minutes, 1)]

    def history(self) -> list[int] | None:
        """Return the longest and the last length of the history list; None where there is none."""
        return [max(self._history), self._history[-1]] if self._history else None
