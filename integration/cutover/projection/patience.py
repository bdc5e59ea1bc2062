"""How long a cutover may take, and that it may be stopped: asked wherever nothing is stored yet."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from integration import errors

LONGEST: Final = timedelta(hours=24)
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class TimeIsUp(errors.IntegrationError):
    """The time is up; nothing was written."""

    code = "timed_out"
    http_status = 503
    retryable = True


class Stopped(errors.IntegrationError):
    """It was asked to stop; nothing was written."""

    code = "stopped"
    http_status = 503
    retryable = True


def parse_timeout(text: str) -> timedelta:
    """Return a duration as `30s`, `1m30s`, `500ms` or `2h` spell it.

    Raises:
        InvalidInput: It is none, is zero, or is longer than a day.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or len(text) > 32:
        message = "timeout must be a number with a unit, for instance 30s, 5m or 1h30m."
        raise errors.InvalidInput(message, field="timeout")
    found = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < found <= LONGEST.total_seconds():
        message = "timeout must be more than nothing and at most 24h."
        raise errors.InvalidInput(message, field="timeout")
    return timedelta(seconds=found)


@dataclass(slots=True, kw_only=True)
class Patience:
    """What ends a cutover before it has written anything.

    Attributes:
        timeout: How long it may take, from when this was made.
        clock: The monotonic clock, in seconds.
        is_stopped: Somebody asked it to stop; safe to set in a signal handler.
    """

    timeout: timedelta
    clock: Callable[[], float] = time.monotonic
    is_stopped: bool = False
    _started_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._started_at = self.clock()

    def stop(self) -> None:
        """Ask to stop."""
        self.is_stopped = True

    def check(self) -> None:
        """Go on, or not.

        Raises:
            Stopped: Somebody asked.
            TimeIsUp: It took too long.
        """
        if self.is_stopped:
            raise Stopped
        if self.clock() - self._started_at >= self.timeout.total_seconds():
            raise TimeIsUp(timeout_seconds=self.timeout.total_seconds())
