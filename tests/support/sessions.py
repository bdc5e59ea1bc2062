"""Raw sessions on the test server, each with its own connection, and databases made for one test.

For tests of the database itself: what Django or the storage door would add must not be in the way.
"""

from __future__ import annotations

import contextlib
import copy
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import MySQLdb
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend
from MySQLdb.constants import CLIENT

from console.settings import databases
from integration.storage.install import install_schema
from integration.storage.schema import Vintage


def server_settings() -> dict[str, Any]:
    """Return Django's settings of the running test server."""
    settings: dict[str, Any] = databases(os.environ["LOCKHOUSE_TEST_SERVER_URL"])["default"]
    return settings


class Session:
    """One connection: `run` returns the number of matched rows, `rows` what was read, `refused` an error's number."""

    def __init__(self, database: str | None, *, lock_wait_seconds: int = 1) -> None:
        """Connect with READ COMMITTED, autocommit on and matched rows counted."""
        settings = server_settings()
        arguments: dict[str, Any] = {"user": settings["USER"] or "root", "password": settings["PASSWORD"]}
        if "unix_socket" in settings["OPTIONS"]:
            arguments["unix_socket"] = settings["OPTIONS"]["unix_socket"]
        else:
            arguments |= {"host": settings["HOST"], "port": int(settings["PORT"] or 3306)}
        if database:
            arguments["database"] = database
        self.connection = MySQLdb.connect(
            **arguments, charset="utf8mb4", autocommit=True, client_flag=CLIENT.FOUND_ROWS, connect_timeout=60
        )
        self.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.run("SET time_zone = '+00:00', innodb_lock_wait_timeout = %s", [lock_wait_seconds])

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute and return the number of matched rows."""
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(sql, params or None)
            return int(cursor.rowcount)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute and return every row."""
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(sql, params or None)
            return list(cursor.fetchall())

    def refused(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute and return the number of the error, 0 when there was none."""
        try:
            self.run(sql, params)
        except MySQLdb.Error as error:
            return int(error.args[0])
        return 0

    def begin(self) -> None:
        """Open a transaction."""
        self.run("BEGIN")

    def commit(self) -> None:
        """Commit it."""
        self.run("COMMIT")

    def rollback(self) -> None:
        """Roll it back."""
        self.run("ROLLBACK")

    def close(self) -> None:
        """Disconnect; what is open is rolled back."""
        self.connection.close()


@contextlib.contextmanager
def scratch_database() -> Iterator[str]:
    """Make a database of its own and drop it again; yield its name."""
    name = f"scratch_{uuid.uuid4().hex[:12]}"
    admin = Session(None)
    try:
        admin.run(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        try:
            yield name
        finally:
            admin.run(f"DROP DATABASE `{name}`")
    finally:
        admin.close()


@contextlib.contextmanager
def default_of_vintage(vintage: Vintage) -> Iterator[BaseDatabaseWrapper]:
    """Make a database of a vintage the default one; pytest-django must let databases be changed and reached."""
    usual = connections["default"]
    with scratch_database() as name:
        settings = copy.deepcopy(usual.settings_dict)
        settings["NAME"] = name
        made: BaseDatabaseWrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "default")
        connections["default"] = made
        try:
            install_schema(made, vintage)
            yield made
        finally:
            made.close()
            connections["default"] = usual
