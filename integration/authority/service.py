"""Plan a replay and do it.

A plan reads the facts without locks and shows every rule's verdict. A replay reads the ids so, locks the rows
in rank order, asks the same rules about the locked rows, and writes everything in one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from django.db import DataError, IntegrityError

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record, record_alone
from integration.authority import child, gather, policy, requests
from integration.authority.facts import EventFacts, Facts, PackFacts, WorkItemFacts
from integration.authority.lane_notes import lane_notes
from integration.authority.scope import lock_scope, range_notes
from integration.authority.values import (
    REPLAY_PERMISSION,
    VIEW_PERMISSION,
    OwnerKind,
    Plan,
    Ref,
    RefKind,
    Refused,
    Replayed,
    Ruling,
    Verdict,
)
from integration.catalog.reads import RouteDefinition
from integration.ingress.crypto import KeyUnavailable, SealBroken
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.locks import LockedEvent, LockedPack, LockedWorkItem, lock_events, lock_pack
from integration.storage.locks import lock_work_items_of_event as lock_work_items
from integration.storage.sql import events, packs, replays, work_items
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.storage.statements import LockRank
from integration.values import Actor, new_id

#: The ranks that a replay locks, in order.
LOCK_ORDER: Final = (LockRank.PACK, LockRank.EVENT, LockRank.WORK_ITEM)
#: Refusals that no lock can change: what would be locked is not there, or may not be looked at.
_FINAL_WITHOUT_LOCKS: Final = frozenset({"permission_denied", "not_found", "schema_unavailable"})
_TAKEN: Final = frozenset({"already_replayed", "lost_race"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """One call of `replay`. The child's ids are chosen once, so that an unknown COMMIT can be settled by them."""

    ref: Ref
    actor: Actor
    reason: str
    route: int | None
    request_digest: str | None
    child_work_id: str
    child_event_id: str


def plan(ref: Ref, actor: Actor, *, route: int | None = None, using: str = "default") -> Plan:
    """Say what a replay would do now, rule by rule; nothing is written.

    Args:
        ref: The row.
        actor: Who asks, with the permissions of this moment.
        route: The route version that the caller means to confirm.
        using: The database alias.

    Returns:
        Every rule's verdict in the replay's order, the first refusal, and where the child would go. Without the
        view permission nothing is read.

    Locks: none.
    """
    reader = db.read(using)
    found = gather.read_facts(reader, ref, _permissions(actor), route=route, using=using)
    verdicts = policy.judge(found.facts)
    refused = next((verdict for verdict in verdicts if verdict.ruling is Ruling.REFUSED), None)
    return Plan(
        ref=ref,
        owner=policy.find_owner(found.facts),
        verdicts=verdicts,
        refusal=None if refused is None else _refusal(refused, reader, found.facts),
        target=gather.target_of(found.facts),
        lock_order=tuple(rank.name for rank in LOCK_ORDER),
        notes=(
            *gather.notes_of(found),
            *lane_notes(db.read(using), found.facts),
            *range_notes(db.read(using), found.facts),
        ),
    )


def replay(
    ref: Ref,
    *,
    actor: Actor,
    reason: str,
    route: int | None = None,
    idempotency_key: str | None = None,
    using: str = "default",
) -> Replayed | Refused:
    """Replay one dead row: reserve it and make its child, all in one transaction or not at all.

    Args:
        ref: The row.
        actor: Who asks, with the permissions of this moment.
        reason: Why, 1 to 500 characters on one line; it goes into the audit trail.
        route: The route version that the caller confirmed; another one that is live refuses.
        idempotency_key: Names this request: the same actor's same key for the same row gets the first answer
            again, and nothing is written.
        using: The database alias.

    Returns:
        The child, or why there is none. Every refusal and every lost race is in the audit trail.

    Raises:
        InvalidInput: The reason or the key is not valid.
        Busy: The rows were locked by others in every try; nothing was written.
        CommitUnknown: Whether it was stored could not be found out.

    Locks: PACK, EVENT, WORK_ITEM.
    Rule: A-22, A-23, A-25, A-33.
    """
    request = _Request(
        ref=ref,
        actor=actor,
        reason=requests.check_reason(reason),
        route=route,
        request_digest=requests.digest_request(actor, idempotency_key),
        child_work_id=new_id(),
        child_event_id=new_id(),
    )
    outcome, facts = _attempt(request, using)
    if isinstance(outcome, Replayed):
        return outcome
    if outcome.code in _TAKEN:
        before = gather.find_same_request(db.read(using), ref, facts, request.request_digest, actor)
        if before is not None:
            return before
    record_alone(_refusal_fact(request, outcome, facts), using=using)
    return outcome


