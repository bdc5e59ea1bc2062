"""Surviving a database that does not answer: wait, start on a new connection, go on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import structlog
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.storage import db
from integration.work import metrics

T = TypeVar("T")

#: What a reader or the transaction door raises while the database is away or too busy.
OUTAGE: Final = (errors.Busy, errors.CommitUnknown, OperationalError, InterfaceError)
_FIRST_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 5.0
log = structlog.get_logger(__name__)


class Backoff:
    """The growing, jittered wait between tries of one role. Used by one thread."""

    def __init__(self, role: str, wait: Callable[[float], object] = time.sleep) -> None:
        """Start without a failure.

        Args:
            role: Whose tries these are, for the log and the metric.
            wait: Waits for so many seconds, or less when the role is to stop.
        """
        self._role = role
        metrics.OUTAGES.labels(role)
        self._wait = wait
        self._failures = 0

    def met(self, error: Exception) -> None:
        """Give the connection up and wait, longer each time."""
        metrics.OUTAGES.labels(self._role).inc()
        if self._failures == 0:
            log.warning("work.database_away", role=self._role, error=type(error).__name__)
        db.close_connections()
        longest = min(_FIRST_SECONDS * 2 ** min(self._failures, 10), _LONGEST_SECONDS)
        self._failures += 1
        # Many processes must not come back at the same instant.
        self._wait(random.uniform(0.5, 1.0) * longest)  # noqa: S311

    def over(self) -> None:
        """Note that a try succeeded."""
        if self._failures:
            log.info("work.database_back", role=self._role, failures=self._failures)
        self._failures = 0


def patiently(
    action: Callable[[], T],
    *,
    role: str,
    seconds: float,
    wait: Callable[[float], object] = time.sleep,
    is_over: Callable[[], bool] = lambda: False,
) -> T:
    """Do something, again and again while the database is away.

    Args:
        action: What may be repeated whole.
        role: Whose action it is.
        seconds: For how long it is tried.
        wait: Waits for so many seconds.
        is_over: Whether whoever wants it done has given up, asked before each further try.

    Returns:
        What the action returned.

    Raises:
        Busy: The time is up, or it is over, and the database still does not answer.
        CommitUnknown: The time is up, or it is over, and the outcome still cannot be read.
    """
    backoff = Backoff(role, wait)
    deadline = time.monotonic() + seconds
    while True:
        try:
            result = action()
        except OUTAGE as error:
            if time.monotonic() >= deadline or is_over():
                raise
            backoff.met(error)
        else:
            backoff.over()
            return result
