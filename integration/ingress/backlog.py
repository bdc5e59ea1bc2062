"""Where to look for receipts, so that those which fences hold are not opened anew at every look."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from integration import errors
from integration.ingress.materialize import START, MaterializedBatch, Position, read_fences
from integration.ingress.policy import ArmedFence
from integration.storage.db import Reader
from integration.storage.sql.audit import READ_DATABASE_TIME

#: A receipt is committed so long after its ReceivedAt, at most: beside what is younger an older one may still appear.
_SETTLED: Final = timedelta(seconds=10)
#: Afterwards everything is looked at again: a route, or a key of the ring, may have changed.
_TRUSTED_SECONDS: Final = 30.0


@dataclass(slots=True, kw_only=True)
class _Held:
    """What the looks since `until` was set have found of one incarnation.

    Attributes:
        fences: What was armed before the first of them.
        until: When to forget it, on the monotonic clock.
        settled: Nothing comes any more before here.
        position: Everything up to here is held by a fence.
        is_contiguous: Nothing but a fence has held anything yet, so that the position may move on.
    """

    fences: tuple[ArmedFence, ...]
    until: float
    settled: Position = START
    position: Position = START
    is_contiguous: bool = True


class HeldBacklog:
    """Remembers how far every receipt of an incarnation is held by fences, while the same ones are armed.

    A fence over one kind may hold very many receipts, and which kinds one holds is known only once it is opened.
    Used by one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember nothing yet."""
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def begin(self, reader: Reader, pack_install_id: str, namespace: str) -> Position:
        """Return where a look through an incarnation's receipts begins.

        Args:
            reader: Where the fences are read, before any receipt is.
            pack_install_id: The incarnation.
            namespace: Its namespace.
        """
        fences = read_fences(reader, namespace)
        if not fences:
            self._held.pop(pack_install_id, None)
            return START
        held = self._held.get(pack_install_id)
        if held is None or held.fences != fences or self._clock() >= held.until:
            held = _Held(fences=fences, until=self._clock() + _TRUSTED_SECONDS)
            self._held[pack_install_id] = held
        clock = reader.fetch_one(READ_DATABASE_TIME)
        if clock is None:
            raise errors.InvariantBroken
        held.settled, held.is_contiguous = (clock["Now"] - _SETTLED, ""), True
        return held.position

    def met(self, pack_install_id: str, batch: MaterializedBatch) -> None:
        """Note what a page came to, in the order of the pages."""
        held = self._held.get(pack_install_id)
        if held is None or batch.end is None:
            return
        held.is_contiguous &= batch.held == batch.fenced
        if held.is_contiguous:
            held.position = max(held.position, min(batch.end, held.settled))
