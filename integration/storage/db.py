"""The one transaction door, and the lock-free reader beside it.

`run` is the outermost transaction of a use case and the only place that retries. It may be rerun whole, so
a unit must make no external call. Statements inside it go through `Tx`, which refuses a lock of a falling
rank and keeps the sequence of locks, so that a test can assert it and a plan can show it.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import structlog
from django.db import DatabaseError, InterfaceError, connections, transaction

from integration import errors
from integration.storage import policy
from integration.storage.statements import LockRank, Returns, Statement

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")
Row = dict[str, Any]
Params = Mapping[str, Any]

MAX_TRIES: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.01
_LOCKING_SQL: Final = re.compile(r"\bFOR\s+UPDATE\b|^\s*(?:UPDATE|DELETE)\b[^;]*_System_", re.IGNORECASE)
_open = threading.local()
log = structlog.get_logger(__name__)


def _to_database(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, (list, tuple, set, frozenset)):
        if not value:
            message = "an IN list must not be empty"
            raise ValueError(message)
        return tuple(_to_database(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value))
    return value


def _from_database(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return value


def _adapt(params: Params) -> dict[str, Any]:
    return {name: _to_database(value) for name, value in params.items()}


class Reader:
    """Statements on one connection; every read that takes no lock goes through here."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        """Wrap an open or lazily opened Django connection."""
        self._connection = connection

    def _before(self, statement: Statement) -> None:
        if statement.locks or statement.holds is not None:
            message = f"{statement.name} locks or writes and needs a transaction"
            raise errors.TransactionRequired(message)

    def _execute(self, cursor: Any, statement: Statement, params: Params) -> int:
        self._before(statement)
        return int(cursor.execute(statement.text, _adapt(params)) or 0)

    def fetch_all(self, statement: Statement, params: Params | None = None) -> list[Row]:
        """Return every row, in the statement's order; times are aware UTC."""
        with self._connection.cursor() as cursor:
            self._execute(cursor, statement, params or {})
            columns = [column[0] for column in cursor.description]
            return [dict(zip(columns, map(_from_database, row), strict=True)) for row in cursor.fetchall()]

    def fetch_one(self, statement: Statement, params: Params | None = None) -> Row | None:
        """Return the first row or None."""
        rows = self.fetch_all(statement, params)
        return rows[0] if rows else None


class Tx(Reader):
    """One open transaction; made by `run` alone."""

    def __init__(self, connection: BaseDatabaseWrapper, name: str) -> None:
        """Start with no lock held."""
        super().__init__(connection)
        self.name = name
        self.open = True
        self.lock_trace: list[LockRank] = []
        self._statement: Statement | None = None

    def _before(self, statement: Statement) -> None:
        if not self.open:
            raise errors.TransactionRequired
        if statement.holds is not None and statement.holds not in self.lock_trace:
            message = f"{statement.name} writes a {statement.holds.name} row that this transaction does not hold"
            raise errors.LockOrderViolation(message)
        highest = self.lock_trace[-1] if self.lock_trace else LockRank(min(LockRank))
        # A second locked read of a rank would lock its ids unsorted; a write may follow the read that locked it.
        repeated_read = statement.returns is not Returns.COUNT and bool(self.lock_trace)
        for rank in statement.locks:
            if rank < highest or (repeated_read and rank == highest):
                message = f"{statement.name} locks {rank.name} after {highest.name} in {self.name}"
                raise errors.LockOrderViolation(message)
            highest = rank
        self.lock_trace.extend(statement.locks)
        self._statement = statement

    def execute(self, statement: Statement, params: Params | None = None) -> int:
        """Run a write and return the number of rows its WHERE matched."""
        with self._connection.cursor() as cursor:
            return self._execute(cursor, statement, params or {})

    def execute_many(self, statement: Statement, rows: Iterable[Params]) -> int:
        """Run one multi-row INSERT and return the number of rows it stored."""
        if not statement.many:
            message = f"{statement.name} is not made for many parameter sets"
            raise errors.InvariantBroken(message)
        self._before(statement)
        with self._connection.cursor() as cursor:
            return int(cursor.executemany(statement.text, [_adapt(row) for row in rows]) or 0)

    def _guard(self, execute: Callable[..., Any], sql: str, params: Any, many: Any, context: Any) -> Any:
        """Refuse locking SQL that did not come through a statement; Django's own writes pass here too."""
        statement, self._statement = self._statement, None
        if statement is None and _LOCKING_SQL.search(sql):
            message = f"unnamed SQL locks rows in {self.name}"
            raise errors.LockOrderViolation(message)
        return execute(sql, params, many, context)


@contextmanager
def _exclusive(using: str) -> Iterator[None]:
    held: set[str] = _open.__dict__.setdefault("aliases", set())
    if using in held:
        raise errors.TransactionNested
    held.add(using)
    try:
        yield
    finally:
        held.discard(using)


def _error_number(error: BaseException) -> int:
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def _raise_domain_error(error: DatabaseError | InterfaceError, disposition: policy.Disposition) -> NoReturn:
    """Raise what the caller is told once no further try is made."""
    number = _error_number(error)
    match disposition:
        case policy.Disposition.RERUN if number == policy.LOCK_WAIT_TIMEOUT:
            raise errors.LockTimeout from error
        case policy.Disposition.RERUN if number == policy.MUTATION_CHECK_FAILED:
            # Once is a race; in every try it is what it says.
            raise error
        case policy.Disposition.RERUN:
            raise errors.Deadlock from error
        case policy.Disposition.LOCK_HELD:
            raise errors.LockTimeout from error
        case policy.Disposition.UNKNOWN:
            raise errors.CommitUnknown from error
        case policy.Disposition.UNAVAILABLE:
            raise errors.DatabaseUnavailable from error
        case policy.Disposition.CONFLICT | policy.Disposition.DEFECT:
            raise error


