"""The peers as sides: each set up as its documentation says, with as many workers as the others have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.harness import DJ_QUEUE_PYTHON, PEER_PYTHON, ROOT, Server, Workspace
from bench.postgres import Postgres
from bench.sides import Side

THREADS = 8
RIVER = ROOT / ".cache" / "bench-river" / "river"


@dataclass
class DjangoPeer:
    """A peer on Django and on the server under test.

    Attributes:
        name: As the report calls it.
        database: Where its tables are.
        package: Its settings, tasks and loader.
        python: The interpreter of its virtual environment.
        command: What runs one worker, or all of them.
        table: Where its jobs are.
        done: Which of them are finished.
        ready: Counts those that wait.
        is_one_family: One command starts all its processes.
    """

    work: Workspace
    server: Server
    name: str
    database: str
    package: str
    python: Path
    command: tuple[str, ...]
    done: str
    ready: str
    extra: Mapping[str, str] = field(default_factory=dict)
    is_one_family: bool = False
    environment: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        socket = parse_qs(urlsplit(self.server.url).query)["unix_socket"][0]
        self.environment = self.work.environment(
            self.server.database_url(self.database),
            f"{self.package}.settings",
            PEER_DATABASE=self.database,
            PEER_SOCKET=socket,
            **self.extra,
        )
        self.work.python(["-m", "django", "migrate", "--verbosity", "0"], self.environment, self.python)

    def load(self, count: int) -> None:
        """Enqueue in bulk."""
        self.work.python(["-m", f"{self.package}.load", str(count)], self.environment, self.python)

    def enqueue_steadily(self, count: int, interval_seconds: float) -> None:
        """Enqueue one job after another at a pace."""
        command = ["-m", f"{self.package}.load", str(count), str(interval_seconds)]
        self.work.python(command, self.environment, self.python)

    @contextlib.contextmanager
    def start(self, processes: int) -> Iterator[list[Any]]:
        """Run its workers."""
        environment = {**self.environment, "PEER_PROCESSES": str(processes)}
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(self.work.process(self.command, environment, self.python))
                for _ in range(1 if self.is_one_family else processes)
            ]

    def side(self, *, appetite: int = 1) -> Side:
        """Return it as a side."""
        return Side(
            name=self.name,
            done=lambda: int(self.server.value(self.done)),
            ready=lambda: int(self.server.value(self.ready)),
            load=self.load,
            start=self.start,
            appetite=appetite,
        )


def tasks_db(
    work: Workspace, server: Server, *, name: str = "django-tasks-db", interval: str | None = "0.05"
) -> DjangoPeer:
    """Return django-tasks-db; without an interval it polls as it does by default."""
    database = "tasks_db" + ("" if interval else "_default")
    polling = ("--interval", interval) if interval else ()
    return DjangoPeer(
        work=work,
        server=server,
        name=name,
        database=database,
        package="bench.peers.tasks_db",
        python=PEER_PYTHON,
        command=("-m", "django", "db_worker", *polling, "--no-startup-delay", "--no-reload"),
        done=f"SELECT COUNT(*) FROM {database}.django_tasks_database_dbtaskresult WHERE status = 'SUCCESSFUL'",
        ready=f"SELECT COUNT(*) FROM {database}.django_tasks_database_dbtaskresult WHERE status = 'READY'",
    )


def dj_queue(
    work: Workspace, server: Server, *, name: str = "dj-queue", poll: str | None = None, database: str = "dj_queue"
) -> DjangoPeer | None:
    """Return dj-queue, or None where there is no Python that it runs on; without `poll` it polls as by default."""
    if not DJ_QUEUE_PYTHON.exists():
        return None
    return DjangoPeer(
        work=work,
        server=server,
        name=name,
        database=database,
        package="bench.peers.dj_queue",
        python=DJ_QUEUE_PYTHON,
        command=("-m", "django", "dj_queue"),
        done=f"SELECT COUNT(*) FROM {database}.dj_queue_jobs WHERE finished_at IS NOT NULL",
        ready=f"SELECT COUNT(*) FROM {database}.dj_queue_ready_executions",
        extra={"PEER_THREADS": str(THREADS), **({"PEER_POLL": poll} if poll else {})},
        is_one_family=True,
    )


@dataclass
class PostgresPeer:
    """A peer with a PostgreSQL of its own.

    Attributes:
        name: As the report calls it.
        database: Where its tables are.
        program: What runs each of its commands `schema`, `load` and `work`.
        work_arguments: What follows `work`.
        done: Counts its finished jobs.
        ready: Counts those that wait.
    """

    work: Workspace
    postgres: Postgres
    name: str
    database: str
    program: tuple[str, ...]
    work_arguments: tuple[str, ...]
    done: str
    ready: str
    executable: Path = PEER_PYTHON
    environment: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        url = self.postgres.url(self.database)
        self.environment = self.work.environment(url, "", PEER_URL=url)
        self.work.python([*self.program, "schema"], self.environment, self.executable)

    def load(self, count: int) -> None:
        """Enqueue in bulk."""
        self._load(count, 0.0)

    def enqueue_steadily(self, count: int, interval_seconds: float) -> None:
        """Enqueue one job after another at a pace."""
        self._load(count, interval_seconds)

    def _load(self, count: int, interval_seconds: float) -> None:
        command = [*self.program, "load", str(count), str(interval_seconds)]
        self.work.python(command, self.environment, self.executable)

    @contextlib.contextmanager
    def start(self, processes: int) -> Iterator[list[Any]]:
        """Run its workers."""
        command = [*self.program, "work", *self.work_arguments]
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(self.work.process(command, self.environment, self.executable))
                for _ in range(processes)
            ]

    def side(self, *, appetite: int = 1, processes: int | None = None) -> Side:
        """Return it as a side."""
        return Side(
            name=self.name,
            done=lambda: self.postgres.count(self.database, self.done),
            ready=lambda: self.postgres.count(self.database, self.ready),
            load=self.load,
            start=self.start,
            appetite=appetite,
            is_counted=False,
            processes=processes,
        )


def procrastinate(work: Workspace, postgres: Postgres) -> PostgresPeer:
    """Return procrastinate."""
    return PostgresPeer(
        work=work,
        postgres=postgres,
        name="procrastinate",
        database="procrastinate",
        program=("-m", "bench.peers.procrastinate.app"),
        work_arguments=(str(THREADS),),
        done="SELECT COUNT(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
        ready="SELECT COUNT(*) FROM procrastinate_jobs WHERE status = 'todo'",
    )


def river(work: Workspace, postgres: Postgres, *, workers: int = 100, cooldown_ms: int = 100) -> PostgresPeer | None:
    """Return River, or None where it could not be built.

    Args:
        work: Where its log goes.
        postgres: Its server.
        workers: Jobs that run at once.
        cooldown_ms: The least time between two looks for jobs; 100 is its default.
    """
    if not RIVER.exists():
        return None
    return PostgresPeer(
        work=work,
        postgres=postgres,
        name="river",
        database="river",
        program=(),
        work_arguments=(str(workers), str(cooldown_ms)),
        done="SELECT COUNT(*) FROM river_job WHERE state = 'completed'",
        ready="SELECT COUNT(*) FROM river_job WHERE state = 'available'",
        executable=RIVER,
    )
