"""The claim: the row compare-and-swap that installs a lease token and a new ownership epoch."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import structlog
from django.db import IntegrityError

from integration.errors import ConcurrentChange
from integration.failpoints import failpoint
from integration.states import AttemptOutcome
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.locks import LockedProcess, lock_event_for_claim
from integration.storage.sql import attempts, work_items
from integration.work import metrics
from integration.work.candidates import Candidate, CandidateQueue
from integration.work.process import ClaimFenced, Fence, WorkerProcess, lock_fence

LEASE_SECONDS: Final = 60
#: FIRST_CLAIM changes the Event and the WorkItem.
_BOTH_ROWS: Final = 2
_TOKEN_BYTES: Final = 24
log = structlog.get_logger(__name__)


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
    """

    item: Candidate
    attempt: int
    epoch: int
    lease_token: str = field(repr=False)
    lease_owner: str
    lease_seconds: int

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
    """The row changed before the claim; its transaction is undone."""


def claim(item: Candidate, fence: Fence, *, lease_seconds: int = LEASE_SECONDS) -> Claim | LostWhy:
    """Try to claim one item.

    The steps, in one transaction: lock the process's own row and check its fence; lock the Event, for a first
    claim; swap the row; close the earlier attempt and insert this one.

    Args:
        item: A candidate that was read without a lock.
        fence: The process's row for the item's pack.
        lease_seconds: How long the lease runs, by the database's clock.

    Returns:
        The claim, or why there is none; nothing is stored then.

    Raises:
        Busy: A lock was not free in time, or the database does not answer.
        CommitUnknown: The database does not say whether the claim was stored; its lease then expires.

    Locks: PROCESS, EVENT, WORK_ITEM, ATTEMPT.
    Rule: K-01, K-05.
    """
    wanted = Claim(
        item=item,
        attempt=item.attempt + 1,
        epoch=item.epoch + 1,
        lease_token=secrets.token_urlsafe(_TOKEN_BYTES),
        lease_owner=fence.process_id,
        lease_seconds=lease_seconds,
    )

    def unit(tx: Tx) -> Claim:
        process = lock_fence(tx, fence)
        if not (_claim_first if item.is_first else _claim_later)(tx, process, wanted):
            raise _Lost
        _record_attempt(tx, wanted)
        return wanted

    def settle(reader: Reader) -> Claim | None:
        row = reader.fetch_one(work_items.READ_CLAIM_FACTS, {"work_id": wanted.work_id})
        return wanted if row is not None and row["LeaseToken"] == wanted.lease_token else None

    failpoint("claim.before")
    lost: LostWhy
    try:
        stored = db.run(unit, name="work.claim", settle=settle)
    except _Lost:
        lost = LostWhy.RACE
    except ClaimFenced:
        lost = LostWhy.FENCED
    except IntegrityError:
        # Only the unique key of the target lane can be taken by another.
        lost = LostWhy.TARGET_LANE
    else:
        failpoint("claim.after_commit")
        metrics.CLAIMS.labels("claimed").inc()
        return stored
    metrics.CLAIMS.labels(lost).inc()
    return lost


def claim_next(
    process: WorkerProcess, queue: CandidateQueue, *, tries: int = 16, lease_seconds: int = LEASE_SECONDS
) -> Claim | None:
    """Claim the next item that this process can have.

    Args:
        process: The claimant.
        queue: Its candidates.
        tries: How many candidates are tried before the caller may look at the clock again.
        lease_seconds: How long the lease runs.

    Returns:
        A claim, or None when nothing is due or every try was lost.

    Locks: as `claim`.
    """
    for _ in range(tries):
        item = queue.next()
        if item is None:
            return None
        fence = process.fence_for(item.pack_install_id)
        if fence is None:
            continue
        result = claim(item, fence, lease_seconds=lease_seconds)
        if isinstance(result, Claim):
            return result
        if result is LostWhy.FENCED:
            process.drop_fence(fence)
            queue.forget()
    return None


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
    return db.execute_alone(work_items.RENEW_LEASE, params) == 1


def with_token(claim: Claim, lease_token: str) -> Claim:
    """Return the same claim under another token, as a claimant that is not its owner would present it."""
    return replace(claim, lease_token=lease_token)


def _claim_first(tx: Tx, process: LockedProcess, wanted: Claim) -> bool:
    if lock_event_for_claim(process, wanted.item.event_id) is None:
        return False
    matched = tx.execute(work_items.FIRST_CLAIM, {**_claim_params(wanted), "event_id": wanted.item.event_id})
    return matched == _BOTH_ROWS


def _claim_later(tx: Tx, process: LockedProcess, wanted: Claim) -> bool:
    del process
    return tx.execute(work_items.LATER_CLAIM, {**_claim_params(wanted), "attempt": wanted.item.attempt}) == 1


def _claim_params(wanted: Claim) -> dict[str, object]:
    return {
        "work_id": wanted.work_id,
        "epoch": wanted.item.epoch,
        "process_id": wanted.lease_owner,
        "lease_token": wanted.lease_token,
        "lease_seconds": wanted.lease_seconds,
        "target_lane_key": wanted.item.target_lane_key,
    }


def _record_attempt(tx: Tx, wanted: Claim) -> None:
    if wanted.item.attempt > 0:
        outcome = AttemptOutcome.LOST if wanted.item.lease_was_lost else AttemptOutcome.RETRY
        tx.execute(
            attempts.CLOSE_EXECUTION_ATTEMPT,
            {
                "work_id": wanted.work_id,
                "attempt": wanted.item.attempt,
                "outcome": outcome,
                "finished_at": wanted.item.last_failed_at,
            },
        )
    tx.execute(
        attempts.INSERT_EXECUTION_ATTEMPT,
        {"work_id": wanted.work_id, "attempt": wanted.attempt, "epoch": wanted.epoch},
    )
