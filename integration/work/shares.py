"""How several claimers share what is due: each looks at its own slots, and takes over what others leave.

Lock-free and a matter of speed alone: two that think themselves owners of one item race for it, and the claim decides.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from integration.work.items import Candidate
from integration.work.pages import Slots

#: Whoever has nothing of its own takes an item that has been left for so long; the next in line waits twice as long.
SPARE_SECONDS: Final = 0.1
#: A slot of which an item has been left for so long is taken over, and how often whoever has work looks for that.
LEFT_SECONDS: Final = 3.0
#: For how long a slot is taken over.
ADOPTED_SECONDS: Final = 5.0
#: However many processes there are, the last in line waits no longer than this many times.
_LAST_IN_LINE: Final = 3


def slot_of(item: Candidate, count: int) -> int:
    """Return the slot of an item, as the candidates' statement has it."""
    return zlib.crc32(item.slot_key.encode()) % count


class Shares:
    """The slots of one claimer. Used by one thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with everything.

        Args:
            clock: The monotonic clock, in seconds.
        """
        self._clock = clock
        self._place, self._places = 0, 1
        self._adopted: dict[int, float] = {}
        self._seen: dict[str, float] = {}
        self._looked_at = float("-inf")

    def place(self, place: int, places: int) -> None:
        """Take a place among the claimers.

        Args:
            place: This one's, from 0.
            places: How many there are, at least 1.
        """
        if (place % places, places) != (self._place, self._places):
            self._place, self._places = place % places, places
            self._adopted.clear()
            self._seen.clear()

    @property
    def slots(self) -> Slots:
        """What this claimer looks at: its own slot, and those that it has taken over."""
        now = self._clock()
        self._adopted = {slot: until for slot, until in self._adopted.items() if now < until}
        return Slots(count=self._places, own=(self._place, *sorted(self._adopted)))

    @property
    def has_pending(self) -> bool:
        """Whether the last look at what others leave met something that is still theirs."""
        return bool(self._seen)

    def is_due(self, *, has_own: bool) -> bool:
        """Return whether it is time to look at what others leave.

        Args:
            has_own: There is something of this claimer's own.
        """
        wait = LEFT_SECONDS if has_own else SPARE_SECONDS / 2
        return self._places > 1 and self._clock() - self._looked_at >= wait

    def left_by_others(self, items: Iterable[Candidate], *, has_own: bool) -> list[Candidate]:
        """Return what of the others' is this claimer's to take now, and take over the slots that nobody serves.

        Args:
            items: Everything that could be claimed, whosever it is.
            has_own: There is something of this claimer's own, which comes first.
        """
        now = self._looked_at = self._clock()
        seen: dict[str, float] = {}
        spare = []
        for item in items:
            slot = slot_of(item, self._places)
            if slot == self._place or slot in self._adopted:
                continue
            turns = min((self._place - slot) % self._places, _LAST_IN_LINE)
            since = seen[item.work_id] = self._seen.get(item.work_id, now)
            if now - since >= turns * LEFT_SECONDS:
                self._adopted[slot] = now + ADOPTED_SECONDS
            if not has_own and now - since >= turns * SPARE_SECONDS:
                spare.append(item)
        self._seen = seen
        return spare
