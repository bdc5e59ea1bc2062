"""Cancel work: at once while it waits, by asking its claimant while it runs.

What waits is ended by one guarded write under the pack's lock, together with the Event that nobody has executed.
What runs is only asked to stop: the flow sees it, and its claimant ends the claim, or finishes first and wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome, check_reason
from integration.audit.service import record, record_alone
from integration.authority.values import REPLAY_PERMISSION, VIEW_PERMISSION, Ref, RefKind
from integration.projection.handoff import end_generation
from integration.scopes import Scope
from integration.states import TERMINAL_STATES, ExecutionOwner, WorkItemState, stored
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.storage.locks import (
    LockedEvent,
    LockedPack,
    LockedWorkItem,
    lock_event,
    lock_pack,
    lock_work_items_of_event,
)
from integration.storage.sql import cancellations
from integration.values import Actor

ACTION: Final = "work_item.cancelled"
#: What waits ends at once; what runs is asked.
CANCELLABLE_STATES: Final = frozenset(
    {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED, WorkItemState.PROCESSING}
)


class CancelRefusalCode(StrEnum):
    """Why work is not cancelled."""

    #: It has ended; what ended never changes.
    ALREADY_ENDED = "already_ended"
    #: A rollback holds it until the legacy executor has decided.
    FENCED = "fenced"
    #: The Event executor runs its Event, or has decided about it.
    EVENT_TAKEN = "event_taken"


class CancelRefused(errors.Refused):
    """A rule refuses the cancellation; nothing was changed."""

    def __init__(self, code: CancelRefusalCode, sentence: str, **data_fields: object) -> None:
        """Keep the code that names the rule."""
        self.refusal_code = code
        super().__init__(sentence, refusal=code.value, **data_fields)


class CancelOutcome(StrEnum):
    """How far a cancellation came."""

    #: The work has ended.
    CANCELLED = "cancelled"
    #: Its claimant was asked, and will end it or finish first.
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What a cancellation did.

    Attributes:
        work_id: The generation.
        outcome: Ended, or asked for.
        was: The state that it was found in.
        attempt: How many attempts it had used.
    """

    work_id: str
    outcome: CancelOutcome
    was: WorkItemState
    attempt: int


def cancel(ref: Ref, *, actor: Actor, reason: str, using: str = "default") -> Cancellation:
    """Cancel one WorkItem, or ask the process that runs it to.

    The steps: lock the pack, the Event and its WorkItems; decide by the state under the locks; end the row and hand
    a projection's key on, or note the request; write the audit entry. All in one transaction.

    Args:
        ref: The WorkItem; an EventId names the one that it has.
        actor: Who asks, with the permissions of this moment; work where he may not view is not found.
        reason: Why, 1 to 500 characters on one line; it goes into the audit trail.
        using: The database alias.

    Returns:
        What was done.

    Raises:
        InvalidInput: The reason is not valid.
        NotAllowed: The actor may not view and replay there.
        WorkItemNotFound: There is none of this id.
        CancelRefused: It has ended, a rollback holds it, or the Event executor has its Event.
        Busy: The rows were locked by others in every try; nothing was written.
        CommitUnknown: The database does not say whether it was stored; ask again, it is safe.

    Locks: PACK, EVENT, WORK_ITEM.
    Rule: K-08.
    """
    text = check_reason(reason)
    found: Row | None = None
    try:
        _demand_permissions(actor)
        found = row = _find(ref, actor.reach(VIEW_PERMISSION), using)
        _demand_permissions(actor, row["Namespace"])
        return db.run(lambda tx: _cancel_locked(tx, row, actor, text), name="authority.cancel", using=using)
    except (errors.NotAllowed, errors.NotFound, CancelRefused) as error:
        record_alone(_refusal_fact(ref, found, actor, text, error), using=using)
        raise


def _demand_permissions(actor: Actor, namespace: str | None = None) -> None:
    """Refuse who may not view and replay: anywhere, and once the row is read, in its namespace."""
    for reach in map(actor.reach, (VIEW_PERMISSION, REPLAY_PERMISSION)):
        if not (reach if namespace is None else reach.covers(namespace)):
            raise errors.NotAllowed


