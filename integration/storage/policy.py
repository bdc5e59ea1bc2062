"""The error policy: what a database error means for the transaction that met it. Pure."""

from __future__ import annotations

from enum import StrEnum


class Disposition(StrEnum):
    """What may be done after an error."""

    #: Nothing was stored: roll everything back and run the whole transaction again.
    RERUN = "rerun"
    #: A lock is held by another: the caller lost the race.
    LOCK_HELD = "lock_held"
    #: A unique key is taken: re-read by the natural key.
    CONFLICT = "conflict"
    #: Whether it was stored is not known: re-read by token, epoch or idempotency key.
    UNKNOWN = "unknown"
    #: The database takes no work now; nothing was stored.
    UNAVAILABLE = "unavailable"
    #: A statement or a capability is wrong: never retried.
    DEFECT = "defect"


LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
#: TiDB checks a statement's own mutations and may refuse the loser of two inserts of one unique key so, instead of
#: by 1062: the statement stored nothing.
MUTATION_CHECK_FAILED = 8133
#: Deadlock, snapshot conflict (MariaDB), and TiDB's write conflict, transaction-too-old, schema, region and
#: lock-resolving errors.
_NOT_COMMITTED = frozenset({DEADLOCK, 1020, 8002, 8005, 8022, 8028, 9004, 9007, MUTATION_CHECK_FAILED})
_CONNECTION_LOST = frozenset({2006, 2013, 2055, 4031})
#: Too many connections, shutting down, a full disk (1021, and 1114 of a table that cannot grow), nobody there, and
#: TiDB's stores out of reach.
_UNAVAILABLE = frozenset({1021, 1040, 1053, 1114, 1129, 2002, 2003, 9001, 9002, 9003, 9005})
_CONFLICT = frozenset({1062, 8147})
_TIDB_GENERIC = 1105
#: The last: a locked read met a newer version of its rows too often; only the statement failed.
_TIDB_RERUNNABLE_TEXTS = ("schema is changed", "try again later", "pessimistic lock retry limit reached")


def classify(code: int, text: str, *, at_commit: bool, in_transaction: bool) -> Disposition:  # noqa: PLR0911 - a table
    """Decide what an error means.

    Args:
        code: The server's or client library's error number.
        text: The driver's message; read only to tell TiDB's generic 1105 apart.
        at_commit: The error was raised by COMMIT.
        in_transaction: The statement ran inside an explicit transaction, which a lost connection rolls back.

    Returns:
        The disposition. A COMMIT that fails with anything not surely rolled back is unknown.
    """
    if code == _TIDB_GENERIC and any(marker in text for marker in _TIDB_RERUNNABLE_TEXTS):
        return Disposition.RERUN
    if code in _NOT_COMMITTED or code == LOCK_WAIT_TIMEOUT:
        return Disposition.RERUN
    if code in _CONFLICT:
        return Disposition.CONFLICT
    if at_commit:
        return Disposition.UNKNOWN
    if code == 3572:
        return Disposition.LOCK_HELD
    if code in _UNAVAILABLE:
        return Disposition.UNAVAILABLE
    if code in _CONNECTION_LOST:
        return Disposition.UNAVAILABLE if in_transaction else Disposition.UNKNOWN
    return Disposition.DEFECT
