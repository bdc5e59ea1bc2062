"""Inbound cutover, forward: what an operator asks for, from the first refusal to the receipt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

import structlog

from integration import errors
from integration.audit.policy import AuditOutcome, check_reason
from integration.audit.service import record_alone
from integration.cutover.inbound import forward, reads
from integration.cutover.inbound.auditing import check_attestation
from integration.cutover.inbound.forward import NotYet, Order, Written
from integration.cutover.inbound.materialize import materialize
from integration.cutover.inbound.policy import Obstacle, Remedy, find_obstacles
from integration.cutover.rights import demand_cutover
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import packs
from integration.values import Actor, new_id, plain

T = TypeVar("T")

#: A lost claim is over after a minute and may be taken back a little later.
TIMEOUT_SECONDS: Final = 90.0
LONGEST_TIMEOUT_SECONDS: Final = 3600.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0
_NOT_IN_TIME: Final = "It was not over in time. No Event is claimed until it is run again, or abandoned."
log = structlog.get_logger(__name__)


class CutoverRefused(errors.Refused):
    """Something stands in the way of the cutover; no receipt was written."""

    code = "cutover_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """What a forward cutover came to.

    Attributes:
        pack_install_id: The incarnation.
        receipt_id: The forward receipt.
        owner_generation: Its generation.
        is_new: False when another run, or an earlier one, had written it.
        materialized: How many WorkItems this run made.
        taken_back: How many lost claims of Events it took back.
    """

    pack_install_id: str
    receipt_id: str
    owner_generation: int
    is_new: bool
    materialized: int
    taken_back: int


def move_forward(
    pack_install_id: str,
    *,
    actor: Actor,
    reason: str,
    attestation: str = "",
    timeout_seconds: float = TIMEOUT_SECONDS,
    wait: Callable[[float], None] = time.sleep,
) -> Forwarded:
    """Hand a pack's work from the Event executor to WorkItems.

    1. Refuse what only a person can take away, before anything is changed.
    2. Stop the claims of Events; from here to the receipt nobody claims.
    3. Give every eligible Event its WorkItem.
    4. Wait until no Event is executed, taking back what was lost.
    5. Under the locks, prove that nobody claims, and write the receipt.

    Each step may be run again: whoever was killed is followed by whoever asks next, and two at once write one receipt.

    Args:
        pack_install_id: The incarnation.
        actor: Who asks.
        reason: Why.
        attestation: What he says of unregistered processes; a receipt needs it.
        timeout_seconds: How long to wait for what runs. The claims stay stopped when it is over.
        wait: Waits so many seconds.

    Returns:
        The receipt, and what was done.

    Raises:
        InvalidInput: An argument is not valid.
        NotAllowed: He may not.
        PackNotFound: There is no such incarnation.
        CutoverRefused: Something stands in the way; `obstacles` in its data fields says what.
        Busy: A lock was not free for as long as it was to wait, or the database does not answer.

    Locks: NAMESPACE, PACK, PROCESS, EVENT, LEAF.
    Rule: C-01, C-02, C-11.
    """
    order = _order(pack_install_id, actor=actor, reason=reason, attestation=attestation)
    if not 0 <= timeout_seconds <= LONGEST_TIMEOUT_SECONDS:
        message = f"The timeout is {timeout_seconds:g} s: give 0 to {LONGEST_TIMEOUT_SECONDS:g} seconds."
        raise errors.InvalidInput(message, field="timeout", found=f"{timeout_seconds:g}")

    def run(pack: Row) -> Forwarded:
        written = forward.find_written(db.read(), order)
        if written is not None:
            _refuse_what_a_person_clears(reads.find_unfinished_rollback(db.read(), pack))
            return _forwarded(order, written, 0, 0)
        return _run(order, pack, time.monotonic() + timeout_seconds, wait)

    return _audited("moved_forward", order, run)


def abandon(pack_install_id: str, *, actor: Actor, reason: str) -> bool:
    """Give up a cutover that has not written its receipt: Events may be claimed again.

    What it materialized stays, and mirrors its Event as any WorkItem that was never claimed does.

    Args:
        pack_install_id: The incarnation.
        actor: Who asks.
        reason: Why.

    Returns:
        False when no cutover had stopped the claims.

    Raises:
        InvalidInput: An argument is not valid.
        NotAllowed: He may not.
        PackNotFound: There is no such incarnation.
        Refused: The pack has a forward receipt.

    Locks: PACK, LEAF.
    """
    order = _order(pack_install_id, actor=actor, reason=reason, attestation="")
    return _audited("abandoned", order, lambda pack: forward.let_claim_again(order))


def check_pack_install_id(text: str) -> str:
    """Return an incarnation's id in its one form.

    Raises:
        InvalidInput: It is no UUID.
    """
    try:
        return str(UUID(text))
    except ValueError:
        message = "The pack install id is not a UUID: `install_pack` printed it."
        raise errors.InvalidInput(message, field="pack_install_id", found=f"{len(text)} characters") from None


def _order(pack_install_id: str, *, actor: Actor, reason: str, attestation: str) -> Order:
    said = check_attestation(attestation)
    return Order(
        pack_install_id=check_pack_install_id(pack_install_id),
        actor=actor,
        reason=check_reason(reason),
        attestation=said,
        receipt_id=new_id(),
    )


def _audited(verb: str, order: Order, run: Callable[[Row], T]) -> T:
    """Do what was asked of a pack, and tell the trail when it is refused."""
    pack: Row = {"PackInstallId": order.pack_install_id}
    try:
        demand_cutover(order.actor)
        found = db.read().fetch_one(packs.FIND_PACK, {"pack_install_id": order.pack_install_id})
        if found is None:
            raise errors.PackNotFound
        pack = found
        return run(pack)
    except (errors.NotAllowed, errors.NotFound, errors.Refused) as refusal:
        record_alone(forward.fact(verb, order, pack, _refusal(refusal), outcome=AuditOutcome.REFUSED))
        raise


def _run(order: Order, pack: Row, deadline: float, wait: Callable[[float], None]) -> Forwarded:
    facts = reads.read_facts(db.read(), pack, is_attested=bool(order.attestation))
    _refuse_what_a_person_clears(find_obstacles(facts))
    history = reads.read_history(db.read(), order.pack_install_id)
    made = taken = 0
    is_stopped = False
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            if not is_stopped:
                is_stopped = forward.stop_claims(order)
            if not is_stopped:
                # Another run was faster.
                return _forwarded(order, forward.write_receipt(order, pack["Namespace"], history), made, taken)
            made += materialize(order.pack_install_id)
            taken += forward.take_back_lost(order.pack_install_id)
            return _forwarded(order, forward.write_receipt(order, pack["Namespace"], history), made, taken)
        except NotYet as refusal:
            _refuse_what_a_person_clears(refusal.obstacles)
            if time.monotonic() >= deadline:
                raise _refused(_NOT_IN_TIME, refusal.obstacles) from None
            is_stopped = all(obstacle.remedy is not Remedy.FORWARD for obstacle in refusal.obstacles)
        except errors.Busy as busy:
            # A claim in flight, or one whose process was stopped within it.
            log.info("inbound_forward.busy", pack_install_id=order.pack_install_id, code=busy.code)
            if time.monotonic() >= deadline:
                raise
        wait(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _refuse_what_a_person_clears(obstacles: Sequence[Obstacle]) -> None:
    standing = [obstacle for obstacle in obstacles if obstacle.remedy is Remedy.OPERATOR]
    if standing:
        raise _refused(standing[0].sentence, standing)


def _refused(sentence: str, obstacles: Sequence[Obstacle]) -> CutoverRefused:
    return CutoverRefused(sentence, obstacles=[plain(obstacle) for obstacle in obstacles])


def _forwarded(order: Order, written: Written, made: int, taken: int) -> Forwarded:
    return Forwarded(
        pack_install_id=order.pack_install_id,
        receipt_id=written.receipt_id,
        owner_generation=written.owner_generation,
        is_new=written.is_new,
        materialized=made,
        taken_back=taken,
    )


def _refusal(refusal: errors.IntegrationError) -> dict[str, object]:
    obstacles = refusal.data_fields.get("obstacles")
    found = {one["code"]: one["count"] for one in obstacles} if isinstance(obstacles, list) else {}
    return {"code": refusal.code, "obstacles": found}
