"""Plan a replay and do it.

A plan reads the facts without locks and shows every rule's verdict. A replay reads the ids so, locks the rows
in rank order, asks the same rules about the locked rows, and writes everything in one transaction.
"""

from __future__ import annotations

from typing import Final

from django.db import DataError, IntegrityError

from integration.audit.policy import check_reason
from integration.audit.service import record_alone
from integration.authority import gather, locked, making, policy, requests
from integration.authority.facts import Facts
from integration.authority.lane_notes import lane_notes
from integration.authority.making import Request
from integration.authority.original_rules import decide_not_replayed
from integration.authority.scope import range_notes
from integration.authority.values import (
    Plan,
    Ref,
    Refused,
    Replayed,
    Ruling,
    Verdict,
)
from integration.authority.verdicts import find_owner, makes_work_item
from integration.failpoints import failpoint
from integration.ingress.crypto import KeyUnavailable, SealBroken
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.values import Actor, new_id

#: Refusals that no lock can change: what would be locked is not there, or may not be looked at.
_FINAL_WITHOUT_LOCKS: Final = frozenset({"permission_denied", "not_found", "schema_unavailable"})
_TAKEN: Final = frozenset({"already_replayed", "lost_race"})
#: How often a row that moves under the replay is looked at anew.
_MOST_LOOKS: Final = 5


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
    found = gather.read_facts(reader, ref, actor, route=route, using=using)
    verdicts = policy.judge(found.facts)
    refused = next((verdict for verdict in verdicts if verdict.ruling is Ruling.REFUSED), None)
    return Plan(
        ref=ref,
        owner=find_owner(found.facts),
        verdicts=verdicts,
        refusal=None if refused is None else _refusal(refused, reader, found.facts),
        target=gather.target_of(found.facts),
        lock_order=locked.lock_order_of(found.facts),
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
    Rule: A-22, A-23, A-25, A-26, A-33.
    """
    request = Request(
        ref=ref,
        actor=actor,
        reason=check_reason(reason),
        route=route,
        request_digest=requests.digest_request(actor, idempotency_key),
        child_work_id=new_id(),
        child_event_id=new_id(),
    )
    outcome, facts = _attempt(request, using)
    if isinstance(outcome, Replayed):
        return outcome
    if outcome.code in _TAKEN:
        before = gather.find_same_request(db.read(using), facts, request.request_digest, actor)
        if before is not None:
            return before
    record_alone(making.refusal_fact(request, outcome, facts), using=using)
    return outcome


def _attempt(request: Request, using: str) -> tuple[Replayed | Refused, Facts]:
    for _ in range(_MOST_LOOKS):
        try:
            return _look_and_replay(request, using)
        except locked.Moved:
            continue
    reader = db.read(using)
    facts = gather.read_facts(reader, request.ref, request.actor, route=request.route, using=using).facts
    return _refusal(_taken_verdict(), reader, facts) if _is_taken(facts) else _moved(), facts


def _look_and_replay(request: Request, using: str) -> tuple[Replayed | Refused, Facts]:
    reader = db.read(using)
    found = gather.read_facts(reader, request.ref, request.actor, route=request.route, using=using)
    before = policy.first_refusal(found.facts)
    if before is not None and (before.code in _FINAL_WITHOUT_LOCKS or found.facts.pack is None):
        return _refusal(before, reader, found.facts), found.facts
    child_work_id = request.child_work_id if makes_work_item(found.facts) else None

    def settle(fresh: Reader) -> Replayed | Verdict | None:
        return gather.find_child_made(fresh, found.facts, request.child_event_id, child_work_id)

    decided: Replayed | Verdict
    try:
        decided = db.run(
            lambda tx: _replay_locked(tx, request, found.facts, using),
            name="authority.replay",
            using=using,
            settle=settle,
        )
        failpoint("replay.after_commit")
    except making.ReservationTaken:
        decided = _taken_verdict()
    except (KeyUnavailable, SealBroken) as error:
        decided = _not_made("The payload cannot be opened with the keys of this installation.", error.code)
    except (IntegrityError, DataError):
        # A unique key that was taken: whoever took it made the child, unless the data contradict themselves.
        decided = _not_made("The database refused the child's rows; everything was rolled back.", "conflict")
    if isinstance(decided, Replayed):
        return decided, found.facts
    after = gather.read_facts(reader, request.ref, request.actor, route=request.route, using=using).facts
    if before is None and (decided.code == "already_replayed" or _is_taken(after)):
        decided = _taken_verdict()
    return _refusal(decided, reader, after), after


def _is_taken(facts: Facts) -> bool:
    return decide_not_replayed(facts).ruling is Ruling.REFUSED


def _taken_verdict() -> Verdict:
    return Verdict(
        code="lost_race",
        ruling=Ruling.REFUSED,
        sentence="Somebody else replayed this row first; your request wrote nothing.",
        next_step="Open the child and go on from there.",
    )


def _moved() -> Refused:
    return Refused(
        code="lost_race",
        sentence="The row changed in every try before it could be locked; your request wrote nothing.",
        next_step="Read the plan again, and replay what the row is then.",
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


def _replay_locked(tx: Tx, request: Request, unlocked: Facts, using: str) -> Replayed | Verdict:
    """Lock in rank order, ask the rules again, write. A verdict means that nothing was written."""
    held = locked.lock_original(tx, unlocked, route=request.route, using=using)
    verdict = policy.first_refusal(held.facts)
    if verdict is not None:
        return verdict
    failpoint("replay.decided")
    return making.make(held, request)
