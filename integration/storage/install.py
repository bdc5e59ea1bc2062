"""Create or upgrade the system tables in place.

Drops nothing and renames nothing. Each statement brings one thing and is run only where that is missing,
so a run that was cut off is finished by the next one, and two at once end in the same schema.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import DatabaseError

from integration import errors
from integration.storage import probe
from integration.storage.schema import Change, Vintage, declared_steps

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

#: Duplicate table, column or key name: another installer was faster.
_ALREADY_THERE: Final = frozenset({1050, 1060, 1061})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReport:
    """What an installation did, or in a dry run would do.

    Attributes:
        engine: The kind of server.
        version: Its version, as text.
        asked: The vintage that was asked for.
        vintage: The vintage the database has now (before, in a dry run), None if it has none.
        created: Tables created, in order.
        altered: `Table.Column` and `Table.Key` added to tables, in order.
        dry_run: Nothing was changed.
    """

    engine: str
    version: str
    asked: Vintage
    vintage: Vintage | None
    created: tuple[str, ...]
    altered: tuple[str, ...]
    dry_run: bool

    @property
    def changed(self) -> bool:
        """Return whether anything was, or in a dry run would be, created or altered."""
        return bool(self.created or self.altered)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields with JSON types."""
        return {**asdict(self), "changed": self.changed}


def install_schema(
    connection: BaseDatabaseWrapper,
    vintage: Vintage | str = Vintage.CURRENT,
    *,
    dry_run: bool = False,
) -> InstallReport:
    """Bring the system tables of a database up to a vintage; a newer schema is left as it is.

    Args:
        connection: A connection outside of any transaction, with a database selected.
        vintage: The vintage to reach.
        dry_run: Only find out what is missing.

    Returns:
        What was created and altered.

    Raises:
        UnsupportedEngine: The server is none that the statements are written for.
        SetupError: A transaction is open (DDL would commit it), the vintage is unknown, or the server
            refused a statement.
    """
    try:
        wanted = Vintage(vintage)
    except ValueError:
        known = ", ".join(Vintage)
        message = f"There is no vintage {vintage!r}: it is one of {known}."
        raise errors.SetupError(message) from None
    if connection.in_atomic_block:
        message = "The schema cannot be installed inside a transaction: the first statement would commit it."
        raise errors.SetupError(message)
    server = probe.read_server(connection)
    found = probe.read_schema(connection)
    created: list[str] = []
    altered: list[str] = []
    for step in declared_steps():
        if step.vintage.age > wanted.age or probe.is_there(step.change, step.table, step.name, found):
            continue
        if not dry_run and not _bring(connection, step.sql, step.label):
            continue
        (created if step.change is Change.TABLE else altered).append(step.label)
    if not dry_run:
        probe.forget(connection)
        found = probe.read_schema(connection)
    capabilities = probe.describe(server, found)
    return InstallReport(
        engine=server.engine,
        version=".".join(map(str, server.version)),
        asked=wanted,
        vintage=capabilities.vintage,
        created=tuple(created),
        altered=tuple(altered),
        dry_run=dry_run,
    )


def _bring(connection: BaseDatabaseWrapper, sql: str, label: str) -> bool:
    """Run one statement; return False if another installer has run it in the meantime."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError as error:
        number = error.args[0] if error.args else 0
        if number in _ALREADY_THERE:
            return False
        message = f"The database refused to create {label} (error {number})."
        raise errors.SetupError(message, label=label, error_number=number) from error
    return True
