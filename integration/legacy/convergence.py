"""Claim-time convergence: a mirror follows its Event into the same end, in the Event's own transaction.

It is told to no one else: the Event stays the owner of its replay, and the mirror is left with nothing to claim.
"""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import Counter

from integration.failpoints import failpoint
from integration.legacy.policy import convergence_of, is_left_behind
from integration.projection.handoff import end_generation
from integration.states import EventStatus
from integration.storage import probe
from integration.storage.locks import LockedEvent, lock_mirrors
from integration.storage.probe import Capabilities

CONVERGED: Final = Counter(
    "lockhouse_legacy_converged_total", "Mirrors that followed an Event of the Event executor.", ["status"]
)
log = structlog.get_logger(__name__)


def read_capabilities() -> Capabilities:
    """Return what the database has; of a schema that is not complete, as of now: a step may just have been made."""
    known = probe.capabilities()
    return known if known.is_complete else probe.capabilities(fresh=True)


def converge(event: LockedEvent, status: EventStatus, capabilities: Capabilities) -> tuple[str, ...]:
    """Let an Event's zero-attempt mirrors follow it.

    The steps, in the transaction in which the Event has just ended: lock its WorkItems under both work types; give
    each that was never claimed and has not ended the Event's end, and take its active keys; give a projection's key
    to the generation that waits for it. A WorkItem that was claimed is left alone, and so is one that a rollback holds.

    Args:
        event: The Event, locked; its row has the end already.
        status: `processed`, `skipped` or `dead`.
        capabilities: What the database has.

    Returns:
        The WorkIds that followed.

    Locks: WORK_ITEM, twice: the mirrors, then a projection's successor.
    Rule: A-35.
    """
    if not capabilities.has_work_items:
        return ()
    statement = convergence_of(status, has_outcome=capabilities.has_additive)
    followed = []
    mirrors = lock_mirrors(event, has_ranges=capabilities.has_ranges)
    if len(mirrors) > 1:
        log.error("legacy.ambiguous_mirrors", event_id=event.event_id, count=len(mirrors))
    for mirror in mirrors:
        if not is_left_behind(mirror.row):
            continue
        # A successor without the active key has none to hand on.
        key = mirror.row["ProjectionKey"] if mirror.row["ProjectionActiveKey"] is not None else None
        params = {"work_id": mirror.work_id, "event_id": event.event_id}
        if end_generation(event.tx, statement, params, projection_key=key):
            followed.append(mirror.work_id)
            failpoint("legacy_end.after_mirror")
    CONVERGED.labels(status).inc(len(followed))
    return tuple(followed)
