"""Two operations under a stepper: each runs in a thread with its own connection and stops before every statement.

Whoever is let go runs to its next statement, to its end, or into a lock that the other holds. That it waits for a
lock is asked of the database, never guessed from the time that has passed.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections

from batteries import hook
from batteries.forking import BatteryBroken

_TABLES: Final = re.compile(r"\b(?:_System_|console_)\w+")
_LONGEST_SECONDS: Final = 120.0
#: InnoDB keeps its answer for as long as it is asked within 0.1 s of the last time.
_MARIADB_PAUSE: Final = 0.11
_SETTLE_SECONDS: Final = 0.02
_WAITING: Final = {
    "mariadb": "SELECT TRX_MYSQL_THREAD_ID FROM information_schema.INNODB_TRX WHERE TRX_STATE = 'LOCK WAIT'",
    "tidb": "SELECT SESSION_ID FROM information_schema.TIDB_TRX WHERE STATE = 'LockWaiting'",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A statement before which a thread stands.

    Attributes:
        name: Its name; SQL of others by its beginning.
        reads: The tables that it reads as they are committed.
        locks: The tables whose rows it locks or writes.
        shows: The tables whose rows become visible, and whose locks are given back, with it.
    """

    name: str
    reads: frozenset[str] = frozenset()
    locks: frozenset[str] = frozenset()
    shows: frozenset[str] = frozenset()

    def is_independent_of(self, other: Step) -> bool:
        """Whether the order of the two makes no difference to either, whatever their rows are."""
        return not (
            self.locks & (other.locks | other.shows)
            or self.shows & (other.reads | other.locks)
            or other.shows & self.reads
        )


@dataclass(slots=True)
class _Side:
    """One of the two threads, and where it stands."""

    index: int
    jobs: queue.Queue[Callable[[], Any] | None] = field(default_factory=queue.Queue)
    go: threading.Event = field(default_factory=threading.Event)
    connection_id: int = 0
    step: Step | None = None
    is_over: bool = True
    is_blocked: bool = False
    held: set[str] = field(default_factory=set)
    result: Any = None
    error: BaseException | None = None

    @property
    def is_parked(self) -> bool:
        return self.step is not None