def _permissions(actor: Actor) -> Facts:
    return Facts(may_view=actor.may(VIEW_PERMISSION), may_replay=actor.may(REPLAY_PERMISSION))


def _attempt(request: _Request, using: str) -> tuple[Replayed | Refused, Facts]:
    reader = db.read(using)
    found = gather.read_facts(reader, request.ref, _permissions(request.actor), route=request.route, using=using)
    before = policy.first_refusal(found.facts)
    if before is not None and (before.code in _FINAL_WITHOUT_LOCKS or found.facts.pack is None):
        return _refusal(before, reader, found.facts), found.facts

    def settle(fresh: Reader) -> Replayed | Refused | None:
        return gather.find_child_made(fresh, request.ref, found.facts, request.child_work_id)

    try:
        decided = db.run(
            lambda tx: _replay_locked(tx, request, found.facts), name="authority.replay", using=using, settle=settle
        )
    except errors.ConcurrentChange:
        decided = _taken_verdict()
    except (KeyUnavailable, SealBroken) as error:
        decided = _not_made("The payload cannot be opened with the keys of this installation.", error.code)
    except (IntegrityError, DataError):
        # A unique key that was taken: whoever took it made the child, unless the data contradict themselves.
        decided = _not_made("The database refused the child's rows; everything was rolled back.", "conflict")
    if isinstance(decided, (Replayed, Refused)):
        return decided, found.facts
    after = gather.read_facts(reader, request.ref, _permissions(request.actor), route=request.route, using=using).facts
    if before is None and (decided.code == "already_replayed" or _is_taken(after)):
        decided = _taken_verdict()
    return _refusal(decided, reader, after), after


def _is_taken(facts: Facts) -> bool:
    return policy.decide_not_replayed(facts).ruling is Ruling.REFUSED


def _taken_verdict() -> Verdict:
    return Verdict(
        code="lost_race",
        ruling=Ruling.REFUSED,
        sentence="Somebody else replayed this row first; your request wrote nothing.",
        next_step="Open the child and go on from there.",
    )


def _not_made(sentence: str, cause: str) -> Verdict:
    return Verdict(
        code="materialization_failed",
        ruling=Ruling.REFUSED,
        sentence=sentence,
        facts={"cause": cause},
        next_step="Nothing was changed. Ask an administrator to look at the server's log.",
    )


def _refusal(verdict: Verdict, reader: Reader, facts: Facts) -> Refused:
    return Refused(
        code=verdict.code,
        sentence=verdict.sentence,
        next_step=verdict.next_step,
        facts=verdict.facts,
        winner=gather.find_winner(reader, facts) if verdict.code in _TAKEN else None,
    )


def _replay_locked(tx: Tx, request: _Request, unlocked: Facts) -> Replayed | Verdict:
    """Lock in rank order, ask the rules again, write. A verdict means that nothing was written."""
    if unlocked.pack is None or unlocked.event is None:
        raise errors.InvariantBroken
    pack = lock_pack(tx, unlocked.pack.pack_install_id)
    scope = None
    if unlocked.scope is None:
        locked_events = lock_events(pack, (unlocked.event.event_id,))
        if not locked_events:
            raise errors.ConcurrentChange
        event = locked_events[0]
        items = lock_work_items(event)
    else:
        held = lock_scope(pack, unlocked.event, {item.work_id for item in unlocked.items})
        if held is None:
            raise errors.ConcurrentChange
        event, items, scope = held.event, held.items, held.scope
    facts, route = _facts_under_locks(pack, event, items, request, replace(unlocked, scope=scope))
    verdict = policy.first_refusal(facts)
    if verdict is not None:
        return verdict
    if route is None or len(items) != 1:
        raise errors.InvariantBroken
    return _write(pack, event, items[0], route, request)


def _facts_under_locks(
    pack: LockedPack, event: LockedEvent, items: list[LockedWorkItem], request: _Request, unlocked: Facts
) -> tuple[Facts, RouteDefinition | None]:
    named = unlocked.items[0].work_id if len(unlocked.items) == 1 else None
    if named is not None and named not in {item.work_id for item in items}:
        # The generation was moved to another Event between the read and the lock.
        raise errors.ConcurrentChange
    reread = gather.read_serialized(pack.tx, pack.pack_install_id, event.row["Namespace"], event.row["EventKind"])
    facts = replace(
        unlocked,
        event=EventFacts.from_row(event.row),
        items=tuple(WorkItemFacts.from_row(item.row) for item in items),
        has_child=gather.has_child(pack.tx, [item.work_id for item in items]),
        pack=PackFacts.from_row(pack.row),
        route=reread.route_facts,
        fences=reread.fences,
        expected_route_version=request.route,
    )
    return facts, reread.route


