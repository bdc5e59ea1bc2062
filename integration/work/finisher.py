"""Ending many executions at once: what succeeded since the last write ends in the next one.

Nothing waits for a batch to fill. While one write is under way the ends of other flows gather, and the next
write takes them together, so that batches grow with the load and a lone end is written at once.
"""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from integration.failpoints import failpoint
from integration.work import finish
from integration.work.claim import Claim
from integration.work.finish import Ended
from integration.work.outage import OUTAGE, patiently

#: How many rows one statement ends.
MOST_AT_ONCE: Final = 100
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An execution whose end is to be stored.

    Attributes:
        claim: The live claim.
        ended: `complete` or `skip`.
        trace_id: What the log calls the delivery.
    """

    claim: Claim
    ended: Ended
    trace_id: str | None


class Finisher:
    """The queue of ends and the loop that stores them. Many threads add, one stores."""

    def __init__(self, done: Callable[[Sequence[Claim], int], None]) -> None:
        """Start empty.

        Args:
            done: Called with the claims that are no longer this process's, and how many of them ended as wanted.
        """
        self._queue: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self._done = done

    def add(self, finished: Finished) -> None:
        """Have an end stored."""
        self._queue.put(finished)

    def close(self) -> None:
        """Let the loop end once everything that was added is stored."""
        self._queue.put(None)

    def run(self) -> None:
        """Store ends until closed."""
        open_ = True
        while open_:
            batch: list[Finished] = []
            taken = self._queue.get()
            while taken is not None:
                batch.append(taken)
                if len(batch) == MOST_AT_ONCE or self._queue.empty():
                    break
                taken = self._queue.get()
            open_ = taken is not None
            groups: dict[tuple[str, int, Ended], list[Finished]] = defaultdict(list)
            for item in batch:
                groups[(item.claim.lease_token, item.claim.epoch, item.ended)].append(item)
            for (_, _, ended), members in groups.items():
                self._store(ended, members)

    def _store(self, ended: Ended, members: Sequence[Finished]) -> None:
        claims = [member.claim for member in members]
        failpoint("finish.before")
        stored: frozenset[str] = frozenset()
        try:
            stored = patiently(
                lambda: finish.finish_many(claims, ended), role="finish", seconds=claims[0].lease_seconds
            )
        except OUTAGE:
            # The leases run out, and whoever reaps them makes the attempts lost ones.
            log.warning("work.abandoned", count=len(claims))
        else:
            failpoint("finish.after_commit")
            for member in members:
                facts = {
                    "work_id": member.claim.work_id,
                    "attempt": member.claim.attempt,
                    "trace_id": member.trace_id,
                    "transition": ended,
                }
                if member.claim.work_id in stored:
                    log.info("work.ended", **facts)
                else:
                    log.warning("work.stale", **facts)
        finally:
            self._done(claims, len(stored))