def _drop_connection(connection: BaseDatabaseWrapper) -> None:
    """Close a connection whose state is not known, unless a test's own transaction wraps everything."""
    if not connection.in_atomic_block:
        connection.close()


def close_connections() -> None:
    """Close this thread's connections: it ends, or it met an outage and starts anew."""
    for connection in connections.all(initialized_only=True):
        _drop_connection(connection)


def pause(tries: int) -> None:
    """Wait before another try: some 10 ms at first, twice as long after each, at most some 0.3 s.

    Args:
        tries: How many tries there were before the one that failed.
    """
    # Jitter keeps two losers of one meeting from meeting again.
    time.sleep(random.uniform(0.5, 1.5) * _FIRST_PAUSE_SECONDS * 2 ** min(tries, MAX_TRIES))  # noqa: S311


def run(
    unit: Callable[[Tx], T], *, name: str, using: str = "default", settle: Callable[[Reader], T | None] | None = None
) -> T:
    """Run a unit of work in one transaction, rerunning it whole while that is safe.

    Args:
        unit: Reads, decides and writes through the `Tx` it is given. It may run more than once, so it
            makes no external call and keeps nothing from an earlier run.
        name: The use case, for logs and lock-order errors.
        using: The database alias.
        settle: Called on a fresh connection when COMMIT's outcome is unknown; it re-reads by token, epoch or
            idempotency key and returns the result if the unit was stored, or None if it was not.

    Returns:
        What the unit returned in the run that was committed, or what `settle` found.

    Raises:
        TransactionNested: A transaction of this door is open on the alias already.
        LockTimeout: A lock was not free in time, in every try.
        Deadlock: The database undid every try.
        DatabaseUnavailable: There is no working connection; nothing was stored.
        CommitUnknown: COMMIT's outcome is unknown and could not be settled.
    """
    connection = connections[using]
    with _exclusive(using):
        for tries in range(MAX_TRIES):
            at_commit = False
            tx = Tx(connection, name)
            try:
                with connection.execute_wrapper(tx._guard), transaction.atomic(using=using, durable=True):
                    result = unit(tx)
                    tx.open = False
                    at_commit = True
            except (DatabaseError, InterfaceError) as error:
                disposition = policy.classify(
                    _error_number(error), str(error), at_commit=at_commit, in_transaction=True
                )
                log.info("transaction.failed", unit=name, error_number=_error_number(error), disposition=disposition)
                if disposition is policy.Disposition.UNKNOWN and settle is not None:
                    connection.close()
                    settled = _settle(settle, connection, error)
                    if settled is not None:
                        return settled
                elif disposition is policy.Disposition.UNAVAILABLE:
                    _drop_connection(connection)
                elif disposition is not policy.Disposition.RERUN:
                    if disposition is policy.Disposition.UNKNOWN:
                        _drop_connection(connection)
                    _raise_domain_error(error, disposition)
                if tries + 1 == MAX_TRIES:
                    _raise_domain_error(error, disposition)
                pause(tries)
            else:
                return result
            finally:
                tx.open = False
        raise errors.InvariantBroken


def _settle(
    settle: Callable[[Reader], T | None], connection: BaseDatabaseWrapper, cause: DatabaseError | InterfaceError
) -> T | None:
    try:
        return settle(Reader(connection))
    except (DatabaseError, InterfaceError):
        raise errors.CommitUnknown from cause


def forget_connection(using: str) -> None:
    """Close a connection that an error came from, so that the next statement opens a new one.

    Args:
        using: The database alias.
    """
    _drop_connection(connections[using])


def read(using: str = "default") -> Reader:
    """Return a reader that takes no locks and holds no snapshot: every statement commits by itself."""
    return Reader(connections[using])


def execute_alone(statement: Statement, params: Params | None = None, *, using: str = "default") -> int:
    """Run one guarded statement as its own transaction: the row compare-and-swap of the kernel.

    Args:
        statement: A single write whose WHERE holds everything that it relies on.
        params: Its values.
        using: The database alias.

    Returns:
        The number of rows that the WHERE matched.

    Raises:
        TransactionNested: A transaction of the door is open on the alias.
        LockTimeout: The row was not free in time, in every try.
        Deadlock: The database undid every try.
        DatabaseUnavailable: There is no working connection; nothing was stored.
        CommitUnknown: The connection broke; re-read by token and epoch.
    """
    connection = connections[using]
    with _exclusive(using):
        for tries in range(MAX_TRIES):
            at_commit = False
            try:
                with _lone_statement(connection, using):
                    with connection.cursor() as cursor:
                        matched = int(cursor.execute(statement.text, _adapt(params or {})) or 0)
                    at_commit = True
            except (DatabaseError, InterfaceError) as error:
                # Even inside a transaction a lost connection is reported as unknown: the caller has a deadline.
                disposition = policy.classify(
                    _error_number(error), str(error), at_commit=at_commit, in_transaction=False
                )
                if disposition in {policy.Disposition.UNKNOWN, policy.Disposition.UNAVAILABLE}:
                    _drop_connection(connection)
                if disposition is not policy.Disposition.RERUN or tries + 1 == MAX_TRIES:
                    _raise_domain_error(error, disposition)
                pause(tries)
            else:
                return matched
        raise errors.InvariantBroken


def _lone_statement(connection: BaseDatabaseWrapper, using: str) -> AbstractContextManager[None]:
    # In autocommit TiDB tries optimistically and, behind another's lock, waits for eighty seconds; in a transaction
    # it waits as long as the session says. MariaDB needs no second round trip.
    if connection.settings_dict["ENGINE"] == "django_tidb":
        return transaction.atomic(using=using, durable=True)
    return nullcontext()