def _write(
    pack: LockedPack, event: LockedEvent, item: LockedWorkItem, route: RouteDefinition, request: _Request
) -> Replayed:
    """Write the reservation, the child and the audit entry, in the contract's order of effects."""
    tx = pack.tx
    clock = tx.fetch_one(READ_DATABASE_TIME)
    if clock is None:
        raise errors.InvariantBroken
    now = clock["Now"]
    reservation = {"work_id": item.work_id, "event_id": event.event_id, "now": now}
    if tx.execute(work_items.RESERVE_REPLAY, reservation) != 1:
        raise errors.ConcurrentChange
    ordinal = _take_ordinal(pack)
    shared = child.shared_values(pack, event, route, event_id=request.child_event_id, ordinal=ordinal)
    tx.execute(events.INSERT_REPLAY_EVENT, {**shared, **child.event_values(event, route, request.child_event_id)})
    generation = {**shared, **child.work_item_values(pack, item, route, request.child_work_id), "now": now}
    if item.row["ProjectionKey"] is None:
        tx.execute(work_items.INSERT_REPLAY_WORK_ITEM, {**generation, "subject_id": request.child_event_id})
    else:
        tx.execute(replays.INSERT_REPLAY_GENERATION, {**generation, **child.generation_values(event, route)})
    replayed = Replayed(
        original=Ref(id=item.work_id, kind=RefKind.WORK_ITEM),
        original_event_id=event.event_id,
        child_work_id=request.child_work_id,
        child_event_id=request.child_event_id,
        pack_install_id=pack.pack_install_id,
        route_id=route.route_id,
        route_version=route.route_version,
        lane_ordinal=ordinal,
        replayed_at=now,
    )
    record(pack, _done_fact(pack, event, item, request, replayed))
    return replayed


def _take_ordinal(pack: LockedPack) -> int:
    """Take the incarnation's next ordinal; the pack's lock makes it dense."""
    ordinal = int(pack.row["NextLaneOrdinal"])
    step = {
        "pack_install_id": pack.pack_install_id,
        "expected_lane_ordinal": ordinal,
        "next_lane_ordinal": ordinal + 1,
    }
    if pack.tx.execute(packs.ADVANCE_LANE_ORDINAL, step) != 1:
        raise errors.UnexpectedRowCount
    return ordinal


def _done_fact(
    pack: LockedPack, event: LockedEvent, item: LockedWorkItem, request: _Request, replayed: Replayed
) -> AuditFact:
    return AuditFact(
        action="work_item.replayed",
        outcome=AuditOutcome.DONE,
        actor=request.actor,
        ref_kind=RefKind.WORK_ITEM.value,
        ref_id=item.work_id,
        org_id=pack.row["OrgId"],
        namespace=event.row["Namespace"],
        pack_install_id=pack.pack_install_id,
        event_kind=event.row["EventKind"],
        reason=request.reason,
        facts={
            "event_id": event.event_id,
            "child_work_id": replayed.child_work_id,
            "child_event_id": replayed.child_event_id,
            "route_id": replayed.route_id,
            "route_version": replayed.route_version,
            "admitted_under": event.row["RouteVersion"],
            "lane_ordinal": replayed.lane_ordinal,
            "request": request.request_digest,
        },
    )


def _refusal_fact(request: _Request, refused: Refused, facts: Facts) -> AuditFact:
    owner = policy.find_owner(facts)
    is_event = owner is not None and owner.kind is OwnerKind.EVENT and facts.event is not None
    work_id = owner.work_id if owner is not None and not is_event else None
    ref_id = facts.event.event_id if is_event and facts.event is not None else work_id or request.ref.id
    event = facts.event
    winner = refused.winner
    return AuditFact(
        action="event.replayed" if is_event else "work_item.replayed",
        outcome=AuditOutcome.LOST if refused.code == "lost_race" else AuditOutcome.REFUSED,
        actor=request.actor,
        ref_kind=(RefKind.EVENT if is_event else RefKind.WORK_ITEM).value,
        ref_id=ref_id,
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
