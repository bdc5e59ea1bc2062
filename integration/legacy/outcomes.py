"""The outcome receipt: what the end of a rolled-back pack's Event leaves for the WorkItem that waits for it."""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import Counter

from integration.failpoints import failpoint
from integration.states import EventStatus
from integration.storage.locks import LockedEvent
from integration.storage.sql import legacy_outcomes
from integration.work.legacy_outcomes import RECEIPT_VERSION, outcome_digest

RECEIPTS: Final = Counter(
    "lockhouse_legacy_outcome_receipts_total", "Outcome receipts of the Event executor.", ["status"]
)
#: What a server answers when the row was there and was changed.
_CHANGED: Final = 2
log = structlog.get_logger(__name__)


def write_outcome(event: LockedEvent, status: EventStatus, rollback_fence_id: str | None) -> None:
    """Record how an Event of a rolled-back pack ended.

    The same outcome delivered again changes nothing. A different one is recorded on the receipt as a conflict: the
    first outcome stays, and neither is believed any more.

    Args:
        event: The Event, locked; its row has the end already.
        status: `processed`, `skipped` or `dead`.
        rollback_fence_id: The fence of the pack's rollback; None before its first cutover, and nothing is written.

    Locks: none that another could wait for: the receipt is its Event's, which is held.
    Rule: C-05, C-07.
    """
    if rollback_fence_id is None:
        return
    key = {
        "event_id": str(event.event_id),
        "work_type": str(event.row["WorkType"]),
        "rollback_fence_id": rollback_fence_id,
        "outcome": status.value,
    }
    params = {**key, "receipt_version": RECEIPT_VERSION, "digest": outcome_digest(**key)}
    if event.tx.execute(legacy_outcomes.RECORD_LEGACY_OUTCOME, params) == _CHANGED:
        log.error("legacy.outcome_conflict", event_id=event.event_id, status=status)
    RECEIPTS.labels(status).inc()
    failpoint("legacy_end.after_receipt")
