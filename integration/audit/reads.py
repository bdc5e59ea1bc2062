"""Verify the trail, stream by stream, without locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from integration.audit.policy import GENESIS_DIGEST, entry_digest
from integration.storage import db
from integration.storage.sql import audit

_CHUNK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """The first place in a stream where the chain does not hold.

    Attributes:
        stream: The stream's name.
        seq: The entry at which it breaks.
        what: `missing`, `predecessor` or `content`.
    """

    stream: str
    seq: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What a verification found.

    Attributes:
        entry_count: Entries read.
        heads: Stream -> digest of its last entry; keep them elsewhere to notice a cut-off tail.
        breaks: One for each stream that does not hold.
    """

    entry_count: int
    heads: dict[str, str]
    breaks: tuple[ChainBreak, ...]


def verify_chain(*, using: str = "default") -> ChainReport:
    """Recompute every digest of every stream.

    Returns:
        The number of entries, each stream's head, and the first break of each stream that has one.
    """
    reader = db.read(using)
    count = 0
    heads: dict[str, str] = {}
    breaks: list[ChainBreak] = []
    for stream_row in reader.fetch_all(audit.LIST_AUDIT_STREAMS):
        stream = stream_row["stream"]
        seq, previous, broken = 0, GENESIS_DIGEST, False
        while not broken:
            rows = reader.fetch_all(audit.LIST_AUDIT_STREAM_AFTER, {"stream": stream, "seq": seq, "limit": _CHUNK})
            if not rows:
                break
            for row in rows:
                count += 1
                what = _fault(row, seq=seq, previous=previous)
                if what is not None:
                    breaks.append(ChainBreak(stream=stream, seq=row["seq"], what=what))
                    broken = True
                    break
                seq, previous = row["seq"], row["digest"]
        heads[stream] = previous
    return ChainReport(entry_count=count, heads=heads, breaks=tuple(breaks))


def _fault(row: db.Row, *, seq: int, previous: str) -> str | None:
    if row["seq"] != seq + 1:
        return "missing"
    if row["previous_digest"] != previous:
        return "predecessor"
    if row["digest"] != entry_digest(row):
        return "content"
    return None
