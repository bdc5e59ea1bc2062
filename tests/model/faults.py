"""What goes wrong: a process that dies at a point or before a statement, and an answer of COMMIT that is lost."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from django.db import OperationalError, connections

LOST = 2013


class Crash(BaseException):
    """The process is gone; no handler of the program may see it."""


#: What a failpoint does, by its name.
_armed: dict[str, Callable[[], None]] = {}


def _reached(name: str) -> None:
    act = _armed.pop(name, None)
    if act is not None:
        act()


@contextmanager
def failpoints() -> Iterator[None]:
    """Give every failpoint of the program to this module."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("integration.") and name != "integration.failpoints" and hasattr(module, "failpoint"):
                stack.enter_context(mock.patch.object(module, "failpoint", _reached))
        yield


@contextmanager
def at(name: str, act: Callable[[], None]) -> Iterator[None]:
    """Do something when the program comes to a failpoint."""
    _armed[name] = act
    try:
        yield
    finally:
        _armed.pop(name, None)


def _break() -> None:
    raw = connections["default"].connection
    if raw is not None:
        with socket.socket(fileno=os.dup(raw.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
    if not connections["default"].in_atomic_block:
        connections["default"].close()


def die() -> None:
    """Leave as a killed process does: the connection breaks, and what was not committed is gone."""
    _break()
    raise Crash


@contextmanager
def dying_at_statement(number: int) -> Iterator[None]:
    """Die before the statement of this number, from 0."""
    sent = 0

    def count(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent > number:
            die()
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(count):
        yield


@contextmanager
def lost_answer() -> Iterator[None]:
    """Let the first commit be stored and its answer be lost."""
    connection = connections["default"]
    commit = connection.commit
    is_lost = False

    def lose() -> None:
        nonlocal is_lost
        is_lost = True
        _break()
        raise OperationalError(LOST, "Lost connection to server during query")

    def committing() -> None:
        commit()
        if not is_lost:
            lose()

    def write(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if not is_lost and not connection.in_atomic_block and re.match(r"\s*(UPDATE|INSERT|DELETE)\b", sql):
            lose()
        return result

    with mock.patch.object(connection, "commit", committing), connection.execute_wrapper(write):
        yield


@contextmanager
def fault(kind: str, number: int, points: tuple[str, ...]) -> Iterator[None]:
    """Have something go wrong in a unit of work.

    Args:
        kind: `none`, `point`, `statement` or `answer`.
        number: Which point, or which statement.
        points: The failpoints on the unit's way.
    """
    match kind:
        case "point":
            with at(points[number % len(points)], die):
                yield
        case "statement":
            with dying_at_statement(number % 24):
                yield
        case "answer":
            with lost_answer():
                yield
        case _:
            yield


@contextmanager
def rewritten(*changes: tuple[str, str, str]) -> Iterator[Counter[str]]:
    """Send other statements than the program says: the text of each that one pattern finds, changed by another.

    Args:
        changes: Which statements, what in them, and what instead; regular expressions.

    Yields:
        How often each change was made, by its first pattern.
    """
    made: Counter[str] = Counter()

    def send(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        for which, what, instead in changes:
            if isinstance(sql, str) and re.search(which, sql):
                sql, count = re.subn(what, instead, sql)
                made[which] += count
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(send):
        yield made
