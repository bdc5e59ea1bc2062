"""The steps by which a pack's work goes from the Event executor to WorkItems; each may be run again, and beside itself.

Claims of Events are stopped by two facts, each of which a claim reads under a lock of its own transaction: the
executor's process row is evicted, and the pack's scheduler leases belong to the cutover. WorkItems are claimed only
under a forward receipt, so that from the first step to the last nobody claims.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError

from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record
from integration.cutover import receipts
from integration.cutover.inbound import reads
from integration.cutover.inbound.auditing import fact_of
from integration.cutover.inbound.claimers import Kind, evict_claimers
from integration.cutover.inbound.forward_proof import prove
from integration.cutover.inbound.policy import Obstacle, find_obstacles
from integration.cutover.receipts import Direction
from integration.failpoints import failpoint
from integration.states import FailureClass
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import lock_namespace, lock_pack
from integration.storage.sql import cutovers, scheduler_leases
from integration.storage.sql.scheduler_leases import EVENT_EXECUTOR, SEIZED
from integration.values import Actor
from integration.work.finish import SUMMARIES
from integration.work.reap import SLACK_SECONDS

_RECLAIM_BATCH: Final = 100
_TOKEN_BYTES: Final = 24


class NotYet(errors.Refused):
    """Something stands in the way of the receipt; nothing was changed by this try."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        """Keep the obstacles."""
        super().__init__(None, obstacles=list(obstacles))
        self.obstacles = tuple(obstacles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for.

    Attributes:
        pack_install_id: The incarnation.
        actor: Who asked.
        reason: Why.
        attestation: What the operator says of unregistered processes; empty for nothing.
        receipt_id: The id that the receipt will have.
    """

    pack_install_id: str
    actor: Actor
    reason: str
    attestation: str
    receipt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The forward receipt under which the pack's work is executed.

    Attributes:
        receipt_id: The receipt.
        owner_generation: Its generation.
        is_new: This run wrote it.
    """

    receipt_id: str
    owner_generation: int
    is_new: bool


def find_written(reader: Reader, order: Order) -> Written | None:
    """Return the pack's newest receipt if it is a forward one."""
    row = reader.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": order.pack_install_id})
    if row is None or row["Direction"] != Direction.FORWARD:
        return None
    return Written(
        receipt_id=row["ReceiptId"],
        owner_generation=row["OwnerGeneration"],
        is_new=row["ReceiptId"] == order.receipt_id,
    )


def stop_claims(order: Order) -> bool:
    """Stop the claims of a pack's Events for good: evict the executors, and take the scheduler leases from them.

    Args:
        order: What was asked for.

    Returns:
        False when the pack has a forward receipt already and nothing was changed.

    Raises:
        LockTimeout: A claim in flight did not end in time.

    Locks: PACK, PROCESS, LEAF.
    Rule: C-01, C-12.
    """
    by_id = {"pack_install_id": order.pack_install_id}
    _make_lease(order.pack_install_id)

    def unit(tx: Tx) -> bool:
        pack = lock_pack(tx, order.pack_install_id)
        if find_written(tx, order) is not None:
            return False
        was_stopped = reads.is_stopped(tx, order.pack_install_id)
        evicted = evict_claimers(pack, kinds=(Kind.EVENT,), actor=order.actor)
        seizing = {**by_id, "seized": SEIZED, "lease_token": secrets.token_urlsafe(_TOKEN_BYTES)}
        tx.execute(scheduler_leases.SEIZE_SCHEDULER_LEASES, seizing)
        if not was_stopped:
            record(pack, fact("claims_stopped", order, pack.row, {"executors": [one.process_id for one in evicted]}))
        failpoint("inbound_forward.stopping")
        return True

    stopped = db.run(unit, name="cutover.stop_claims")
    failpoint("inbound_forward.stopped")
    return stopped


def _make_lease(pack_install_id: str) -> None:
    """Make the executor's lease if nobody ever did: what is not there could still be made, and taken."""
    key = {"pack_install_id": pack_install_id, "lease_name": EVENT_EXECUTOR}
    if db.read().fetch_one(scheduler_leases.FIND_SCHEDULER_LEASE, key) is None:
        # Another may have made it just now.
        with contextlib.suppress(IntegrityError):
            db.execute_alone(scheduler_leases.INSERT_SCHEDULER_LEASE, key)


