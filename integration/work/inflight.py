"""What a worker process holds: the claims that it has not ended, and how many more it should take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from integration.work import metrics
from integration.work.claim import Claim

#: No more than this much work waits in the process for a free thread.
AHEAD_SECONDS: Final = 0.25
#: How many claims may wait for a thread, however fast the flows are.
MOST_AHEAD: Final = 120
#: The weight of the newest flow in the average.
_WEIGHT: Final = 0.05


class Pace:
    """How fast the flows run, and how many claims beyond the running ones are worth a lease.

    Slow flows take one claim a thread, as threads become free. Fast ones are claimed many at a time: a claim is
    a transaction, and they would spend their time waiting for it.
    """

    def __init__(self, concurrency: int) -> None:
        """Start without a claim ahead, until flows have shown that they are fast.

        Args:
            concurrency: How many flows run at once.
        """
        self._concurrency = concurrency
        self._seconds = AHEAD_SECONDS

    def note(self, seconds: float) -> None:
        """Note how long a flow took. A lost update by another thread does no harm."""
        self._seconds += _WEIGHT * (seconds - self._seconds)

    @property
    def ahead(self) -> int:
        """How many claims may wait for a thread."""
        if self._seconds * MOST_AHEAD <= AHEAD_SECONDS * self._concurrency:
            return MOST_AHEAD
        return int(AHEAD_SECONDS * self._concurrency / self._seconds) - self._concurrency


class InFlight:
    """The live claims of a process, by WorkId. Used by all of its threads."""

    def __init__(self, concurrency: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            concurrency: How many flows run at once.
            clock: The monotonic clock, in seconds.
        """
        self.pace = Pace(concurrency)
        self._concurrency = concurrency
        self._clock = clock
        self._live: dict[str, tuple[Claim, float]] = {}
        self._since: dict[str, float] = {}
        self._cancelled: frozenset[str] = frozenset()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """How many claims are live."""
        return len(self._live)

    def wait_for_room(self, seconds: float) -> int:
        """Wait until a claim is worth its transaction.

        Args:
            seconds: How long to wait at most.

        Returns:
            How many claims may be added now; 0 when the time is up.
        """
        deadline = self._clock() + seconds
        with self._changed:
            while True:
                ahead = max(self.pace.ahead, 0)
                held = len(self._live)
                # With claims ahead, half of them are used up first, so that each transaction takes many.
                if held < self._concurrency or held <= self._concurrency + ahead // 2 - 1:
                    return self._concurrency + ahead - held
                left = deadline - self._clock()
                if left <= 0:
                    return 0
                self._changed.wait(left)

    def add(self, claims: Iterable[Claim]) -> None:
        """Add claims whose leases have just begun."""
        now = self._clock()
        with self._changed:
            for claim in claims:
                self._live[claim.work_id] = (claim, now)
                self._since[claim.work_id] = now
            metrics.IN_FLIGHT.set(len(self._live))

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove claims that ended or were given up."""
        with self._changed:
            for claim in claims:
                if self._is_held(claim):
                    del self._live[claim.work_id], self._since[claim.work_id]
            metrics.IN_FLIGHT.set(len(self._live))
            self._changed.notify_all()

    def due_for_renewal(self, seconds: float) -> list[Claim]:
        """Return the claims whose leases began, or were renewed, so many seconds ago or earlier."""
        limit = self._clock() - seconds
        with self._changed:
            return [claim for claim, since in self._live.values() if since <= limit]

    def held_for(self, seconds: float) -> list[str]:
        """Return the WorkIds whose claims were made so many seconds ago or earlier, renewed or not."""
        limit = self._clock() - seconds
        with self._changed:
            return [work_id for work_id, since in self._since.items() if since <= limit]

    def is_cancelled(self, claim: Claim) -> bool:
        """Return whether an operator asked for a claim's work to stop, as of the last look."""
        return claim.work_id in self._cancelled

    def note_cancelled(self, work_ids: Iterable[str]) -> None:
        """Note which of the live claims an operator asked to stop; a request is never taken back."""
        with self._changed:
            self._cancelled = frozenset(work_id for work_id in {*self._cancelled, *work_ids} if work_id in self._live)

    def renewed(self, claim: Claim, at: float) -> None:
        """Note that a lease was renewed.

        Args:
            claim: The claim.
            at: The monotonic time just before the renewal.
        """
        with self._changed:
            if self._is_held(claim):
                self._live[claim.work_id] = (claim, at)

    def is_in_time(self, claim: Claim, lease_seconds: float) -> bool:
        """Return whether a claim is held and its lease, by this process's clock, has not run out."""
        with self._changed:
            held = self._live.get(claim.work_id)
            return self._is_held(claim) and held is not None and self._clock() - held[1] < lease_seconds

    def _is_held(self, claim: Claim) -> bool:
        # An item whose lease was lost may be claimed anew by the same process while its earlier flow still runs.
        held = self._live.get(claim.work_id)
        return held is not None and held[0].lease_token == claim.lease_token
