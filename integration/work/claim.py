"""The claim: the row compare-and-swap that installs a lease token and a new ownership epoch."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from django.db import IntegrityError

from integration.errors import ConcurrentChange, IntegrationError
from integration.failpoints import failpoint
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import LockedProcess, lock_events_for_claim
from integration.storage.sql import attempts
from integration.storage.statements import Statement
from integration.values import EventId
from integration.work import blocking, metrics
from integration.work.candidates import CandidateQueue
from integration.work.families import Family
from integration.work.items import Candidate
from integration.work.process import ClaimFenced, Fence, WorkerProcess, lock_fence

LEASE_SECONDS: Final = 60
#: FIRST_CLAIM matches the Event and the WorkItem of each item.
_BOTH_ROWS: Final = 2
_TOKEN_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A live claim: the token and the epoch that every transition of the row must name.

    Attributes:
        item: What was claimed, as it was read before the claim.
        attempt: The number of this attempt, from 1.
        epoch: The ownership epoch that this claim installed.
        lease_token: The secret that makes the claim this process's; never shown.
        lease_owner: The process row under which it was claimed.
        lease_seconds: How long the lease runs from the claim or its last renewal.
        event: What the execution reads of the Event, if the claim has locked it; the payload is still sealed.
    """

    item: Candidate
    attempt: int
    epoch: int
    lease_token: str = field(repr=False)
    lease_owner: str
    lease_seconds: int
    event: Row | None = field(default=None, repr=False)

    @property
    def work_id(self) -> str:
        """The generation that was claimed."""
        return self.item.work_id

    @property
    def is_last(self) -> bool:
        """Whether the attempts are used up with this one."""
        return self.attempt >= self.item.max_attempts


class LostWhy(StrEnum):
    """Why a claim was not had."""

    #: Another claimed, changed or ended the row first.
    RACE = "race"
    #: An item of the same target lane is claimed.
    TARGET_LANE = "target_lane"
    #: This process may not claim from the pack.
    FENCED = "fenced"


class _Lost(ConcurrentChange):
    """No row was won; the transaction is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What one claim transaction came to.

    Attributes:
        claims: The claims that are stored.
        lost: Why the others were not had; None when every one was.
    """

    claims: tuple[Claim, ...] = ()
    lost: LostWhy | None = None


def claim(items: Sequence[Candidate], fence: Fence, *, lease_seconds: int = LEASE_SECONDS) -> Claimed:
    """Try to claim items in one transaction.

    The steps: lock the process's own row and check its fence; lock the Events, for first claims; swap the rows;
    close the earlier attempt, and insert this one.

    Args:
        items: Candidates that were read without a lock, of one `batch` and no two of one lane.
        fence: The process's row for the items' pack.
        lease_seconds: How long the leases run, by the database's clock.

    Returns:
        The claims that were won. When nothing is won, nothing is stored.

    Raises:
        Busy: A lock was not free in time, or the database does not answer.
        CommitUnknown: The database does not say whether the claims were stored; their leases then expire.

    Locks: PROCESS, EVENT, WORK_ITEM, ATTEMPT.
    Rule: K-01, K-05.
    """
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    wanted = {
        item.work_id: Claim(
            item=item,
            attempt=item.attempt + 1,
            epoch=item.epoch + 1,
            lease_token=token,
            lease_owner=fence.process_id,
            lease_seconds=lease_seconds,
        )
        for item in items
    }

    def unit(tx: Tx) -> Claimed:
        process = lock_fence(tx, fence)
        won = _claim_first(tx, process, wanted) if items[0].is_first else _claim_later(tx, wanted)
        if not won:
            raise _Lost
        return Claimed(claims=tuple(won), lost=LostWhy.RACE if len(won) < len(wanted) else None)

    def settle(reader: Reader) -> Claimed | None:
        # The Events' payloads are read again by the execution.
        won = _won(reader, wanted)
        return Claimed(claims=tuple(won), lost=LostWhy.RACE if len(won) < len(wanted) else None) if won else None

    failpoint("claim.before")
    try:
        claimed = db.run(unit, name="work.claim", settle=settle)
    except _Lost:
        claimed = Claimed(lost=LostWhy.RACE)
    except ClaimFenced:
        claimed = Claimed(lost=LostWhy.FENCED)
    except IntegrityError:
        # Only the unique key of the target lane can be taken by another.
        claimed = Claimed(lost=LostWhy.TARGET_LANE)
    if claimed.claims:
        failpoint("claim.after_commit")
        metrics.CLAIMS.labels("claimed").inc(len(claimed.claims))
    if claimed.lost is not None:
        metrics.CLAIMS.labels(claimed.lost).inc(len(wanted) - len(claimed.claims))
    return claimed


