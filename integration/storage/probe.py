"""What this database is and has, found by asking it.

No setting says which engine or schema a database has: two processes with different settings must agree,
and a column may arrive while a process runs. Answers are kept for a second, of all connections of a process; a
complete schema, which no step makes smaller, for ten.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from django.db import connections

from integration import errors
from integration.storage.schema import (
    TABLE_PREFIX,
    Change,
    Vintage,
    declared_columns,
    declared_steps,
    declared_tables,
)

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

EVENT_TABLE: Final = "_System_ConnectorEvent"
WORK_ITEM_TABLE: Final = "_System_ConnectorWorkItem"
_INCOMPLETE_SECONDS: Final = 1.0
_COMPLETE_SECONDS: Final = 10.0
#: Database -> until when its capabilities are good, and what they are; of all connections of the process, since the
#: question costs more than a page's other statements together and every thread has a connection of its own.
_remembered: dict[Hashable, tuple[float, Capabilities]] = {}

_COLUMNS_SQL: Final = "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
_KEYS_SQL: Final = (
    "SELECT DISTINCT TABLE_NAME, INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()"
)


class Engine(StrEnum):
    """The kind of server behind the connection."""

    MARIADB = "mariadb"
    TIDB = "tidb"
    MYSQL = "mysql"


#: The oldest version of each engine that the statements are written for.
OLDEST: Final[dict[Engine, tuple[int, int]]] = {
    Engine.MARIADB: (10, 11),
    Engine.TIDB: (8, 0),
    Engine.MYSQL: (8, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server's own word on what it is.

    Attributes:
        engine: The kind of server.
        version: Its own version, major and minor; on TiDB not the MySQL version it poses as.
        banner: What `VERSION()` returned.
    """

    engine: Engine
    version: tuple[int, int]
    banner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The tables, columns and keys of the schema that a database has, names in lower case."""

    columns: frozenset[tuple[str, str]]
    keys: frozenset[tuple[str, str]]

    @property
    def tables(self) -> frozenset[str]:
        """Return the tables, by name in lower case."""
        return frozenset(table for table, _ in self.columns)

    def has_table(self, table: str) -> bool:
        """Return whether the table exists."""
        return table.lower() in self.tables

    def has_column(self, table: str, column: str) -> bool:
        """Return whether the table exists and has the column."""
        return (table.lower(), column.lower()) in self.columns

    def has_key(self, table: str, key: str) -> bool:
        """Return whether the table exists and has the secondary key."""
        return (table.lower(), key.lower()) in self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a database can hold.

    Attributes:
        server: Engine and version.
        vintage: The newest vintage whose tables and columns are all there, None without an Event table.
        has_events: An Event can be stored.
        has_work_items: A WorkItem can be stored.
        has_additive: A WorkItem holds failure and replay facts.
        has_ranges: A WorkItem holds its input range and the protocol table exists.
        has_rollback: A WorkItem can be fenced for an inbound rollback, with fence and receipt tables.
        missing_tables: Declared tables that are not there, sorted.
        missing_columns: `Table.Column` of declared columns that tables which are there do not have, sorted.
        missing_keys: `Table.Key` of declared keys that such tables do not have, sorted.
    """

    server: Server
    vintage: Vintage | None
    has_events: bool
    has_work_items: bool
    has_additive: bool
    has_ranges: bool
    has_rollback: bool
    missing_tables: tuple[str, ...]
    missing_columns: tuple[str, ...]
    missing_keys: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether nothing that is declared is missing."""
        return not (self.missing_tables or self.missing_columns or self.missing_keys)


def read_server(connection: BaseDatabaseWrapper) -> Server:
    """Ask the server what it is.

    Args:
        connection: An open or lazily opened connection.

    Returns:
        Engine, version and banner.

    Raises:
        UnsupportedEngine: The banner cannot be read, or the version is older than the statements need.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        row = cursor.fetchone()
    return parse_banner(str(row[0]) if row else "")


