"""The terms of fences and overrides: what may be asked for, and when it is the same request again. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from integration import errors
from integration.cutover.fences.values import Override, OverrideState
from integration.ingress.policy import EVENT_KIND, EVERY_SCOPE
from integration.storage.db import Row

LONGEST: Final = timedelta(days=30)
LONGEST_WAIT_SECONDS: Final = 3600.0
_DURATION: Final = re.compile(r"([0-9]{1,7})\s*([smhd]?)", re.ASCII)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def check_scope(scope: str) -> str:
    """Return a scope that a fence can have.

    Args:
        scope: `*` for every event kind, or one event kind.

    Raises:
        InvalidInput: It is neither.
    """
    if scope != EVERY_SCOPE and not EVENT_KIND.fullmatch(scope):
        message = "A scope is * for every event kind, or one event kind such as deal.created."
        raise errors.InvalidInput(message, field="scope", found=f"{len(scope)} characters")
    return scope


def check_override_scope(fence_scope: str, scope: str) -> str:
    """Return a scope that a fence can let through.

    Args:
        fence_scope: What the fence stops.
        scope: `*` for all of that, or one event kind of it.

    Raises:
        InvalidInput: It is no scope, or the fence does not stop it.
    """
    check_scope(scope)
    if fence_scope not in {EVERY_SCOPE, scope} and scope != EVERY_SCOPE:
        message = f"The fence stops {fence_scope} alone: let that through, or *."
        raise errors.InvalidInput(message, field="scope", found="another event kind")
    return scope


def check_duration(expires_in: timedelta | None) -> timedelta | None:
    """Return a time that a fence or an override can last; None for without an end.

    Raises:
        InvalidInput: It is shorter than a second, longer than thirty days, or no number of seconds.
    """
    if expires_in is None:
        return None
    if not timedelta(seconds=1) <= expires_in <= LONGEST or expires_in.microseconds:
        message = "A time to end in is 1 second to 30 days, in whole seconds; leave it out for one without an end."
        raise errors.InvalidInput(message, field="expires_in", found=f"{expires_in.total_seconds():g} seconds")
    return expires_in


def check_wait(seconds: float) -> float:
    """Return for how long a barrier may wait, in seconds.

    Raises:
        InvalidInput: It is no number from 0 to 3600.
    """
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        message = f"The time to wait is 0 to {LONGEST_WAIT_SECONDS:g} seconds."
        raise errors.InvalidInput(message, field="wait_seconds", found=f"{seconds:g}")
    return seconds


def parse_duration(text: str) -> timedelta:
    """Read a time that somebody typed: `90s`, `30m`, `2h`, `1d`, or seconds.

    Raises:
        InvalidInput: It is none.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        message = "A time to end in is a number with s, m, h or d behind it, such as 30m."
        raise errors.InvalidInput(message, field="expires_in", found=f"{len(text)} characters")
    return timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)])


def find_same_fence(
    armed: Sequence[Row], overridden: Collection[str], scope: str, expires_in: timedelta | None, now: datetime
) -> str | None:
    """Return the armed fence that does all that a request asks for, if there is one.

    It has the same scope and the same time to end in, counted from when it was armed; it lets nothing through, and
    nine tenths of its time are left. Any other makes a fence beside it: whoever changes an expiring fence into one
    without an end must not leave a gap between them, and whoever arms one counts on everything being stopped for as
    long as was asked.

    Args:
        armed: The namespace's armed fences.
        overridden: Those that let something through.
        scope: The scope that is asked for.
        expires_in: The time that is asked for.
        now: The database's time.
    """
    for row in armed:
        ends_at = row["ExpiresAt"]
        duration = None if ends_at is None else ends_at - row["ArmedAt"]
        is_short = expires_in is not None and ends_at is not None and ends_at - now < expires_in * 0.9
        if (row["Scope"], duration) == (scope, expires_in) and row["FenceId"] not in overridden and not is_short:
            return str(row["FenceId"])
    return None


def find_same_override(overrides: Sequence[Override], scope: str, expires_in: timedelta | None) -> Override | None:
    """Return the live override of the same scope and time that a request asks for again, if there is one."""
    for override in overrides:
        if override.state is OverrideState.LIVE and (override.scope, override.duration) == (scope, expires_in):
            return override
    return None


def seconds_of(time: timedelta | None) -> int | None:
    """Return a time in whole seconds; None for one without an end."""
    return None if time is None else int(time.total_seconds())