def _find(ref: Ref, within: Scope, using: str) -> Row:
    reader = db.read(using)
    row = None
    if ref.kind is not RefKind.EVENT:
        row = reader.fetch_one(cancellations.FIND_WORK_TO_CANCEL, {"work_id": ref.id})
    if row is None and ref.kind is not RefKind.WORK_ITEM:
        rows = reader.fetch_all(cancellations.LIST_WORK_OF_EVENT_TO_CANCEL, {"event_id": ref.id})
        row = rows[0] if len(rows) == 1 else None
    if row is None or not within.covers(row["Namespace"]):
        raise errors.WorkItemNotFound
    return row


def _cancel_locked(tx: Tx, found: Row, actor: Actor, reason: str) -> Cancellation:
    pack = lock_pack(tx, found["PackInstallId"])
    event = lock_event(pack, found["EventId"])
    items = [item for item in lock_work_items_of_event(event) if item.work_id == found["WorkId"]]
    if not items:
        # A projection moved on to a newer Event between the read and the lock.
        raise errors.ConcurrentChange
    item = items[0]
    was = stored(WorkItemState, item.row["State"])
    _check(was, event.row)
    if was is WorkItemState.PROCESSING:
        outcome = CancelOutcome.REQUESTED
        if tx.execute(cancellations.REQUEST_CANCEL, _params(item, actor)) != 1:
            raise errors.UnexpectedRowCount
    else:
        outcome = CancelOutcome.CANCELLED
        _end(tx, event, item, actor)
    done = Cancellation(work_id=item.work_id, outcome=outcome, was=was, attempt=item.row["Attempt"])
    record(pack, _done_fact(pack, event, actor, reason, done))
    return done


def _end(tx: Tx, event: LockedEvent, item: LockedWorkItem, actor: Actor) -> None:
    is_mirror = item.row["Attempt"] == 0 and event.row["ExecutionOwner"] == ExecutionOwner.EVENT
    if is_mirror and tx.execute(cancellations.SKIP_CANCELLED_EVENT, {"event_id": event.event_id}) != 1:
        message = "The Event executor runs this Event or has ended it; its WorkItem follows it."
        raise CancelRefused(CancelRefusalCode.EVENT_TAKEN, message)
    key = item.row["ProjectionKey"]
    if not end_generation(tx, cancellations.CANCEL_WORK_ITEM, _params(item, actor), projection_key=key):
        # Its state and epoch are locked; only the fence can stand against it.
        raise _fenced(stored(WorkItemState, item.row["State"]))


def _check(was: WorkItemState, event: Row) -> None:
    """Refuse what no cancellation may change."""
    if was in TERMINAL_STATES:
        message = f"This work has ended as {was}; what ended never changes."
        raise CancelRefused(CancelRefusalCode.ALREADY_ENDED, message, state=was.value)
    if was not in CANCELLABLE_STATES:
        raise _fenced(was)
    if event["ReplayedAt"] is not None:
        message = "The Event of this work was replayed; cancel the child."
        raise CancelRefused(CancelRefusalCode.EVENT_TAKEN, message, state=was.value)


def _fenced(was: WorkItemState) -> CancelRefused:
    message = "A rollback holds this work until the legacy executor has decided about it."
    return CancelRefused(CancelRefusalCode.FENCED, message, state=was.value)


def _params(item: LockedWorkItem, actor: Actor) -> dict[str, object]:
    return {"work_id": item.work_id, "epoch": item.row["OwnershipEpoch"], "actor_name": actor.name}


def _done_fact(pack: LockedPack, event: LockedEvent, actor: Actor, reason: str, done: Cancellation) -> AuditFact:
    return AuditFact(
        action=ACTION,
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind=RefKind.WORK_ITEM.value,
        ref_id=done.work_id,
        org_id=pack.row["OrgId"],
        namespace=event.row["Namespace"],
        pack_install_id=pack.pack_install_id,
        event_kind=event.row["EventKind"],
        reason=reason,
        facts={
            "event_id": event.event_id,
            "outcome": done.outcome.value,
            "was": done.was.value,
            "attempt": done.attempt,
        },
    )


def _refusal_fact(ref: Ref, found: Row | None, actor: Actor, reason: str, error: errors.IntegrationError) -> AuditFact:
    shown: Mapping[str, object] = error.data_fields
    return AuditFact(
        action=ACTION,
        outcome=AuditOutcome.REFUSED,
        actor=actor,
        ref_kind=RefKind.WORK_ITEM.value,
        ref_id=ref.id if found is None else found["WorkId"],
        namespace=None if found is None else found["Namespace"],
        pack_install_id=None if found is None else found["PackInstallId"],
        reason=reason,
        facts={"code": shown.get("refusal", error.code), "was": shown.get("state")},
    )
