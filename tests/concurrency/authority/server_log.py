"""What the database server itself says that it was sent: its general log, turned on for a while.

The log is the server's, so one test at a time has it, by a lock of the server's. Only what other connections sent to
this test's database is looked at.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from django.db import connections

from tests.support.sessions import Session

_LOCK: Final = "lockhouse.general_log"
_ON: Final = {
    "mariadb": ("SET GLOBAL log_output = 'TABLE'", "TRUNCATE TABLE mysql.general_log", "SET GLOBAL general_log = 1"),
    "tidb": ("SET GLOBAL tidb_general_log = 1",),
}
_OFF: Final = {
    "mariadb": ("SET GLOBAL general_log = 0", "TRUNCATE TABLE mysql.general_log"),
    "tidb": ("SET GLOBAL tidb_general_log = 0",),
}
_TIDB_LINE: Final = re.compile(r"\[GENERAL_LOG\] \[conn=(\d+)\].*?\[currentDB=([^\]]*)\].*?\[sql=(.*)\]$")
_TABLE: Final = re.compile(r"\b(?:_System_|console_)\w+")


@dataclass(frozen=True)
class Sent:
    """One statement that the server received.

    Attributes:
        connection: The server's number of the connection.
        text: The statement with its values, on one line.
    """

    connection: int
    text: str

    @property
    def verb(self) -> str:
        """Return LOCK for a locked read, otherwise the first word."""
        return "LOCK" if self.text.upper().endswith(" FOR UPDATE") else self.text.split(" ", 1)[0].upper()

    @property
    def table(self) -> str:
        """Return the first table of the program that it names, or an empty string."""
        found = _TABLE.search(self.text)
        return found.group() if found else ""

    @property
    def is_locking(self) -> bool:
        """Whether it changes or locks rows."""
        return self.verb in {"LOCK", "INSERT", "UPDATE", "DELETE", "REPLACE"}


@contextlib.contextmanager
def recorded(engine: str) -> Iterator[Callable[[], list[Sent]]]:
    """Turn the server's general log on; yield what reads it so far: every statement of other connections, in order."""
    database = str(connections["default"].settings_dict["NAME"])
    with contextlib.closing(Session(database)) as session, contextlib.closing(Session(database)) as reader:
        own = {session.connection.thread_id(), reader.connection.thread_id()}
        connections["default"].ensure_connection()
        own.add(connections["default"].connection.thread_id())
        assert session.rows("SELECT GET_LOCK(%s, 600)", [_LOCK]) == [(1,)]
        file = _tidb_log() if engine == "tidb" else None
        start = file.stat().st_size if file is not None else 0
        for statement in _ON[engine]:
            session.run(statement)
        here = _connected(reader)

        def read() -> list[Sent]:
            marker = f"SELECT '{uuid.uuid4()}'"
            reader.rows(marker)
            deadline = time.monotonic() + 240
            while True:
                found = _of_mariadb(reader, database, here) if file is None else _of_tidb(file, start, database)
                if any(sent.text == marker for sent in found):
                    return [sent for sent in found if sent.connection not in own]
                assert time.monotonic() < deadline, "the server logged nothing"
                time.sleep(0.05)

        try:
            yield read
        finally:
            for statement in _OFF[engine]:
                session.run(statement)
            session.rows("SELECT RELEASE_LOCK(%s)", [_LOCK])


def _connected(reader: Session) -> set[int]:
    return {int(row[0]) for row in reader.rows("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE()")}


def _of_mariadb(reader: Session, database: str, here: set[int]) -> list[Sent]:
    """Return what the log table holds of connections that were there when it began, or came to this database later."""
    # A payload is no text in any character set.
    rows = reader.rows("SELECT thread_id, command_type, HEX(argument) FROM mysql.general_log")
    told = [(int(thread), kind, bytes.fromhex(text).decode("utf-8", "replace")) for thread, kind, text in rows]
    known = here | {thread for thread, kind, text in told if kind == "Connect" and f" on {database} " in f"{text} "}
    return [Sent(thread, " ".join(text.split())) for thread, kind, text in told if kind == "Query" and thread in known]


def _tidb_log() -> Path:
    """Return the log of the throwaway server, which lies beside its socket."""
    socket = parse_qs(urlsplit(os.environ["LOCKHOUSE_TEST_SERVER_URL"]).query)["unix_socket"][0]
    file = Path(socket).parent / "tidb.log"
    assert file.is_file(), f"the server's log is not at {file}"
    return file


def _of_tidb(file: Path, start: int, database: str) -> list[Sent]:
    with file.open("rb") as log:
        log.seek(start)
        lines = log.read().decode("utf-8", "replace").splitlines()
    found = [match for line in lines if (match := _TIDB_LINE.search(line)) and match.group(2) == database]
    return [Sent(int(match.group(1)), _unquoted(match.group(3))) for match in found]


def _unquoted(text: str) -> str:
    """Return a value of the log as it was, on one line."""
    if text.startswith('"'):
        text = text[1:-1].replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\")
    return " ".join(text.split())