class Stepper(hook.Observer):
    """Runs pairs of operations step by step."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._sides = (_Side(0), _Side(1))
        self._changed = threading.Condition()
        self._asked_at = 0.0
        self.codes: list[int] = []
        self.commits: list[int] = []
        self.blocked = 0
        #: The tables that operations may have changed since somebody emptied this.
        self.touched: set[str] = set()

    def start(self) -> None:
        """Start the two threads and connect them."""
        for side in self._sides:
            threading.Thread(target=self._work, args=(side,), daemon=True).start()
            self._give(side, _connect)
            self._until(side, is_parked=False)
            if side.error is not None:
                raise side.error
            side.connection_id = side.result

    def stop(self) -> None:
        """End the threads."""
        for side in self._sides:
            side.jobs.put(None)

    def begin(self, operations: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
        """Start both operations; each stands before its first statement then, or is over."""
        self.codes, self.commits = [], []
        for side, operation in zip(self._sides, operations, strict=True):
            self._give(side, operation)
            self._until(side)

    def ready(self) -> dict[int, Step]:
        """Return who stands before which statement."""
        return {side.index: side.step for side in self._sides if side.step is not None}

    def is_over(self) -> bool:
        """Whether both operations have ended."""
        return all(side.is_over for side in self._sides)

    def outcomes(self) -> tuple[tuple[Any, BaseException | None], ...]:
        """Return what each operation returned or raised."""
        return tuple((side.result, side.error) for side in self._sides)

    def advance(self, index: int) -> None:
        """Let one go: to its next statement, to its end, or into a lock."""
        side, other = self._sides[index], self._sides[1 - index]
        with self._changed:
            is_end = bool(side.step and side.step.shows)
            side.step = None
        side.go.set()
        self._settle(side)
        if other.is_blocked and (is_end or side.is_over or not side.held):
            self._settle(other)
        deadline = time.monotonic() + _LONGEST_SECONDS
        while all(one.is_blocked or one.is_over for one in self._sides) and not self.is_over():
            # A deadlock: the database ends it, by undoing one of the two.
            if time.monotonic() > deadline:
                message = "both wait, and the database undoes neither"
                raise BatteryBroken(message)
            for one in self._sides:
                if one.is_blocked:
                    self._settle(one)

    def before(self, text: str, params: Any, wrapper: Any) -> None:
        """Stand still before a statement on the program's tables."""
        side = getattr(_mine, "side", None)
        if side is None or side.is_over:
            return
        tables = frozenset(_TABLES.findall(text))
        if text != hook.COMMIT and not _connection().in_atomic_block:
            # Whatever was open was rolled back.
            side.held.clear()
        if text == hook.COMMIT:
            step = Step("COMMIT", shows=frozenset(side.held) or frozenset({"nothing"}))
        elif not tables:
            return
        elif hook.is_locking(text):
            in_transaction = _connection().in_atomic_block
            self.touched |= tables
            step = Step(
                hook.name_of(text) or text[:40],
                locks=tables,
                reads=frozenset() if in_transaction else tables,
                shows=frozenset() if in_transaction else tables,
            )
            if in_transaction:
                side.held |= tables
        else:
            step = Step(hook.name_of(text) or text[:40], reads=tables)
        with self._changed:
            side.step = step
            side.go.clear()
            self._changed.notify_all()
        if not side.go.wait(_LONGEST_SECONDS):
            message = f"nobody let {step.name} go"
            raise BatteryBroken(message)
        if text == hook.COMMIT:
            self.commits.append(side.index)
            side.held.clear()

    def failed(self, text: str, error: Exception) -> bool:
        """Note the errors of the two."""
        side = getattr(_mine, "side", None)
        if side is not None and not side.is_over:
            self.codes.append(error.args[0] if error.args and isinstance(error.args[0], int) else 0)
            side.held.clear()
        return False

    def _give(self, side: _Side, operation: Callable[[], Any]) -> None:
        side.is_over, side.is_blocked, side.step, side.error, side.result = False, False, None, None, None
        side.held.clear()
        side.jobs.put(operation)

    def _work(self, side: _Side) -> None:
        while (job := side.jobs.get()) is not None:
            _mine.side = side if side.connection_id else None
            try:
                side.result = job()
            except BaseException as error:
                side.error = error
            with self._changed:
                side.held.clear()
                side.is_over = True
                self._changed.notify_all()
        connections.close_all()

    def _until(self, side: _Side, *, is_parked: bool = True) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: side.is_over or (is_parked and side.is_parked), _LONGEST_SECONDS):
                message = f"side {side.index} neither stands, nor waits, nor is over"
                raise BatteryBroken(message)

    def _settle(self, side: _Side) -> None:
        """Wait until a side stands before a statement, is over, or waits for a lock by the database's word."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < deadline:
            with self._changed:
                if self._changed.wait_for(lambda: side.is_parked or side.is_over, _SETTLE_SECONDS):
                    side.is_blocked = False
                    return
            if self._waits(side):
                if not side.is_blocked:
                    side.is_blocked = True
                    self.blocked += 1
                return
        message = f"side {side.index} neither stands, nor waits, nor is over"
        raise BatteryBroken(message)

    def _waits(self, side: _Side) -> bool:
        with _connection().cursor() as cursor:
            if self._engine == "mariadb":
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
                if cursor.fetchone()[1] == "0":
                    return False
                time.sleep(max(0.0, self._asked_at + _MARIADB_PAUSE - time.monotonic()))
                self._asked_at = time.monotonic()
            cursor.execute(_WAITING[self._engine])
            return side.connection_id in {int(row[0]) for row in cursor.fetchall()}


_mine = threading.local()


def _connection() -> Any:
    return connections["default"]


def _connect() -> int:
    """Open the thread's connection, patient about locks: only the stepper says how long a wait is."""
    with _connection().cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 100")
        cursor.execute("SELECT CONNECTION_ID()")
        return int(cursor.fetchone()[0])
