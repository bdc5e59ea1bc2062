"""Backlogs of a thousand to a million ready rows, and what keeps them at that depth while they are worked on.

The rows at the far end are made by the server and are never reached. Those that are worked on come from a stage: a
database of the same program with sealed payloads, from which the server copies them. What is copied costs the same
at every depth.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import MySQLdb

from bench.harness import Server, Workspace
from bench.rivals import DjangoPeer
from bench.sides import Lockhouse

_BATCH = 20_000
_TICK_SECONDS = 0.05
_PACK_TABLES = ("Namespace", "PackInstall", "CutoverReceipt")
# Their ordinals are above every staged one; their ids are older, so that what is fed is appended.
_FAR = 1_000_000_000
# Staged rows are sealed while the windows run, the far ones were made before: what is fed is due before both.
_DUE = "UTC_TIMESTAMP(6) - INTERVAL 1 DAY"
_ID = "CONCAT(LOWER(LPAD(HEX(n), 8, '0')), '-0000-7000-{variant}000-000000000000')"


def make_numbers(server: Server, count: int) -> None:
    """Make a table of the numbers below a count, for INSERT .. SELECT."""
    server.run("CREATE DATABASE IF NOT EXISTS bench_numbers")
    server.run("DROP TABLE IF EXISTS bench_numbers.numbers, bench_numbers.digits")
    server.run("CREATE TABLE bench_numbers.digits (d INT PRIMARY KEY)")
    server.run("INSERT INTO bench_numbers.digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
    server.run("CREATE TABLE bench_numbers.numbers (n INT PRIMARY KEY)")
    tables = " CROSS JOIN ".join(f"bench_numbers.digits d{place}" for place in range(6))
    terms = " + ".join(f"d{place}.d * {10**place}" for place in range(6))
    server.run(f"INSERT INTO bench_numbers.numbers SELECT {terms} AS n FROM {tables} HAVING n < %s", (count,))


def stored_columns(server: Server, database: str, table: str) -> list[str]:
    """Return a table's columns in order, without those that the server computes."""
    return [
        str(row[0])
        for row in server.rows(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            " AND EXTRA NOT LIKE %s ORDER BY ORDINAL_POSITION",
            (database, table, "%GENERATED%"),
        )
    ]


class Depth(Protocol):
    """A backlog of a known depth."""

    name: str
    depth: int
    near: int

    def missing(self) -> int:
        """Count what has to be fed to make it as deep as it was, on the connection that feeds."""

    def done(self) -> int:
        """Count what is finished."""

    def feed(self, count: int) -> None:
        """Add ready rows; used by one thread, on a connection of its own."""

    def prepare(self, count: int) -> None:
        """Have at least so many rows at hand for feeding, and the backlog at its depth."""

    def start(self, processes: int) -> AbstractContextManager[list[Any]]:
        """Run workers."""


@dataclass
class Stage:
    """Sealed items to copy from: one pack of one database."""

    work: Workspace
    server: Server
    loaded: int = 0
    system: Lockhouse = field(init=False)

    def __post_init__(self) -> None:
        self.system = Lockhouse(self.work, self.server, "stage", "stage")

    def hold(self, count: int) -> None:
        """Have at least so many items."""
        if self.loaded < count:
            self.system.load(count - self.loaded)
            self.loaded = count

    @property
    def pack_install_id(self) -> str:
        """The pack that all items are of."""
        return str(self.server.value("SELECT PackInstallId FROM stage._System_ConnectorWorkItem LIMIT 1"))