def claim_some(
    process: WorkerProcess,
    queue: CandidateQueue,
    limit: int,
    *,
    tries: int = 16,
    lease_seconds: int = LEASE_SECONDS,
) -> list[Claim]:
    """Claim the next items that this process can have, in one transaction if it can be.

    Args:
        process: The claimant.
        queue: Its candidates.
        limit: How many at most: as many as can be run at once.
        tries: How many transactions are tried before the caller may look at the clock again.
        lease_seconds: How long the leases run.

    Returns:
        At least one claim, or nothing when nothing is due or every try was lost.

    Locks: as `claim`.
    """
    for _ in range(tries):
        items = queue.take(limit)
        if not items:
            return []
        fence = process.fence_for(items[0].pack_install_id)
        items = [] if fence is None else blocking.hold_back(items)
        if fence is None or not items:
            continue
        claimed = claim(items, fence, lease_seconds=lease_seconds)
        if claimed.lost is LostWhy.TARGET_LANE and len(items) > 1:
            # One taken lane undid them all.
            claimed = _one_by_one(items, fence, lease_seconds)
        if claimed.lost is LostWhy.FENCED:
            process.drop_fence(fence)
            queue.forget()
        if claimed.lost is LostWhy.RACE:
            process.has_raced = True
        if claimed.claims:
            return list(claimed.claims)
    return []


def claim_next(process: WorkerProcess, queue: CandidateQueue, *, lease_seconds: int = LEASE_SECONDS) -> Claim | None:
    """Claim the next item that this process can have; as `claim_some` with a limit of one."""
    found = claim_some(process, queue, 1, lease_seconds=lease_seconds)
    return found[0] if found else None


def renew(claim: Claim) -> bool:
    """Extend a lease from now.

    Args:
        claim: The live claim.

    Returns:
        False when the claim is no longer live: its token or epoch was replaced.

    Locks: WORK_ITEM.
    Rule: K-02.
    """
    params = {
        "work_id": claim.work_id,
        "lease_token": claim.lease_token,
        "epoch": claim.epoch,
        "lease_seconds": claim.lease_seconds,
    }
    return db.execute_alone(claim.item.family.statements.renew_lease, params) == 1


def _one_by_one(items: Sequence[Candidate], fence: Fence, lease_seconds: int) -> Claimed:
    claims: list[Claim] = []
    lost = None
    for item in items:
        try:
            single = claim((item,), fence, lease_seconds=lease_seconds)
        except IntegrationError:
            if not claims:
                raise
            # What was won is live and is run now; the next claim meets the trouble again.
            break
        claims += single.claims
        lost = single.lost or lost
    return Claimed(claims=tuple(claims), lost=lost)


def _claim_first(tx: Tx, process: LockedProcess, wanted: Mapping[str, Claim]) -> list[Claim]:
    first = next(iter(wanted.values()))
    if not first.item.family.is_event_backed:
        return _claim_alone(tx, first.item.family.statements.first_claim, wanted)
    event_ids = tuple(claim.item.event_id for claim in wanted.values())
    events = {event.event_id: event.row for event in lock_events_for_claim(process, event_ids)}
    if not events:
        return []
    matched = tx.execute(
        first.item.family.statements.first_claim,
        {**_lease_params(first), "event_ids": event_ids, "work_ids": tuple(wanted)},
    )
    if not matched:
        return []
    won = list(wanted.values()) if matched == _BOTH_ROWS * len(wanted) else _won(tx, wanted)
    _insert_attempts(tx, wanted)
    return [replace(claim, event=events[EventId(claim.item.event_id)]) for claim in won]


def _claim_alone(tx: Tx, statement: Statement, wanted: Mapping[str, Claim]) -> list[Claim]:
    """Claim by a statement that touches the WorkItems alone."""
    first = next(iter(wanted.values()))
    params = {**_lease_params(first), "work_ids": tuple(sorted(wanted)), "attempt": first.item.attempt}
    matched = tx.execute(statement, params)
    if not matched:
        return []
    if first.item.is_first:
        _insert_attempts(tx, wanted)
    return list(wanted.values()) if matched == len(wanted) else _won(tx, wanted)


def _claim_later(tx: Tx, wanted: Mapping[str, Claim]) -> list[Claim]:
    won = _claim_alone(tx, _family_of(wanted).statements.later_claim, wanted)
    for claim in sorted(won, key=lambda claim: claim.work_id):
        tx.execute(
            attempts.CLOSE_EXECUTION_ATTEMPT,
            {
                "work_id": claim.work_id,
                "attempt": claim.item.attempt,
                "outcome": claim.item.last_outcome,
                "finished_at": claim.item.last_ended_at,
            },
        )
    if won:
        _insert_attempts(tx, wanted)
    return won


def _family_of(wanted: Mapping[str, Claim]) -> Family:
    return next(iter(wanted.values())).item.family


def _insert_attempts(tx: Tx, wanted: Mapping[str, Claim]) -> None:
    tx.execute(_family_of(wanted).statements.insert_attempts, _token_params(wanted))


def _won(reader: Reader, wanted: Mapping[str, Claim]) -> list[Claim]:
    """Read back which rows carry the token of this claim."""
    rows = reader.fetch_all(_family_of(wanted).statements.list_claimed_by_token, _token_params(wanted))
    return [wanted[row["WorkId"]] for row in rows]


def _token_params(wanted: Mapping[str, Claim]) -> dict[str, object]:
    return {"work_ids": tuple(wanted), "lease_token": next(iter(wanted.values())).lease_token}


def _lease_params(claim: Claim) -> dict[str, object]:
    return {
        "epoch": claim.item.epoch,
        "process_id": claim.lease_owner,
        "lease_token": claim.lease_token,
        "lease_seconds": claim.lease_seconds,
    }
