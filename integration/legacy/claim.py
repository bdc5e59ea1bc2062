"""The Event executor's claim: the Event's compare-and-swap under the scheduler lease, and what a lost one left."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from integration.failpoints import failpoint
from integration.legacy import lease as leases
from integration.legacy.convergence import converge, read_capabilities
from integration.legacy.lease import SchedulerLease
from integration.legacy.outcomes import write_outcome
from integration.legacy.policy import HeldBack, decide_hold
from integration.legacy.process import EventProcess, lock_executor
from integration.legacy.routes import route_of
from integration.states import EventStatus, FailureClass
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import lock_event_to_execute, lock_mirrors
from integration.storage.sql import legacy
from integration.work.finish import SUMMARIES

_TOKEN_BYTES: Final = 24
_RECLAIM_BATCH: Final = 100
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventClaim:
    """A live claim of an Event: the token that every end of it must name.

    Attributes:
        event: The Event as it was read under the lock; the payload is still sealed.
        mirror: Its zero-attempt WorkItem as it was read under the lock; None when it has none.
        token: The secret that makes the claim this process's; never shown.
        lease_seconds: How long the claim runs from its start or its last renewal.
        rollback_fence_id: The fence of the rollback under which it is executed; its end leaves an outcome receipt.
    """

    event: Row = field(repr=False)
    mirror: Row | None = field(repr=False)
    token: str = field(repr=False)
    lease_seconds: int
    rollback_fence_id: str | None = None

    @property
    def event_id(self) -> str:
        """The Event that was claimed."""
        return str(self.event["EventId"])

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return int(self.event["RetryCount"]) + 1

    def renew(self) -> bool:
        """Extend the claim from now; False when it is no longer live.

        Locks: EVENT.
        """
        params = {"event_id": self.event_id, "claim_token": self.token, "lease_seconds": self.lease_seconds}
        return db.execute_alone(legacy.RENEW_EVENT_CLAIM, params) == 1


def claim_event(event_id: str, process: EventProcess, lease: SchedulerLease) -> EventClaim | HeldBack | None:
    """Try to claim an Event.

    The steps: lock the executor's own row and check that it may claim; lock the Event, then its WorkItems under both
    work types; check the scheduler lease; decide; swap the Event. A WorkItem's first claim locks the Event too, so
    that one of the two has it.

    Args:
        event_id: An Event that was read without a lock.
        process: The executor.
        lease: The pack's scheduler lease.

    Returns:
        The claim; why the Event is held back; or None when another had it first.

    Raises:
        ClaimFenced: The executor may not claim any more.
        LeaseLost: The scheduler lease is another's.
        Busy: A lock was not free in time, or the database does not answer.
        CommitUnknown: The database does not say whether the claim was stored; it then expires.

    Locks: PROCESS, EVENT, WORK_ITEM, LEAF.
    Rule: A-35.
    """
    capabilities = read_capabilities()
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    last: list[EventClaim] = []

    def unit(tx: Tx) -> EventClaim | HeldBack | None:
        locked = lock_executor(tx, process)
        event = lock_event_to_execute(locked, event_id)
        if event is None:
            return None
        mirrors: list[Mapping[str, object]] = []
        if capabilities.has_work_items:
            locked_mirrors = lock_mirrors(
                event, has_ranges=capabilities.has_ranges, is_bridge=process.rollback_fence_id is not None
            )
            mirrors = [item.row for item in locked_mirrors]
        leases.demand(locked, lease)
        held = decide_hold(mirrors, rollback_fence_id=process.rollback_fence_id)
        if held is not None:
            return held
        params = {
            "event_id": event_id,
            "pack_install_id": process.pack_install_id,
            "claim_token": token,
            "process_id": process.process_id,
            "lease_seconds": lease.seconds,
        }
        failpoint("legacy_claim.before_swap")
        if tx.execute(legacy.CLAIM_EVENT, params) != 1:
            return None
        claimed = EventClaim(
            event=event.row,
            mirror=dict(mirrors[0]) if mirrors else None,
            token=token,
            lease_seconds=lease.seconds,
            rollback_fence_id=process.rollback_fence_id,
        )
        last[:] = [claimed]
        failpoint("legacy_claim.before_commit")
        return claimed

    def settle(reader: Reader) -> EventClaim | None:
        row = reader.fetch_one(legacy.READ_EVENT_CLAIM, {"event_id": event_id})
        # The run whose COMMIT was not answered is the last one.
        return last[0] if last and row is not None and row["ClaimToken"] == token else None

    failpoint("legacy_claim.before")
    claimed = db.run(unit, name="legacy.claim", settle=settle)
    if isinstance(claimed, EventClaim):
        failpoint("legacy_claim.after_commit")
    return claimed


def reclaim_expired(process: EventProcess, lease: SchedulerLease, *, slack_seconds: int) -> int:
    """Take back the Events of the pack whose claims expired, each in its own transaction.

    A lost execution counts as a failed one: an Event whose flow ends the process ends dead when its attempts are used
    up, and its mirror follows it.

    Args:
        process: The executor.
        lease: The pack's scheduler lease.
        slack_seconds: How far past its end a claim must be.

    Returns:
        How many were taken back.

    Raises:
        ClaimFenced: The executor may not claim any more.
        LeaseLost: The scheduler lease is another's.

    Locks: PROCESS, EVENT, WORK_ITEM, LEAF.
    Rule: A-35.
    """
    params = {"pack_install_id": process.pack_install_id, "slack_seconds": slack_seconds, "limit": _RECLAIM_BATCH}
    count = 0
    for row in db.read().fetch_all(legacy.LIST_EXPIRED_EVENT_CLAIMS, params):
        count += _reclaim(row, process, lease, slack_seconds)
    return count


def _reclaim(row: Row, process: EventProcess, lease: SchedulerLease, slack_seconds: int) -> int:
    route = route_of(row)
    exhausted = row["RetryCount"] + 1 >= route.retry.max_attempts
    statement = legacy.RECLAIM_EXHAUSTED_EVENT if exhausted else legacy.RECLAIM_EVENT
    capabilities = read_capabilities()
    params = {
        "event_id": row["EventId"],
        "claim_token": row["ClaimToken"],
        "slack_seconds": slack_seconds,
        "last_error": SUMMARIES[FailureClass.LEASE_LOST],
    }

    def unit(tx: Tx) -> bool:
        locked = lock_executor(tx, process)
        event = lock_event_to_execute(locked, row["EventId"])
        if event is None or tx.execute(statement, params) != 1:
            return False
        if exhausted:
            converge(event, EventStatus.DEAD, capabilities)
            write_outcome(event, EventStatus.DEAD, process.rollback_fence_id)
        leases.demand(locked, lease)
        return True

    # An unanswered commit needs no settling: whoever reads the row next sees what it is.
    taken = db.run(unit, name="legacy.reclaim")
    if taken:
        log.warning("legacy.reclaimed", event_id=row["EventId"], exhausted=exhausted)
    return int(taken)
