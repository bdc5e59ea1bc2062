"""How an Event's execution ends: by its token, and with its mirror or its outcome receipt in one transaction."""

from __future__ import annotations

import random
from collections.abc import Callable

import structlog

from integration import errors
from integration.failpoints import failpoint
from integration.legacy.claim import EventClaim
from integration.legacy.convergence import converge, read_capabilities
from integration.legacy.outcomes import write_outcome
from integration.legacy.policy import End, decide_end
from integration.legacy.routes import EventRoute, route_of
from integration.states import TERMINAL_EVENT_STATUSES, EventStatus, FailureClass
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.locks import lock_executed_event
from integration.storage.sql import legacy
from integration.work.execute import Verdict
from integration.work.finish import SUMMARIES
from integration.work.outage import patiently
from integration.work.policy import RetryPolicy, as_microseconds, decide_delay

log = structlog.get_logger(__name__)


def store(claim: EventClaim, verdict: Verdict, *, chance: Callable[[], float] = random.random) -> EventStatus | None:
    """Store how an execution ended, however long the database is away, as long as the claim may run.

    Args:
        claim: The live claim.
        verdict: How it ended.
        chance: A source of numbers from 0 to 1 that spreads the retries.

    Returns:
        The Event's status, or None when the claim was no longer live.

    Raises:
        Busy: The database did not answer for as long as the claim runs; the Event will be taken back.
    """
    failpoint("legacy_end.before")
    try:
        status = patiently(lambda: conclude(claim, verdict, chance=chance), role="legacy", seconds=claim.lease_seconds)
    except errors.StaleClaim:
        log.warning("legacy.stale", event_id=claim.event_id)
        return None
    failpoint("legacy_end.after_commit")
    log.info("legacy.ended", event_id=claim.event_id, status=status, failure=verdict.failure)
    return status


def conclude(claim: EventClaim, verdict: Verdict, *, chance: Callable[[], float] = random.random) -> EventStatus:
    """End an execution: the Event by its token, then what mirrors it, then a projection's successor, then its receipt.

    Args:
        claim: The live claim.
        verdict: How it ended.
        chance: A source of numbers from 0 to 1.

    Returns:
        The Event's status.

    Raises:
        StaleClaim: The claim is no longer live; nothing was changed.
        Busy: A lock was not free in time, or the database does not answer.
        CommitUnknown: The database did not say and could not be asked.

    Locks: EVENT, WORK_ITEM.
    Rule: A-35, C-05.
    """
    route = route_of(claim.event)
    end = decide_end(verdict.ended, verdict.failure, attempt=claim.attempt, max_attempts=route.retry.max_attempts)
    is_terminal = end.status in TERMINAL_EVENT_STATUSES
    capabilities = read_capabilities()
    params: dict[str, object] = {
        "event_id": claim.event_id,
        "claim_token": claim.token,
        "last_error": end.last_error,
    }
    if is_terminal:
        params |= {"status": end.status.value, "failure_count": int(end.failure is not None)}
    else:
        params["delay_microseconds"] = as_microseconds(_wait(route, claim.attempt, verdict, chance()))

    def unit(tx: Tx) -> EventStatus:
        event = lock_executed_event(tx, claim.event_id)
        if event is None or tx.execute(legacy.END_EVENT if is_terminal else legacy.FAIL_EVENT, params) != 1:
            raise errors.StaleClaim(event_id=claim.event_id)
        failpoint("legacy_end.after_event")
        if is_terminal:
            converge(event, end.status, capabilities)
            write_outcome(event, end.status, claim.rollback_fence_id)
        failpoint("legacy_end.before_commit")
        return end.status

    return db.run(unit, name="legacy.finish", settle=lambda reader: _find_end(reader, claim, end))


def _find_end(reader: Reader, claim: EventClaim, end: End) -> EventStatus | None:
    """Return the status when the end was stored, or None while the claim is live and nothing of it was stored."""
    row = reader.fetch_one(legacy.READ_EVENT_CLAIM, {"event_id": claim.event_id})
    if row is not None and row["ClaimToken"] == claim.token:
        return None
    # Only this claim and whoever takes back what is lost move a claimed Event, and the latter says so.
    lost = SUMMARIES[FailureClass.LEASE_LOST]
    if row is None or row["Status"] != end.status or row["LastError"] == lost:
        raise errors.StaleClaim(event_id=claim.event_id)
    return end.status


def _wait(route: EventRoute, attempt: int, verdict: Verdict, chance: float) -> float:
    rule = route.retry
    if verdict.after_seconds is not None:
        return min(max(verdict.after_seconds, 0.0), rule.cap_seconds)
    policy = RetryPolicy(
        base_seconds=rule.base_seconds, factor=rule.factor, cap_seconds=rule.cap_seconds, jitter=rule.jitter
    )
    return decide_delay(policy, attempt, chance=chance)