def parse_banner(banner: str) -> Server:
    """Read engine and version from what `VERSION()` returned.

    Args:
        banner: For instance `10.11.6-MariaDB-0+deb12u1` or `8.0.11-TiDB-v8.4.0`.

    Returns:
        Engine, version and the banner itself.

    Raises:
        UnsupportedEngine: It cannot be read, or the version is older than the statements need.
    """
    # TiDB poses as MySQL 8.0.11 and would pass for it: its own version stands behind its name.
    if match := re.search(r"TiDB-v?(\d+)\.(\d+)", banner):
        engine = Engine.TIDB
    elif "mariadb" in banner.lower() and (match := re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", banner)):
        engine = Engine.MARIADB
    elif "tidb" not in banner.lower() and (match := re.match(r"(\d+)\.(\d+)", banner)):
        engine = Engine.MYSQL
    else:
        message = f"The database server calls itself {banner!r}; MariaDB, TiDB or MySQL is needed."
        raise errors.UnsupportedEngine(message, banner=banner)
    version = (int(match.group(1)), int(match.group(2)))
    if version < OLDEST[engine]:
        oldest = ".".join(map(str, OLDEST[engine]))
        message = f"{engine} {version[0]}.{version[1]} is too old: {oldest} or newer is needed."
        raise errors.UnsupportedEngine(message, banner=banner)
    return Server(engine=engine, version=version, banner=banner)


def read_schema(connection: BaseDatabaseWrapper) -> Found:
    """Read which tables, columns and keys of the schema exist; never cached.

    Args:
        connection: An open or lazily opened connection with a database selected.

    Returns:
        The names found, in lower case, since a server may fold them.
    """
    return Found(
        columns=_read_names(connection, _COLUMNS_SQL),
        keys=_read_names(connection, _KEYS_SQL),
    )


def _read_names(connection: BaseDatabaseWrapper, sql: str) -> frozenset[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        names = [(str(table).lower(), str(name).lower()) for table, name in cursor.fetchall()]
    # Filtered here: LIKE with ESCAPE on information_schema finds nothing on TiDB.
    return frozenset(pair for pair in names if pair[0].startswith(TABLE_PREFIX.lower()))


def describe(server: Server, found: Found) -> Capabilities:
    """Decide what a schema can hold.

    Args:
        server: The server it is on.
        found: The tables, columns and keys that exist.

    Returns:
        The capabilities; pure, reads nothing.
    """

    def complete(vintage: Vintage, *, exactly: bool = False) -> bool:
        return all(
            found.has_column(step.table, column)
            for step in declared_steps()
            if (step.vintage is vintage if exactly else step.vintage.age <= vintage.age)
            for column in step.columns
        )

    def whole(table: str) -> bool:
        return all(found.has_column(table, column) for column in declared_columns(table, vintage=Vintage.LEGACY))

    has_work_items = whole(WORK_ITEM_TABLE)
    has_additive = has_work_items and complete(Vintage.ADDITIVE, exactly=True)
    reached = [vintage for vintage in Vintage if complete(vintage)]
    return Capabilities(
        server=server,
        vintage=reached[-1] if reached else None,
        has_events=whole(EVENT_TABLE),
        has_work_items=has_work_items,
        has_additive=has_additive,
        has_ranges=has_additive
        and found.has_column(WORK_ITEM_TABLE, "InputStartOrdinal")
        and whole("_System_ConnectorProjectionProtocol"),
        has_rollback=has_additive
        and all(
            found.has_column(WORK_ITEM_TABLE, column)
            for column in (
                "RollbackExecutionFenceId",
                "LegacyOutcomeReceiptVersion",
                "LegacyOutcomeReceiptDigest",
            )
        )
        and whole("_System_ConnectorRollbackFence")
        and whole("_System_ConnectorLegacyOutcomeReceipt"),
        missing_tables=tuple(table for table in declared_tables() if not found.has_table(table)),
        missing_columns=tuple(
            sorted(
                f"{step.table}.{column}"
                for step in declared_steps()
                if found.has_table(step.table)
                for column in step.columns
                if not found.has_column(step.table, column)
            )
        ),
        missing_keys=tuple(
            sorted(
                f"{step.table}.{key}"
                for step in declared_steps()
                if found.has_table(step.table)
                for key in step.keys
                if not found.has_key(step.table, key)
            )
        ),
    )


def _database_of(connection: BaseDatabaseWrapper) -> Hashable:
    settings = connection.settings_dict
    socket = settings.get("OPTIONS", {}).get("unix_socket")
    return settings.get("HOST"), settings.get("PORT"), socket, settings.get("NAME")


def probe(connection: BaseDatabaseWrapper, *, fresh: bool = False) -> Capabilities:
    """Return what the connection's database has.

    Args:
        connection: The connection to ask; the answer is remembered for its database.
        fresh: Ask again even if a recent answer is remembered.

    Returns:
        The capabilities, at most a second old; a complete schema's at most ten.

    Raises:
        UnsupportedEngine: The server is none that the statements are written for.

    Rule: A-34
    """
    database = _database_of(connection)
    if not fresh and (known := _recent(database)) is not None:
        return known
    # Two threads may ask at once; a lock would make all wait in line for a database that does not answer.
    asked_at = time.monotonic()
    capabilities = describe(read_server(connection), read_schema(connection))
    keep = _COMPLETE_SECONDS if capabilities.is_complete else _INCOMPLETE_SECONDS
    _remembered[database] = (asked_at + keep, capabilities)
    return capabilities


def _recent(database: Hashable) -> Capabilities | None:
    until, known = _remembered.get(database, (0.0, None))
    return known if time.monotonic() < until else None


def capabilities(using: str = "default", *, fresh: bool = False) -> Capabilities:
    """Return what the database behind an alias has; as `probe`."""
    return probe(connections[using], fresh=fresh)


def forget(connection: BaseDatabaseWrapper) -> None:
    """Drop what is remembered of a connection's database, after a change of its schema."""
    _remembered.pop(_database_of(connection), None)


def is_there(step_change: Change, table: str, name: str, found: Found) -> bool:
    """Return whether what a step brings exists already."""
    match step_change:
        case Change.TABLE:
            return found.has_table(table)
        case Change.COLUMN:
            return found.has_column(table, name)
        case Change.KEY:
            return found.has_key(table, name)
