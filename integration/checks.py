"""System checks of the database: what every statement of the domain relies on.

They run with `manage.py check --database default` and before `migrate`. `examine` is the same list for a
process that wants to know before it starts to work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connections

from integration import errors
from integration.storage import probe

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

#: An operator or a provider waits for a lock at most this long.
LONGEST_LOCK_WAIT_SECONDS: Final = 10
_SESSION_SQL: Final = (
    "SELECT @@session.time_zone, @@session.sql_mode, @@session.innodb_lock_wait_timeout, "
    "@@session.character_set_client, @@session.character_set_connection"
)
_TIDB_PESSIMISTIC_SQL: Final = "SELECT @@session.tidb_txn_mode"
_ISOLATION_SQL: Final = {
    # MariaDB has no transaction_isolation before 11.1, MySQL 8 no tx_isolation.
    probe.Engine.MARIADB: "SELECT @@session.tx_isolation",
    probe.Engine.TIDB: "SELECT @@session.transaction_isolation",
    probe.Engine.MYSQL: "SELECT @@session.transaction_isolation",
}


@register(Tags.database)
def check_databases(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Examine every alias that the caller named.

    Args:
        app_configs: Not used; a database belongs to no application.
        databases: Aliases to examine; none are without `--database`.
        **kwargs: Not used.

    Returns:
        What is wrong, worst first within an alias.
    """
    return [message for alias in databases or () for message in examine(connections[alias])]


def examine(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    """Ask a database for everything that the statements rely on.

    Args:
        connection: The connection to ask, with the options that the program uses.

    Returns:
        Errors and warnings, each with an id and a hint; empty when all holds.
    """
    try:
        server = probe.read_server(connection)
        return [
            *_check_session(connection, server),
            *_check_schema(connection),
        ]
    except errors.WrongBackend as error:
        return [Error(error.operator_message(), hint="Correct LOCKHOUSE_DATABASE_URL.", id="integration.E002")]
    except errors.UnsupportedEngine as error:
        return [
            Error(
                error.operator_message(), hint="Point LOCKHOUSE_DATABASE_URL at another server.", id="integration.E001"
            )
        ]
    except DatabaseError as error:
        number = error.args[0] if error.args else "unknown"
        return [
            Error(
                f"The database '{connection.alias}' does not answer (error {number}).",
                hint="Start it, or correct LOCKHOUSE_DATABASE_URL.",
                id="integration.E010",
            )
        ]


def _read(connection: BaseDatabaseWrapper, sql: str) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(str(value) for value in cursor.fetchone())


def _check_session(connection: BaseDatabaseWrapper, server: probe.Server) -> Iterator[CheckMessage]:
    (isolation,) = _read(connection, _ISOLATION_SQL[server.engine])
    zone, sql_mode, lock_wait, client_charset, connection_charset = _read(connection, _SESSION_SQL)
    if isolation.upper() != "READ-COMMITTED":
        yield Error(
            f"Transactions run at {isolation}, not READ-COMMITTED.",
            hint="Set OPTIONS['isolation_level'] to 'read committed'.",
            id="integration.E003",
        )
    if server.engine is probe.Engine.TIDB:
        (mode,) = _read(connection, _TIDB_PESSIMISTIC_SQL)
        if mode != "pessimistic":
            yield Error(
                f"Transactions are {mode or 'optimistic'}, not pessimistic.",
                hint="Set tidb_txn_mode to 'pessimistic' on the server.",
                id="integration.E011",
            )
    if zone not in {"+00:00", "UTC"}:
        yield Error(
            f"The session's time zone is {zone}, not UTC.",
            hint="Set time_zone = '+00:00' in OPTIONS['init_command'].",
            id="integration.E004",
        )
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(sql_mode.split(",")):
        yield Error(
            "The session is not in strict mode: the server would cut values that do not fit.",
            hint="Put STRICT_TRANS_TABLES into sql_mode in OPTIONS['init_command'].",
            id="integration.E005",
        )
    if float(lock_wait) > LONGEST_LOCK_WAIT_SECONDS:
        yield Error(
            f"A lock is waited for up to {lock_wait} s.",
            hint=f"Set innodb_lock_wait_timeout to {LONGEST_LOCK_WAIT_SECONDS} or less in OPTIONS['init_command'].",
            id="integration.E006",
        )
    if {client_charset, connection_charset} != {"utf8mb4"}:
        yield Error(
            f"The connection's character set is {client_charset}/{connection_charset}, not utf8mb4.",
            hint="Set OPTIONS['charset'] to 'utf8mb4'.",
            id="integration.E007",
        )


def _check_schema(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    capabilities = probe.probe(connection, fresh=True)
    if not capabilities.is_complete:
        missing = [*capabilities.missing_tables, *capabilities.missing_columns, *capabilities.missing_keys]
        yield Warning(
            f"The schema is at vintage {capabilities.vintage or 'none'}; {len(missing)} tables, columns or keys are "
            f"missing, {missing[0]} first.",
            hint="Run 'manage.py install_schema'.",
            id="integration.W008",
        )