class LockhouseDepth:
    """The program's backlog."""

    def __init__(self, stage: Stage, depth: int, near: int) -> None:
        """Make the database and its far rows.

        Args:
            stage: What is copied from.
            depth: How many rows are ready.
            near: How many of them are worked on; the others stand behind them.
        """
        self.name, self.depth = f"lockhouse, {depth:,} ready", depth
        self.near = near
        self._stage, self._server = stage, stage.server
        self._database = f"depth_{depth}"
        self._fed = 0
        self._pack = stage.pack_install_id
        self.system = Lockhouse(stage.work, stage.server, self.name, self._database)
        for table in _PACK_TABLES:
            self._server.run(
                f"INSERT IGNORE INTO `{self._database}`._System_Connector{table}"
                f" SELECT * FROM stage._System_Connector{table} WHERE {_of_pack(table)}",
                (self._pack,),
            )
        self._feeder = self._server.connect(self._database)
        self._columns = {
            table: stored_columns(self._server, self._database, f"_System_Connector{table}")
            for table in ("Event", "WorkItem")
        }
        self.feed(1)
        self._make_far(depth - near)
        self._server.run(f"ANALYZE TABLE `{self._database}`._System_ConnectorWorkItem")

    def missing(self) -> int:
        with contextlib.closing(self._feeder.cursor()) as cursor:
            # Of a few rows, whatever the depth: the far ones are not among them.
            cursor.execute(
                "SELECT COUNT(*) FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)"
                " WHERE PackInstallId = %s AND State = 'pending' AND LaneOrdinal < %s",
                (self._pack, _FAR),
            )
            return self.near - int(cursor.fetchone()[0])

    def done(self) -> int:
        return self.system.count("succeeded")

    def prepare(self, count: int) -> None:
        self._stage.hold(self._fed + self.near + count)
        self.feed(max(self.missing(), 0))

    def feed(self, count: int) -> None:
        first, last = self._fed + 1, self._fed + count
        with contextlib.closing(self._feeder.cursor()) as cursor:
            for table, index in (("Event", "UX_Event_Ordinal"), ("WorkItem", "IX_WorkItem_Pack")):
                names = ", ".join(self._columns[table])
                values = ", ".join(_DUE if name == "RunAfter" else name for name in self._columns[table])
                cursor.execute(
                    f"INSERT INTO _System_Connector{table} ({names})"
                    f" SELECT {values} FROM stage._System_Connector{table} FORCE INDEX ({index})"
                    " WHERE PackInstallId = %s AND LaneOrdinal BETWEEN %s AND %s"
                    + (" AND State = 'pending'" if table == "WorkItem" else ""),
                    (self._pack, first, last),
                )
        self._fed = last

    def start(self, processes: int) -> AbstractContextManager[list[Any]]:
        return self.system.start(processes)

    def _make_far(self, count: int) -> None:
        """Copy one row over and over: later than every staged one, and so never reached."""
        for table, changed in (("Event", _FAR_EVENT), ("WorkItem", _FAR_WORK_ITEM)):
            names = self._columns[table]
            values = ", ".join(changed.get(name, f"r.`{name}`") for name in names)
            for first in range(0, count, _BATCH):
                # The table that is read may not be the one that is written on every server: read the stage's.
                self._server.run(
                    f"INSERT INTO `{self._database}`._System_Connector{table} ({', '.join(names)}) SELECT {values}"
                    f" FROM bench_numbers.numbers CROSS JOIN (SELECT * FROM stage._System_Connector{table}"
                    " WHERE PackInstallId = %s AND LaneOrdinal = 1) AS r WHERE n >= %s AND n < %s",
                    (self._pack, first, min(first + _BATCH, count)),
                )


_FAR_EVENT = {
    "EventId": _ID.format(variant="8"),
    "LaneOrdinal": f"{_FAR} + n",
    "IdempotencyKey": "CONCAT('far:', n)",
    "ReceiptId": _ID.format(variant="a"),
    # Never read.
    "Payload": "REPEAT('x', 300)",
}
_FAR_WORK_ITEM = {
    "WorkId": _ID.format(variant="9"),
    "EventId": _ID.format(variant="8"),
    "SubjectId": _ID.format(variant="8"),
    "LaneOrdinal": f"{_FAR} + n",
    "RunAfter": "UTC_TIMESTAMP(6)",
}


