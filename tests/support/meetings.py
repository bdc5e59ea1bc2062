"""Two racing processes that meet at one row: who is first holds it until the database shows that the other waits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from django.db import connections

from tests.support.sessions import Session

_LONGEST_SECONDS: Final = 240.0
_LOCKED: Final = "locked"


def hold_until_waited_for(folder: Path, table: str) -> None:
    """Let the other start, and go on once the database shows that it waits for a lock on a table's row."""
    name = str(connections["default"].settings_dict["NAME"])
    session = Session(name)
    try:
        (folder / _LOCKED).touch()
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not _waiters(session, name, table):
            assert time.monotonic() < deadline, f"nobody waited for a row of {table}"
            # InnoDB keeps these tables for as long as they are read within 0.1 s of each other.
            time.sleep(0.2)
    finally:
        session.close()


def await_lock(folder: Path) -> None:
    """Wait until the other process holds its row."""
    await_file(folder / _LOCKED)


def await_file(path: Path) -> None:
    """Wait until another process has made a file."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not come"
        time.sleep(0.005)


def _waiters(session: Session, database: str, table: str) -> list[tuple[Any, ...]]:
    if connections["default"].settings_dict["ENGINE"] == "django_tidb":
        return session.rows(
            "SELECT ID FROM information_schema.TIDB_TRX WHERE State = 'LockWaiting' AND DB = %s", [database]
        )
    return session.rows(
        "SELECT w.REQUESTING_TRX_ID FROM information_schema.INNODB_LOCK_WAITS w"
        " JOIN information_schema.INNODB_LOCKS l ON l.LOCK_ID = w.REQUESTED_LOCK_ID WHERE l.LOCK_TABLE = %s",
        [f"`{database}`.`{table}`"],
    )
