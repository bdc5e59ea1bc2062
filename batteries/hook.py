"""What a battery puts between Django and the driver: it sees, changes, fails or dies at every SQL statement.

Installed by a battery in a process of its own, never by the program. It works below the storage door, so it needs to
know nothing of who calls: a statement is known by its text, a COMMIT by the statements before it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import MySQLdb
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.mysql.base import CursorWrapper

COMMIT: Final = "COMMIT"
_WRITES: Final = re.compile(r"^\s*\(?\s*(UPDATE|INSERT|DELETE|REPLACE)\b", re.IGNORECASE)
_LOCKS: Final = re.compile(r"\bFOR\s+UPDATE\b", re.IGNORECASE)


@cache
def _names() -> dict[str, str]:
    from integration.storage.statements import all_statements

    found: dict[str, str] = {}
    for _, constant, statement in all_statements():
        # Older schemas have statements of their own, some with the same text.
        found.setdefault(statement.text, re.sub(r"_OF_(ADDITIVE|LEGACY)$", "", constant))
    return found


def name_of(text: str) -> str:
    """Return the constant that holds a statement's text, or an empty string for SQL that is not the program's."""
    return _names().get(text, "")


def is_write(text: str) -> bool:
    """Say whether a statement changes rows."""
    return bool(_WRITES.search(text))


def is_locking(text: str) -> bool:
    """Say whether a statement changes or locks rows."""
    return is_write(text) or bool(_LOCKS.search(text))


class Observer:
    """Sees every statement; each method may be overridden."""

    def rewrite(self, text: str) -> str:
        """Return the text to run instead."""
        return text

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        """Be told of a statement, or of COMMIT, before it runs; may raise a driver's error instead of it."""

    def after(self, text: str, params: Any, count: int) -> None:
        """Be told that it ran."""

    def failed(self, text: str, error: Exception) -> bool:
        """Be told of the error that it met; True swallows it, as if the statement had matched one row."""
        return False


_observers: list[Observer] = []
_is_installed = False


def _around(text: str, params: Any, wrapper: Any, call: Callable[[str], Any]) -> Any:
    changed = text
    for observer in _observers:
        changed = observer.rewrite(changed)
    try:
        for observer in _observers:
            observer.before(text, params, wrapper)
        count = call(changed)
    except MySQLdb.Error as error:
        # Every observer hears of it, also when one of them swallows it.
        told = [observer.failed(text, error) for observer in _observers]
        if any(told):
            return 1
        raise
    for observer in _observers:
        observer.after(text, params, int(count or 0))
    return count


def install(*observers: Observer) -> None:
    """Put observers between Django and the driver, in this process."""
    global _is_installed
    _observers.extend(observers)
    if _is_installed:
        return
    _is_installed = True
    execute, executemany = CursorWrapper.execute, CursorWrapper.executemany

    def observed_execute(self: Any, query: str, args: Any = None) -> Any:
        return _around(query, args, self, lambda text: execute(self, text, args))

    def observed_executemany(self: Any, query: str, args: Any) -> Any:
        return _around(query, args, self, lambda text: executemany(self, text, args))

    def observed_commit(self: Any) -> Any:
        if self.connection is None:
            return None
        with self.wrap_database_errors:
            return _around(COMMIT, None, self, lambda _text: self.connection.commit())

    CursorWrapper.execute = observed_execute
    CursorWrapper.executemany = observed_executemany
    BaseDatabaseWrapper._commit = observed_commit


def forget() -> None:
    """Remove every observer."""
    _observers.clear()


class Points(Observer):
    """Names each place between two statements, counts how often it is passed, and dies at one of them.

    A place is `before:NAME` or `after:NAME`; a COMMIT is named by the last write of its transaction.
    """

    def __init__(self, *, armed: str = "", occurrence: int = 1, fired: Path | None = None) -> None:
        self.passed: Counter[str] = Counter()
        self._armed = armed
        self._left = occurrence
        self._fired = fired
        self._last_write = "nothing"

    def reach(self, place: str) -> None:
        """Note that a place was reached, and die if it is the armed one."""
        self.passed[place] += 1
        if place != self._armed:
            return
        self._left -= 1
        if self._left == 0:
            if self._fired is not None:
                self._fired.write_text(place, encoding="ascii")
            os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, text: str) -> str:
        return f"COMMIT({self._last_write})" if text == COMMIT else name_of(text)

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        if name := self._name(text):
            self.reach(f"before:{name}")
            if is_locking(text):
                self._last_write = name

    def after(self, text: str, params: Any, count: int) -> None:
        if name := self._name(text):
            self.reach(f"after:{name}")


def named_place(name: str) -> None:
    """Stand in for the program's own `failpoint`."""
    for observer in _observers:
        if isinstance(observer, Points):
            observer.reach(name)


class Rewrite(Observer):
    """Takes a guard away: a part of every statement whose name matches."""

    def __init__(self, names: str, pattern: str, replacement: str = "") -> None:
        self._names = re.compile(names)
        self._pattern = re.compile(pattern)
        self._replacement = replacement
        self.changed: Counter[str] = Counter()

    def rewrite(self, text: str) -> str:
        name = name_of(text)
        if not name or not self._names.fullmatch(name):
            return text
        changed, count = self._pattern.subn(self._replacement, text)
        if count:
            self.changed[name] += 1
        return changed


class CommitEach(Observer):
    """Takes atomicity away: what a statement wrote is durable at once, whatever follows."""

    def __init__(self) -> None:
        self._mine = threading.local()

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        self._mine.wrapper = wrapper

    def after(self, text: str, params: Any, count: int) -> None:
        if is_write(text) and name_of(text):
            self._mine.wrapper.cursor.connection.commit()


class BelieveLost(Observer):
    """Takes the read-back away: an answer that never came counts as a success."""

    LOST: Final = frozenset({2002, 2003, 2006, 2013, 2055})

    def __init__(self) -> None:
        self._wrapper: Any = None

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        self._wrapper = wrapper

    def failed(self, text: str, error: Exception) -> bool:
        if not error.args or error.args[0] not in self.LOST or not (text == COMMIT or is_write(text)):
            return False
        if text == COMMIT:
            # Nothing that follows may notice that the connection is gone.
            self._wrapper.close()
        return True


class Journal(Observer):
    """Counts errors by number, and keeps what statements of some names were called with and matched."""

    def __init__(self, *names: str) -> None:
        self.errors: Counter[int] = Counter()
        #: The first error of each number, with the statement that met it.
        self.texts: dict[int, str] = {}
        self.calls: list[tuple[str, dict[str, Any], int]] = []
        self._names = frozenset(names)

    def after(self, text: str, params: Any, count: int) -> None:
        if self._names and (name := name_of(text)) in self._names:
            self.calls.append((name, dict(params), count))

    def failed(self, text: str, error: Exception) -> bool:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        self.errors[code] += 1
        self.texts.setdefault(code, f"{name_of(text) or text[:40]}: {error}"[:300])
        return False

    def write(self, path: Path) -> None:
        """Append the error counts to a file."""
        with path.open("a", encoding="ascii") as file:
            file.write(json.dumps(dict(self.errors)) + "\n")
