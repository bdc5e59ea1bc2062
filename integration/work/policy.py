"""Decisions of the kernel that need no database: when to try again, and in which order to look at candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

#: One microsecond is the resolution of the database's clock columns.
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed execution is tried again.

    Attributes:
        base_seconds: The wait after the first failure.
        factor: What each further failure multiplies it by, at least 1.
        cap_seconds: The longest wait, jitter included.
        jitter: The share by which a wait may be shorter or longer, from 0 to 1.
    """

    base_seconds: float = 2.0
    factor: float = 2.0
    cap_seconds: float = 900.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        """Refuse a policy whose waits would be negative, shrinking or endless."""
        if not (self.base_seconds > 0 and self.factor >= 1 and self.cap_seconds >= self.base_seconds):
            message = "a retry policy needs base_seconds > 0, factor >= 1 and cap_seconds >= base_seconds"
            raise ValueError(message)
        if not 0 <= self.jitter <= 1:
            message = "a retry policy needs a jitter from 0 to 1"
            raise ValueError(message)


def decide_delay(policy: RetryPolicy, failed_attempt: int, *, chance: float) -> float:
    """Return how long to wait after a failed attempt.

    Args:
        policy: The route's policy.
        failed_attempt: The number of the attempt that failed, from 1.
        chance: A random number from 0 to 1 that spreads the waits.

    Returns:
        Seconds, never negative and never above the cap.
    """
    # The cap is reached long before the power overflows.
    exponent = min(failed_attempt - 1, 1024)
    try:
        wait = min(policy.base_seconds * policy.factor**exponent, policy.cap_seconds)
    except OverflowError:
        wait = policy.cap_seconds
    return float(min(wait * (1 - policy.jitter + 2 * policy.jitter * chance), policy.cap_seconds))


def as_microseconds(seconds: float) -> int:
    """Return a wait in whole microseconds, never negative."""
    return max(0, round(seconds * _MICROSECONDS))


def take_turns(items: Iterable[T], group_of: Callable[[T], Hashable]) -> list[T]:
    """Return items so that each group has its turn, the groups and their items in the order of arrival.

    A pack or a queue class with a long backlog then delays no other one by more than its own turn.

    Args:
        items: In the order in which they became due.
        group_of: What takes turns.
    """
    queues: dict[Hashable, deque[T]] = {}
    for item in items:
        queues.setdefault(group_of(item), deque()).append(item)
    ordered: list[T] = []
    while queues:
        for group in list(queues):
            ordered.append(queues[group].popleft())
            if not queues[group]:
                del queues[group]
    return ordered