def _of_pack(table: str) -> str:
    if table == "Namespace":
        return "Namespace IN (SELECT Namespace FROM stage._System_ConnectorPackInstall WHERE PackInstallId = %s)"
    return "PackInstallId = %s"


class DjQueueDepth:
    """dj-queue's backlog: each row is a copy of one that its own API stored."""

    def __init__(self, peer: DjangoPeer, depth: int) -> None:
        """Enqueue one job and copy it."""
        self.name, self.depth, self.near = f"dj-queue, {depth:,} ready", depth, depth
        self._peer, self._server = peer, peer.server
        peer.load(1)
        self._feeder = self._server.connect(peer.database)
        self._template = self._rows("SELECT job_id FROM dj_queue_ready_executions LIMIT 1")[0][0]
        for first in range(0, depth, _BATCH):
            self.feed(min(_BATCH, depth - first))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(self._feeder.cursor()) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def missing(self) -> int:
        # They are claimed in the order of their ids, so what lies between the ends is what waits.
        low, high = self._rows("SELECT MIN(id), MAX(id) FROM dj_queue_ready_executions")[0]
        return self.depth - (0 if low is None else int(high) - int(low) + 1)

    def done(self) -> int:
        return int(self._server.value(self._peer.done))

    def prepare(self, count: int) -> None:
        missing = self.missing()
        if missing > 0:
            self.feed(missing)

    def feed(self, count: int) -> None:
        jobs = self._columns("dj_queue_jobs")
        fresh = {"id": "UUID()", "finished_at": "NULL", "return_value": "NULL", "created_at": "UTC_TIMESTAMP(6)"}
        values = ", ".join(f"{fresh.get(name, f'r.`{name}`')} AS `{name}`" for name in jobs)
        with contextlib.closing(self._feeder.cursor()) as cursor:
            cursor.execute("DROP TEMPORARY TABLE IF EXISTS fed")
            cursor.execute(
                f"CREATE TEMPORARY TABLE fed AS SELECT {values} FROM bench_numbers.numbers"
                " CROSS JOIN (SELECT * FROM dj_queue_jobs WHERE id = %s) AS r WHERE n < %s",
                (self._template, count),
            )
            cursor.execute("START TRANSACTION")
            cursor.execute(f"INSERT INTO dj_queue_jobs ({', '.join(jobs)}) SELECT * FROM fed")
            cursor.execute(
                "INSERT INTO dj_queue_ready_executions (job_id, backend_alias, queue_name, priority, created_at,"
                " latency_started_at) SELECT id, backend_alias, queue_name, priority, UTC_TIMESTAMP(6),"
                " UTC_TIMESTAMP(6) FROM fed"
            )
            cursor.execute("COMMIT")

    def _columns(self, table: str) -> list[str]:
        return [str(row[0]) for row in self._rows(f"SHOW COLUMNS FROM {table}")]

    def start(self, processes: int) -> AbstractContextManager[list[Any]]:
        return self._peer.start(processes)


@dataclass
class Fed:
    """How the feeding went.

    Attributes:
        ticks: How often it was looked.
        dry: How often nothing was left that is worked on.
    """

    ticks: int = 0
    dry: int = 0

    @property
    def dry_percent(self) -> float:
        """The share of looks that found nothing left; what was measured then is the feeder."""
        return 100 * self.dry / max(self.ticks, 1)


@contextlib.contextmanager
def feeding(backlog: Depth) -> Iterator[Fed]:
    """Keep a backlog at its depth while the block runs."""
    stopping = threading.Event()
    faults: list[Exception] = []
    fed = Fed()

    def feed() -> None:
        try:
            while not stopping.wait(_TICK_SECONDS):
                missing = backlog.missing()
                fed.ticks += 1
                fed.dry += missing >= backlog.near
                if missing > 0:
                    backlog.feed(missing)
        except MySQLdb.Error as error:
            faults.append(error)

    thread = threading.Thread(target=feed, name="feeder")
    thread.start()
    try:
        yield fed
    finally:
        stopping.set()
        thread.join()
    if faults:
        raise faults[0]
