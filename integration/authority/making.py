"""Writing a replay: the reservation, the mirror's end, the child's Event and WorkItem, the audit entry; in this order.

All of it in the transaction that holds the locks; whatever fails takes everything back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record
from integration.authority import child, gather
from integration.authority.facts import Facts
from integration.authority.locked import Held
from integration.authority.values import OwnerKind, Ref, RefKind, Refused, Replayed
from integration.authority.verdicts import find_owner, makes_work_item
from integration.catalog.reads import RouteDefinition
from integration.failpoints import failpoint
from integration.projection.admission import advance_ordinals, first_ordinal
from integration.states import ExecutionClass, WorkItemState
from integration.storage.sql import events, replays, work_items
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.values import Actor


class ReservationTaken(errors.ConcurrentChange):
    """Somebody else replayed the row first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of `replay`. The child's ids are chosen once, so that an unknown COMMIT can be settled by them."""

    ref: Ref
    actor: Actor
    reason: str
    route: int | None
    request_digest: str | None
    child_work_id: str
    child_event_id: str


def make(held: Held, request: Request) -> Replayed:
    """Write everything that a replay writes.

    Args:
        held: The locked rows, which no rule refuses.
        request: The call.

    Returns:
        The child.

    Raises:
        ReservationTaken: A reservation matched nothing.
        OrdinalsExhausted: The incarnation has no ordinals left.

    Locks: none; it holds PACK, EVENT and WORK_ITEM.
    Rule: A-04, A-05, A-08, A-22, A-33.
    """
    tx, route = held.pack.tx, held.route
    if route is None:
        raise errors.InvariantBroken
    clock = tx.fetch_one(READ_DATABASE_TIME)
    if clock is None:
        raise errors.InvariantBroken
    now: datetime = clock["Now"]
    _reserve(held, now)
    failpoint("replay.reserved")
    ordinal = first_ordinal(held.pack, 1)
    advance_ordinals(held.pack, ordinal, 1)
    shared = child.shared_values(held.pack, held.event, route, event_id=request.child_event_id, ordinal=ordinal)
    made = child.event_values(held.event, route, request.child_event_id)
    tx.execute(events.INSERT_REPLAY_EVENT, {**shared, **made})
    failpoint("replay.event_inserted")
    has_work_item = makes_work_item(held.facts)
    if has_work_item:
        _insert_work_item(held, route, {**shared, "work_id": request.child_work_id, "now": now})
        failpoint("replay.work_item_inserted")
    replayed = Replayed(
        original=gather.original_of(held.facts),
        original_event_id=held.event.event_id,
        child_work_id=request.child_work_id if has_work_item else None,
        child_event_id=request.child_event_id,
        pack_install_id=held.pack.pack_install_id,
        route_id=route.route_id,
        route_version=route.route_version,
        lane_ordinal=ordinal,
        replayed_at=now,
    )
    record(held.pack, _done_fact(held, request, replayed))
    failpoint("replay.recorded")
    return replayed


def _reserve(held: Held, now: datetime) -> None:
    """Reserve the original where its authority is, and end a mirror with its Event.

    Raises:
        ReservationTaken: Somebody else did.
    """
    tx, item, owner = held.pack.tx, held.item, find_owner(held.facts)
    if owner is None or owner.kind is OwnerKind.AMBIGUOUS:
        raise errors.InvariantBroken
    params = {"event_id": held.event.event_id, "now": now, "work_id": None if item is None else item.work_id}
    if owner.kind is OwnerKind.WORK_ITEM:
        _demand_one(tx.execute(work_items.RESERVE_REPLAY, params))
        return
    _demand_one(tx.execute(replays.RESERVE_EVENT_REPLAY, params))
    if item is None:
        return
    is_dead = item.row["State"] == WorkItemState.DEAD
    if held.facts.schema.has_additive:
        _demand_one(tx.execute(replays.RESERVE_DEAD_MIRROR if is_dead else replays.END_MIRROR, params))
    elif not is_dead:
        _demand_one(tx.execute(replays.END_MIRROR_OF_OLD_SCHEMA, params))


def _demand_one(matched: int) -> None:
    if matched != 1:
        raise ReservationTaken


def _insert_work_item(held: Held, route: RouteDefinition, shared: dict[str, Any]) -> None:
    """Insert the child's WorkItem: a new generation; of an Event that had none, without WorkItem lineage."""
    tx, facts = held.pack.tx, held.facts
    generation = 1 if facts.cutover is None else facts.cutover.owner_generation
    values = {**shared, **child.work_item_values(held.pack, route, owner_generation=generation)}
    lineage = {"replay_of_work_id": None if held.item is None else held.item.work_id}
    if not facts.schema.has_additive:
        fresh = {"subject_id": values["event_id"], "state": "pending", "attempt": 0, "ownership_epoch": 0}
        tx.execute(work_items.INSERT_WORK_ITEMS, {**values, **fresh})
    elif facts.execution_class is ExecutionClass.SOURCE_PROJECTION:
        made = child.generation_values(held.event, route)
        tx.execute(replays.INSERT_REPLAY_GENERATION, {**values, **lineage, **made})
    else:
        made = {**lineage, "subject_id": values["event_id"]}
        tx.execute(work_items.INSERT_REPLAY_WORK_ITEM, {**values, **made})


def _done_fact(held: Held, request: Request, replayed: Replayed) -> AuditFact:
    is_event = replayed.original.kind is RefKind.EVENT
    event = held.event.row
    return AuditFact(
        action="event.replayed" if is_event else "work_item.replayed",
        outcome=AuditOutcome.DONE,
        actor=request.actor,
        ref_kind=replayed.original.kind.value,
        ref_id=replayed.original.id,
        org_id=held.pack.row["OrgId"],
        namespace=event["Namespace"],
        pack_install_id=held.pack.pack_install_id,
        event_kind=event["EventKind"],
        reason=request.reason,
        facts={
            "event_id": held.event.event_id,
            "child_work_id": replayed.child_work_id,
            "child_event_id": replayed.child_event_id,
            "route_id": replayed.route_id,
            "route_version": replayed.route_version,
            "admitted_under": event["RouteVersion"],
            "lane_ordinal": replayed.lane_ordinal,
            "request": request.request_digest,
            **({"mirror_work_id": held.item.work_id} if is_event and held.item is not None else {}),
        },
    )


def refusal_fact(request: Request, refused: Refused, facts: Facts) -> AuditFact:
    """Return what the trail keeps of a replay that did not happen."""
    owner, event, winner = find_owner(facts), facts.event, refused.winner
    is_event = owner is not None and owner.kind is OwnerKind.EVENT
    return AuditFact(
        action="event.replayed" if is_event else "work_item.replayed",
        outcome=AuditOutcome.LOST if refused.code == "lost_race" else AuditOutcome.REFUSED,
        actor=request.actor,
        ref_kind=(RefKind.EVENT if is_event else RefKind.WORK_ITEM).value,
        ref_id=gather.audited_id(facts) or request.ref.id,
        org_id=None if event is None else event.org_id,
        namespace=None if event is None else event.namespace,
        pack_install_id=None if facts.pack is None else facts.pack.pack_install_id,
        event_kind=None if event is None else event.event_kind,
        reason=request.reason,
        facts={
            "code": refused.code,
            "event_id": None if event is None else event.event_id,
            "winner": None if winner is None else winner.actor_name,
            "child_work_id": None if winner is None else winner.child_work_id,
        },
    )
