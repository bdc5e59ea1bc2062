"""How a claimed execution ends: one statement each, guarded by token and epoch, one commit.

None of them writes another table: the last attempt's end is derived from the WorkItem. The end of a projection's
generation also gives its active key to the queued successor, in a later statement of the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

import structlog

from integration import errors
from integration.projection.handoff import end_generation
from integration.states import TERMINAL_STATES, FailureClass, WorkItemState
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.statements import Statement
from integration.work import metrics
from integration.work.claim import Claim
from integration.work.families import Family
from integration.work.policy import as_microseconds

#: The kernel's own words; nothing that a flow says is stored.
SUMMARIES: Final[dict[FailureClass, str]] = {
    FailureClass.FLOW_ERROR: "The flow raised an error.",
    FailureClass.FLOW_RETRY: "The flow asked to be tried again.",
    FailureClass.FLOW_REJECTED: "The flow rejected the input.",
    FailureClass.FLOW_UNKNOWN: "No flow of this name and version is registered.",
    FailureClass.PAYLOAD_UNREADABLE: "The payload could not be opened.",
    FailureClass.INPUTS_MISSING: "An input of the range is not there.",
    FailureClass.LEASE_LOST: "The lease ran out before the execution finished.",
    FailureClass.RELEASED: "The process stopped before it ran this item.",
}
_UNKNOWN_TRIES: Final = 5
log = structlog.get_logger(__name__)


class Ended(StrEnum):
    """The transition by which an execution ended."""

    COMPLETE = "complete"
    SKIP = "skip"
    RETRY = "retry"
    BURY = "bury"
    ACKNOWLEDGE_CANCEL = "acknowledge_cancel"


# A series that begins with its first count has no increase that an alert could see.
for _ended in Ended:
    metrics.FINISHED.labels(_ended)
#: The ends that `finish_many` stores.
STORED_TOGETHER: Final = frozenset({Ended.COMPLETE, Ended.SKIP})
#: The ends whose states the reaper reaches, too.
_REAPABLE: Final = frozenset({Ended.RETRY, Ended.BURY})
_TARGETS: Final[dict[Ended, WorkItemState]] = {
    Ended.COMPLETE: WorkItemState.SUCCEEDED,
    Ended.SKIP: WorkItemState.SKIPPED,
    Ended.RETRY: WorkItemState.RETRY,
    Ended.BURY: WorkItemState.DEAD,
    Ended.ACKNOWLEDGE_CANCEL: WorkItemState.CANCELLED,
}


def complete(claim: Claim) -> Ended:
    """End a claim as succeeded.

    Args:
        claim: The live claim.

    Returns:
        The transition that was made.

    Raises:
        StaleClaim: The claim is no longer live; nothing was changed.
        Busy: The database does not answer; nothing was changed by this call.
        CommitUnknown: The database did not say and could not be asked.

    Locks: WORK_ITEM; for a projection its successor too.
    Rule: A-25, K-02, P-24.
    """
    return _end(claim, Ended.COMPLETE)


def finish_many(claims: Sequence[Claim], ended: Ended) -> frozenset[str]:
    """End claims of one claim transaction, none of them of a projection, in one statement.

    Args:
        claims: Claims of one token and epoch.
        ended: `complete` or `skip`.

    Returns:
        The WorkIds that ended so; the others were no longer live and are unchanged.

    Raises:
        Busy: The database does not answer; nothing was changed by this call.
        CommitUnknown: The database did not say and could not be asked.

    Locks: WORK_ITEM, by id, sorted.
    Rule: A-25, K-02.
    """
    work_ids = tuple(sorted(claim.work_id for claim in claims))
    facts = {"work_ids": work_ids, "lease_token": claims[0].lease_token, "epoch": claims[0].epoch}
    try:
        matched = db.execute_alone(_statement_of_many(claims[0].item.family, ended), facts)
    except errors.CommitUnknown:
        log.warning("work.commit_unknown", count=len(work_ids), transition=ended)
        matched = -1
    if matched == len(work_ids):
        found = frozenset(work_ids)
    else:
        # Within an epoch only the claim's own token makes this state.
        rows = db.read().fetch_all(
            claims[0].item.family.statements.list_ended,
            {"work_ids": work_ids, "epoch": facts["epoch"], "state": _TARGETS[ended]},
        )
        found = frozenset(row["WorkId"] for row in rows)
        if matched < 0 and not found:
            # Either it was not stored, or no claim was live: the same statement again tells.
            raise errors.CommitUnknown
        metrics.STALE.inc(len(work_ids) - len(found))
    metrics.FINISHED.labels(ended).inc(len(found))
    return found


def release(claim: Claim) -> bool:
    """Give back a claim that was never run, as though it had not been made, but for its number.

    The attempt's number is spent, so the item may make one more.

    Args:
        claim: The live claim.

    Returns:
        False when it was no longer live; nothing was changed.

    Locks: WORK_ITEM.
    Rule: K-02, K-08.
    """
    params = {**_claim_key(claim), **_failure_facts(FailureClass.RELEASED)}
    return db.execute_alone(claim.item.family.statements.release, params) == 1


def skip(claim: Claim) -> Ended:
    """End a claim as skipped: the flow found nothing to do. Otherwise as `complete`."""
    return _end(claim, Ended.SKIP)


def retry(claim: Claim, failure: FailureClass, *, after_seconds: float) -> Ended:
    """Give an item back for a later attempt, or bury it when its attempts are used up.

    Args:
        claim: The live claim.
        failure: Why the attempt failed.
        after_seconds: The earliest time of the next claim, from now by the database's clock.

    Returns:
        `retry`; `bury` after the last attempt; `acknowledge_cancel` when a cancellation was requested.

    Raises:
        StaleClaim: The claim is no longer live; nothing was changed.

    Locks: WORK_ITEM.
    Rule: A-25, K-02, K-05.
    """
    if claim.is_last:
        return bury(claim, failure)
    facts = {**_failure_facts(failure), "delay_microseconds": as_microseconds(after_seconds)}
    try:
        return _end(claim, Ended.RETRY, facts)
    except errors.StaleClaim:
        if _is_cancel_requested(claim):
            return acknowledge_cancel(claim)
        raise


def bury(claim: Claim, failure: FailureClass) -> Ended:
    """End a claim as dead: its attempts are used up, or the flow rejected the input. Otherwise as `complete`."""
    return _end(claim, Ended.BURY, _failure_facts(failure))


def acknowledge_cancel(claim: Claim) -> Ended:
    """End a claim as cancelled, as an operator asked. Otherwise as `complete`."""
    return _end(claim, Ended.ACKNOWLEDGE_CANCEL)


def _statement_of(family: Family, ended: Ended) -> Statement:
    match ended:
        case Ended.COMPLETE:
            return family.statements.complete
        case Ended.SKIP:
            return family.statements.skip
        case Ended.RETRY:
            return family.statements.retry
        case Ended.BURY:
            return family.statements.bury
        case Ended.ACKNOWLEDGE_CANCEL:
            return family.statements.acknowledge_cancel


def _statement_of_many(family: Family, ended: Ended) -> Statement:
    return family.statements.complete_many if ended is Ended.COMPLETE else family.statements.skip_many


def _failure_facts(failure: FailureClass) -> dict[str, object]:
    return {"failure_class": failure, "failure_summary": SUMMARIES[failure]}


def _claim_key(claim: Claim) -> dict[str, object]:
    return {"work_id": claim.work_id, "lease_token": claim.lease_token, "epoch": claim.epoch}


def _end(claim: Claim, ended: Ended, facts: dict[str, object] | None = None) -> Ended:
    params = {**_claim_key(claim), **(facts or {})}
    projection_key = claim.item.projection_key
    if projection_key is not None and _TARGETS[ended] in TERMINAL_STATES:
        stored = _end_projection(claim, ended, params, projection_key)
    else:
        stored = _settled(lambda: db.execute_alone(_statement_of(claim.item.family, ended), params) == 1, claim, ended)
    if not stored:
        metrics.STALE.inc()
        raise errors.StaleClaim(work_id=claim.work_id)
    metrics.FINISHED.labels(ended).inc()
    return ended


def _settled(write: Callable[[], bool], claim: Claim, ended: Ended) -> bool:
    """Write once, and after an unanswered commit find out by token and epoch what became of it."""
    for _ in range(_UNKNOWN_TRIES):
        try:
            return write()
        except errors.CommitUnknown:
            log.warning("work.commit_unknown", work_id=claim.work_id, transition=ended)
            stored = _find_end(db.read(), claim, ended)
            if stored is not None:
                return stored
    raise errors.CommitUnknown(work_id=claim.work_id)


def _end_projection(claim: Claim, ended: Ended, params: dict[str, object], projection_key: str) -> bool:
    """End a generation and hand its key on in one transaction; both are stored or neither is."""

    def unit(tx: Tx) -> bool:
        return end_generation(tx, _statement_of(claim.item.family, ended), params, projection_key=projection_key)

    return db.run(unit, name="work.finish", settle=lambda reader: _find_end(reader, claim, ended))


def _find_end(reader: Reader, claim: Claim, ended: Ended) -> bool | None:
    """Return whether a claim ended as it was to, or None while it is live and nothing of it was stored."""
    row = reader.fetch_one(claim.item.family.statements.read_claim_facts, {"work_id": claim.work_id})
    if row is None or row["OwnershipEpoch"] != claim.epoch:
        return False
    if row["LeaseToken"] != claim.lease_token:
        # Only this claim and the reaper move a row within its epoch, and where the reaper may move it, it says so. An
        # end that writes no failure leaves that of an earlier attempt.
        is_reaped = ended in _REAPABLE and row["FailureClass"] == FailureClass.LEASE_LOST
        return bool(row["State"] == _TARGETS[ended] and not is_reaped)
    return None


def _is_cancel_requested(claim: Claim) -> bool:
    row = db.read().fetch_one(claim.item.family.statements.read_claim_facts, {"work_id": claim.work_id})
    return bool(row and row["LeaseToken"] == claim.lease_token and row["CancelRequestedAt"] is not None)