def let_claim_again(order: Order) -> bool:
    """Give a pack back to the Event executor, before its receipt is written; executors have to be started anew.

    Args:
        order: What was asked for.

    Returns:
        False when no cutover has stopped the claims.

    Raises:
        Refused: The pack has a forward receipt.

    Locks: PACK, LEAF.
    """

    def unit(tx: Tx) -> bool:
        pack = lock_pack(tx, order.pack_install_id)
        if find_written(tx, order) is not None:
            message = (
                "The cutover is done: what goes back is `inbound_cutover rollback`, and a rollback that has begun is"
                " given up by its option --abandon."
            )
            raise errors.Refused(message)
        given = _give_back(tx, order)
        if given:
            record(pack, fact("abandoned", order, pack.row, {}))
        return given

    return db.run(unit, name="cutover.abandon")


def take_back_lost(pack_install_id: str) -> int:
    """Take back the Events whose claims are over, each by its own swap; their WorkItems will execute them.

    Args:
        pack_install_id: The incarnation.

    Returns:
        How many.

    Locks: EVENT.
    Rule: C-02.
    """
    params = {"pack_install_id": pack_install_id, "slack_seconds": SLACK_SECONDS, "limit": _RECLAIM_BATCH}
    taken = 0
    for row in db.read().fetch_all(cutovers.LIST_LOST_EVENT_CLAIMS, params):
        key = {"event_id": row["EventId"], "claim_token": row["ClaimToken"]}
        taken += db.execute_alone(
            cutovers.TAKE_EVENT_BACK,
            {**key, "slack_seconds": SLACK_SECONDS, "last_error": SUMMARIES[FailureClass.LEASE_LOST]},
        )
        failpoint("inbound_forward.taken_back")
    return taken


def write_receipt(order: Order, namespace: str, history: reads.History) -> Written:
    """Prove under the locks that nobody claims, and write the receipt under which WorkItems are claimed.

    The steps: lock the namespace and the pack; return the forward receipt that is there already, if one is; lock and
    evict every process that may claim from the pack; read what stands in the way, and refuse if anything does; write
    the receipt, give the scheduler leases back, and tell the pack's audit stream.

    Args:
        order: What was asked for.
        namespace: The incarnation's, which never changes.
        history: What the tables hold in all, counted before.

    Returns:
        The receipt, this one or the one that another run has written.

    Raises:
        NotYet: Something stands in the way; nothing was changed.
        Busy: A lock was not free in time, or the database does not answer.
        CommitUnknown: The database did not say and could not be asked.

    Locks: NAMESPACE, PACK, PROCESS, LEAF.
    Rule: C-01, C-02, C-08, C-12.
    """

    def unit(tx: Tx) -> Written:
        lock_namespace(tx, namespace)
        pack = lock_pack(tx, order.pack_install_id)
        written = find_written(tx, order)
        if written is not None:
            unfinished = reads.find_unfinished_rollback(tx, pack.row)
            if unfinished:
                raise NotYet(unfinished)
            return written
        claimers = evict_claimers(pack, actor=order.actor)
        found = reads.read_facts(tx, pack.row, is_attested=bool(order.attestation))
        obstacles = find_obstacles(found)
        if obstacles:
            raise NotYet(obstacles)
        failpoint("inbound_forward.proved")
        receipt = receipts.append(
            pack,
            receipt_id=order.receipt_id,
            direction=Direction.FORWARD,
            kind="inbound_forward",
            facts={
                "reason": order.reason,
                "attestation": order.attestation,
                **prove(pack, found, claimers, history),
            },
            actor=order.actor,
        )
        _give_back(tx, order)
        facts = {
            "cutover_receipt_id": receipt.receipt_id,
            "owner_generation": receipt.owner_generation,
            "proof_digest": receipt.proof_digest,
        }
        record(pack, fact("moved_forward", order, pack.row, facts))
        failpoint("inbound_forward.written")
        return Written(receipt_id=receipt.receipt_id, owner_generation=receipt.owner_generation, is_new=True)

    def settle(reader: Reader) -> Written | None:
        written = find_written(reader, order)
        return written if written is not None and written.is_new else None

    written = db.run(unit, name="cutover.write_receipt", settle=settle)
    failpoint("inbound_forward.committed")
    return written


def _give_back(tx: Tx, order: Order) -> bool:
    params = {"pack_install_id": order.pack_install_id, "seized": SEIZED}
    return tx.execute(scheduler_leases.GIVE_SCHEDULER_LEASES_BACK, params) > 0


def fact(
    verb: str, order: Order, pack: Row, facts: Mapping[str, Any], *, outcome: AuditOutcome = AuditOutcome.DONE
) -> AuditFact:
    """Return what the trail is told of a step.

    Args:
        verb: What was done, or refused.
        order: What was asked for.
        pack: The incarnation's row, or its id alone.
        facts: Ids, codes and counts.
        outcome: How it ended.
    """
    return fact_of(
        f"inbound_cutover.{verb}",
        {**pack, "PackInstallId": order.pack_install_id},
        facts,
        order.actor,
        order.reason,
        outcome=outcome,
    )
