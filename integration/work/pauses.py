"""How long a claimer that found nothing waits before it looks again."""

from __future__ import annotations

from typing import Final

#: Soon after work more is likely: the first wait is this share of the longest one.
_FIRST_SHARE: Final = 1 / 16
_GROWTH: Final = 1.5
#: However often a worker is asked to look, it leaves the processor to the flows for so long.
_LEAST_SECONDS: Final = 0.002


class Pauses:
    """Waits that grow from a sixteenth of the longest one, from when the last work was found. Used by one thread."""

    def __init__(self, longest_seconds: float) -> None:
        """Start idle.

        Args:
            longest_seconds: How long an idle claimer waits.
        """
        self._longest = longest_seconds
        self._next = longest_seconds

    def begin_anew(self) -> None:
        """Note that work was found."""
        self._next = min(max(self._longest * _FIRST_SHARE, _LEAST_SECONDS), self._longest)

    def next(self) -> float:
        """Return how many seconds to wait now; the next wait is longer."""
        current = self._next
        self._next = min(current * _GROWTH, self._longest)
        return current
