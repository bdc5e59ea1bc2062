"""Lock-free reads of the backlog: how many receipts wait, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from integration.states import ReceiptState
from integration.storage import db
from integration.storage.sql import receipts

COUNT_CAP: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be materialized in a namespace.

    Attributes:
        count: Receipts, counted up to the cap.
        is_capped: There are more than were counted.
        oldest_age_seconds: How long the oldest one waits; None when nothing waits.
    """

    count: int
    is_capped: bool
    oldest_age_seconds: float | None


def read_backlog(namespace: str, *, cap: int = COUNT_CAP) -> Backlog:
    """Return what waits in a namespace.

    Args:
        namespace: The namespace.
        cap: Where counting stops.

    Returns:
        The count, at most `cap`, and the age of the oldest.
    """
    reader = db.read()
    counted = reader.fetch_one(
        receipts.COUNT_RECEIPTS, {"state": ReceiptState.RECEIVED.value, "namespace": namespace, "limit": cap + 1}
    )
    oldest = reader.fetch_one(receipts.READ_OLDEST_READY_RECEIPT, {"namespace": namespace})
    count = 0 if counted is None else int(counted["ReceiptCount"])
    return Backlog(
        count=min(count, cap),
        is_capped=count > cap,
        oldest_age_seconds=None if oldest is None else oldest["AgeMicroseconds"] / 1_000_000,
    )
