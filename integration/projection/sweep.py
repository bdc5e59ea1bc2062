"""Looking for keyless heads: a generation that waits while its projection has no active one. There must be none.

Nothing would ever claim such a generation. The handoff keeps it from coming about; this looks whether it did.
It reads only, and mends nothing: a finding is a defect, and what made it is to be found first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from prometheus_client import Gauge

from integration.states import WorkItemState
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import handoffs

KEYLESS_HEADS: Final = Gauge(
    "lockhouse_projection_keyless_heads",
    "Queued generations whose projection has no active one, as the last sweep of this process found them; must be 0.",
    multiprocess_mode="livemax",
)
PAGE: Final = 1000
_START: Final = (datetime(1970, 1, 2, tzinfo=UTC), "", "00000000-0000-0000-0000-000000000000")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeylessHead:
    """A generation that nothing will ever claim.

    Attributes:
        work_id: The generation.
        namespace: Its namespace.
        pack_install_id: Its incarnation.
        event_kind: The event kind.
        created_at: When it was queued, aware UTC.
    """

    work_id: str
    namespace: str
    pack_install_id: str
    event_kind: str
    created_at: datetime


def find_keyless_heads(*, page: int = PAGE, using: str = "default") -> tuple[KeylessHead, ...]:
    """Look at every waiting generation, and report the keyless heads in a log line each and in a metric.

    Args:
        page: How many rows one statement reads.
        using: The database alias.

    Returns:
        The keyless heads, each confirmed by one statement of its own: a handoff that goes on meanwhile is none.

    Locks: none.
    Rule: P-24.
    """
    found = tuple(head for heads in _look(db.read(using), page) for head in heads)
    KEYLESS_HEADS.set(len(found))
    return found


class Sweeper:
    """The same look in steps, for a worker that has other things to do. Used by one thread."""

    def __init__(self, *, page: int = PAGE) -> None:
        """Start before the first row.

        Args:
            page: How many rows one step reads.
        """
        self._page = page
        self._round: Iterator[list[KeylessHead]] | None = None
        self._count = 0

    def step(self) -> bool:
        """Look at the next page.

        Returns:
            True when the round has ended with it and the metric is set; the next step begins a new one.

        Raises:
            OperationalError: The database does not answer; the next step begins a new round.
        """
        if self._round is None:
            self._round, self._count = _look(db.read(), self._page), 0
        try:
            heads = next(self._round, None)
        except Exception:
            self._round = None
            raise
        if heads is not None:
            self._count += len(heads)
            return False
        self._round = None
        KEYLESS_HEADS.set(self._count)
        return True


def _look(reader: Reader, page: int) -> Iterator[list[KeylessHead]]:
    """Yield the keyless heads of each page, each one logged."""
    for queued in _list_queued(reader, page):
        heads = list(_confirm(reader, queued))
        for head in heads:
            log.error("projection.keyless_head", work_id=head.work_id, pack_install_id=head.pack_install_id)
        yield heads


def _list_queued(reader: Reader, page: int) -> Iterator[list[Row]]:
    """Yield, page by page, the waiting generations that have no active key."""
    for state in (WorkItemState.PENDING, WorkItemState.BLOCKED):
        moment, queue_class, work_id = _START
        while True:
            rows = reader.fetch_all(
                handoffs.LIST_WAITING_GENERATIONS,
                {
                    "state": state.value,
                    "moment": moment,
                    "queue_class": queue_class,
                    "work_id": work_id,
                    "limit": page,
                },
            )
            yield [row for row in rows if row["ProjectionKey"] is not None and row["ProjectionActiveKey"] is None]
            if len(rows) < page:
                break
            moment, queue_class, work_id = rows[-1]["RunAfter"], rows[-1]["QueueClass"], rows[-1]["WorkId"]


def _confirm(reader: Reader, queued: list[Row]) -> Iterator[KeylessHead]:
    if not queued:
        return
    keys = {row["ProjectionKey"] for row in queued}
    rows = reader.fetch_all(handoffs.LIST_ACTIVE_KEYS, {"projection_keys": keys})
    active = {row["ProjectionActiveKey"] for row in rows}
    for row in queued:
        if row["ProjectionKey"] in active:
            continue
        head = reader.fetch_one(
            handoffs.FIND_KEYLESS_HEAD, {"work_id": row["WorkId"], "projection_key": row["ProjectionKey"]}
        )
        if head is not None:
            yield KeylessHead(
                work_id=head["WorkId"],
                namespace=head["Namespace"],
                pack_install_id=head["PackInstallId"],
                event_kind=head["EventKind"],
                created_at=head["CreatedAt"],
            )
