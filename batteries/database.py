"""The database that a battery attacks: the caller's, or a throwaway server with the schema of the program."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from tests.support import servers

if TYPE_CHECKING:
    from integration.storage.schema import Vintage


@dataclass
class Ground:
    """Where a battery works.

    Attributes:
        engine: `mariadb` or `tidb`.
        url: The database's address.
        folder: Scratch files.
        size: How large the battery is: `shortest`, `short`, `long`.
        seed: Where random choices come from.
        mutant: Take the guard away.
        seconds: How long a battery lasts that is measured in time; None for what fits the size.
    """

    engine: str
    url: str
    folder: Path
    size: str
    seed: int
    mutant: bool
    seconds: float | None = None

    def pick(self, shortest: Any, short: Any, long: Any) -> Any:
        """Return what fits the size."""
        return {"shortest": shortest, "short": short, "long": long}[self.size]


def load_django(url: str) -> None:
    """Load the program with the tests' settings and keys on a database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.support.settings"
    os.environ["LOCKHOUSE_DATABASE_URL"] = url
    os.environ.setdefault("LOCKHOUSE_LOG_LEVEL", "ERROR")
    import django

    from batteries import hook
    from integration import failpoints

    # Before the program imports it by name: its own failpoints are then places like any other.
    failpoints.failpoint = hook.named_place
    django.setup()


def use(url: str) -> None:
    """Point this process at another address."""
    from django.conf import settings
    from django.db import connections

    from console.settings import databases

    connections.close_all()
    settings.DATABASES["default"].clear()
    settings.DATABASES["default"].update(databases(url)["default"])
    with contextlib.suppress(AttributeError):
        delattr(connections._connections, "default")
    connections.settings = connections.configure_settings(settings.DATABASES)


def through(url: str, socket: Path) -> str:
    """Return the address of the same database behind another Unix socket."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, "root@localhost", parts.path, f"unix_socket={quote(str(socket), safe='/')}", ""))


def install_schema() -> None:
    """Make every table, unless they are there."""
    from django.core.management import call_command
    from django.db import connections

    from tests.support import cleaning

    with connections["default"].cursor() as cursor:
        cursor.execute("SHOW TABLES LIKE '\\_System\\_ConnectorWorkItem'")
        is_made = cursor.fetchone() is not None
    if not is_made:
        call_command("migrate", verbosity=0)
        call_command("install_schema", verbosity=0, stdout=io.StringIO())
    cleaning.remember_reference_rows()


@contextlib.contextmanager
def of_vintage(ground: Ground, vintage: Vintage) -> Iterator[None]:
    """Work on a database of an older schema, made for this and dropped again, with the tables of the audit trail."""
    from django.db import connections

    from console.models import AuditEntry
    from integration.storage.install import install_schema

    parts = urlsplit(ground.url)
    name = f"{parts.path.strip('/')}_{vintage.value}"
    _run(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    use(urlunsplit(parts._replace(path=f"/{name}")))
    try:
        install_schema(connections["default"], vintage)
        with connections["default"].schema_editor() as editor:
            editor.create_model(AuditEntry)
        yield
    finally:
        use(ground.url)
        _run(f"DROP DATABASE {name}")


def empty_every_table() -> None:
    """Delete every row of the database, of whatever schema it is."""
    from django.db import connections

    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
        tables = [str(row[0]) for row in cursor.fetchall()]
    _run("SET FOREIGN_KEY_CHECKS = 0", *(f"DELETE FROM `{table}`" for table in tables), "SET FOREIGN_KEY_CHECKS = 1")


def _run(*statements: str) -> None:
    from django.db import connections

    with connections["default"].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def create_database(url: str) -> None:
    """Make the database that an address names."""
    from urllib.parse import parse_qs

    import MySQLdb

    socket = parse_qs(urlsplit(url).query)["unix_socket"][0]
    connection = MySQLdb.connect(unix_socket=socket, user="root")
    connection.cursor().execute("CREATE DATABASE IF NOT EXISTS lockhouse CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    connection.close()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lh-battery-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def server(engine: str) -> Iterator[str]:
    """Run a throwaway server; yield the address of its empty database."""
    with servers.server(engine) as url:
        create_database(url)
        yield url
