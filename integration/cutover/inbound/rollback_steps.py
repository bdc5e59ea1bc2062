"""The transactions of an inbound rollback: one that stops claims, those that hand over, one that gives up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from integration import errors
from integration.audit.service import record
from integration.cutover import receipts
from integration.cutover.inbound.auditing import fact_of
from integration.cutover.inbound.claimers import Claimer, evict_claimers
from integration.cutover.inbound.rollback_policy import (
    Finding,
    RollbackCode,
    RollbackRefused,
    digest_set,
    refuse,
)
from integration.cutover.inbound.rollback_proof import Proof, prove
from integration.failpoints import failpoint
from integration.ingress.materialize import read_fences
from integration.ingress.policy import find_fence
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import LockedPack, lock_namespace, lock_pack
from integration.storage.sql import cutovers
from integration.storage.sql import rollback_fences as sql
from integration.values import Actor, new_id
from integration.work.legacy_outcomes import APPROVED_BUILDS, approved_builds_of

_PAGE: Final = 5_000
#: How many items one transaction gives back.
_GIVEN_BACK: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """A rollback that is complete.

    Attributes:
        pack_install_id: The incarnation.
        fence_id: Its sealed fence.
        receipt_id: The receipt; an executor that observes it may claim.
        owner_generation: The receipt's generation.
        item_count: How many WorkItems wait for the Event executor.
        set_digest: Of their sorted ids.
        approved_builds: Whose Event executor its receipt admits.
        is_new: False when an earlier run, or another's, had written it already.
    """

    pack_install_id: str
    fence_id: str
    receipt_id: str
    owner_generation: int
    item_count: int
    set_digest: str
    approved_builds: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, checked.

    Attributes:
        pack_install_id: The incarnation.
        namespace: Its namespace, which never changes.
        actor: Who asks.
        reason: Why.
        attestation: What the operator says of unregistered processes.
        approved_builds: The builds whose Event executor is admitted.
        chunk: How many items one transaction hands over.
        receipt_id: The receipt's id, made before the transaction that writes it.
    """

    pack_install_id: str
    namespace: str
    actor: Actor
    reason: str
    attestation: str
    approved_builds: tuple[str, ...]
    chunk: int
    receipt_id: str


def find_rolled_back(reader: Reader, pack_install_id: str) -> RolledBack | None:
    """Return the rollback that a pack's newest receipt tells of, or None when it tells of none.

    Args:
        reader: Where to read.
        pack_install_id: The incarnation.
    """
    newest = _newest(reader, pack_install_id)
    if newest is None or newest["Direction"] != receipts.Direction.ROLLBACK:
        return None
    fence = reader.fetch_one(sql.FIND_FENCE_OF_RECEIPT, {"receipt_id": newest["ReceiptId"]})
    if fence is None:
        return None
    return RolledBack(
        pack_install_id=pack_install_id,
        fence_id=fence["FenceId"],
        receipt_id=newest["ReceiptId"],
        owner_generation=newest["OwnerGeneration"],
        item_count=fence["ItemCount"],
        set_digest=fence["SetDigest"],
        approved_builds=approved_builds_of(fence["Proof"]),
        is_new=False,
    )


def find_not_forward(reader: Reader, pack_install_id: str) -> Finding | None:
    """Return what stands against rolling back a pack whose work is not the WorkItems'."""
    newest = _newest(reader, pack_install_id)
    if newest is not None and newest["Direction"] == receipts.Direction.FORWARD:
        return None
    return Finding(
        code=RollbackCode.NOT_FORWARD,
        sentence="The newest cutover receipt of this pack is not a forward one.",
        next_step="There is nothing to roll back.",
        facts={"direction": None if newest is None else newest["Direction"]},
    )


def open_fence(tx: Tx, *, request: Request) -> RolledBack | str:
    """Stop a pack's claims, until its rollback is complete or abandoned.

    Returns:
        The id of the fence, new or another run's; or the rollback, when it is complete already.

    Locks: NAMESPACE, PACK, PROCESS.
    Rule: C-03.
    """
    pack = _lock(tx, request.namespace, request.pack_install_id)
    done = find_rolled_back(tx, request.pack_install_id)
    if done is not None:
        return done
    refuse(find_not_forward(tx, request.pack_install_id))
    fence = tx.fetch_one(sql.FIND_UNCLOSED_FENCE, {"pack_install_id": request.pack_install_id})
    if fence is None:
        fence_id = _insert_fence(pack, request)
    elif fence["State"] == sql.OPEN:
        fence_id = str(fence["FenceId"])
    else:
        raise RollbackRefused(
            Finding(
                code=RollbackCode.FENCE_UNCLOSED,
                sentence="An earlier rollback of this pack is not reconciled.",
                next_step="Run the reconciliation, which closes its fence; then run it again.",
                facts={"rollback_fence_id": fence["FenceId"]},
            )
        )
    evict_claimers(pack, actor=request.actor)
    failpoint("rollback.before_open_commit")
    return fence_id


def _insert_fence(pack: LockedPack, request: Request) -> str:
    fence_id = new_id()
    newest = _newest(pack.tx, request.pack_install_id)
    params = {
        "fence_id": fence_id,
        "pack_install_id": request.pack_install_id,
        "owner_generation": 1 if newest is None else int(newest["OwnerGeneration"]) + 1,
        "actor_name": request.actor.name,
    }
    pack.tx.execute(sql.INSERT_ROLLBACK_FENCE, params)
    told = {"rollback_fence_id": fence_id}
    record(pack, fact_of("inbound_cutover.rollback_opened", pack.row, told, request.actor, request.reason))
    return fence_id


def hand_over(tx: Tx, *, request: Request, fence_id: str) -> RolledBack | str:
    """Prove that nothing is in hand and hand the next items over; with the last of them write the receipt.

    Returns:
        The id of the fence while items are left; the rollback once it is complete.

    Raises:
        RollbackRefused: Something is in hand, or cannot be proved.
        ConcurrentChange: The rollback was abandoned, or a row changed between two statements.

    Locks: NAMESPACE, PACK, PROCESS, EVENT, WORK_ITEM, LEAF.
    Rule: C-03, C-04, C-09, C-10.
    """
    pack = _lock(tx, request.namespace, request.pack_install_id)
    done = find_rolled_back(tx, request.pack_install_id)
    if done is not None:
        return done
    fence = tx.fetch_one(sql.FIND_UNCLOSED_FENCE, {"pack_install_id": request.pack_install_id})
    if fence is None or fence["FenceId"] != fence_id or fence["State"] != sql.OPEN:
        message = "This rollback was abandoned meanwhile."
        raise errors.ConcurrentChange(message)
    claimers = evict_claimers(pack, actor=request.actor)
    proof = prove(tx, request.pack_install_id, limit=request.chunk)
    if proof.is_last:
        _give_events_back(tx, fence_id, proof)
    else:
        refuse(_find_open_admission(tx, request))
    _fence(tx, fence_id, proof)
    failpoint("rollback.after_fence")
    return _seal(pack, request, fence_id, proof, claimers) if proof.is_last else fence_id


def _find_open_admission(tx: Tx, request: Request) -> Finding | None:
    """Return what stands against several transactions: an input of a projection could end all that was begun."""
    fences = read_fences(tx, request.namespace)
    kinds = tx.fetch_all(sql.LIST_PROJECTED_KINDS, {"pack_install_id": request.pack_install_id})
    open_kinds = [row["EventKind"] for row in kinds if find_fence(fences, row["EventKind"]) is None]
    if not open_kinds:
        return None
    return Finding(
        code=RollbackCode.ADMISSION_OPEN,
        sentence="More items wait than one transaction takes, and inputs of a source projection may still come.",
        next_step="Arm an admission fence over these kinds, or raise the chunk; then run it again.",
        facts={"event_kinds": open_kinds},
    )


def _give_events_back(tx: Tx, fence_id: str, proof: Proof) -> None:
    found = {row["EventId"] for row in tx.fetch_all(sql.LIST_TAKEN_OVER, {"fence_id": fence_id})}
    taken_over = sorted(found | {item["EventId"] for item in proof.items if item["Attempt"] > 0})
    for start in range(0, len(taken_over), _PAGE):
        batch = taken_over[start : start + _PAGE]
        if tx.execute(sql.RETURN_EVENTS, {"event_ids": batch}) != len(batch):
            raise errors.ConcurrentChange
    failpoint("rollback.after_events")


def _fence(tx: Tx, fence_id: str, proof: Proof) -> None:
    if not proof.items:
        return
    work_ids = sorted(item["WorkId"] for item in proof.items)
    if tx.execute(sql.FENCE_WORK_ITEMS, {"fence_id": fence_id, "work_ids": work_ids}) != len(work_ids):
        # A resolver found one to be blocked between the two statements.
        raise errors.ConcurrentChange


def _seal(pack: LockedPack, request: Request, fence_id: str, proof: Proof, claimers: Sequence[Claimer]) -> RolledBack:
    tx = pack.tx
    outside = tx.fetch_one(sql.FIND_LEFT_OUTSIDE, {"pack_install_id": request.pack_install_id, "fence_id": fence_id})
    if outside is not None:
        raise errors.ConcurrentChange(work_id=outside["WorkId"], state=outside["State"])
    item_count, set_digest = digest_set(row["WorkId"] for row in list_fenced(tx, fence_id))
    failpoint("rollback.before_receipt")
    receipt = receipts.append(
        pack,
        receipt_id=request.receipt_id,
        direction=receipts.Direction.ROLLBACK,
        kind="inbound_rollback",
        facts={
            "owner": "event",
            "reason": request.reason,
            "attestation": request.attestation,
            "rollback_fence_id": fence_id,
            "item_count": item_count,
            "set_digest": set_digest,
            APPROVED_BUILDS: list(request.approved_builds),
            "legacy_max_ordinal": proof.cutoff,
            "inputs_above_legacy_max_ordinal": 0,
            "work_items": dict.fromkeys(("pending", "retry", "blocked", "processing", "outside_the_fence"), 0),
            "claimers_that_may_claim": sum(claimer.ended is None for claimer in claimers),
            "claimers": [claimer.as_proof() for claimer in claimers],
        },
        actor=request.actor,
    )
    failpoint("rollback.after_receipt")
    sealed = {"fence_id": fence_id, "item_count": item_count, "set_digest": set_digest}
    if tx.execute(sql.SEAL_ROLLBACK_FENCE, {**sealed, "receipt_id": receipt.receipt_id}) != 1:
        raise errors.UnexpectedRowCount
    told = {"rollback_fence_id": fence_id, "receipt_id": receipt.receipt_id, "item_count": item_count}
    record(pack, fact_of("inbound_cutover.rolled_back", pack.row, told, request.actor, request.reason))
    failpoint("rollback.before_commit")
    return RolledBack(
        pack_install_id=request.pack_install_id,
        fence_id=fence_id,
        receipt_id=receipt.receipt_id,
        owner_generation=receipt.owner_generation,
        item_count=item_count,
        set_digest=set_digest,
        approved_builds=request.approved_builds,
        is_new=True,
    )


def give_back(tx: Tx, *, pack: Row, actor: Actor, reason: str) -> str | None:
    """Give the next items that an open rollback holds back to the workers; close its fence when it holds none.

    Nothing was executed meanwhile: before the receipt no executor is admitted, and while the fence is open no worker.

    Returns:
        The fence's id, once it is closed; None while it holds items.

    Raises:
        RollbackRefused: None is open.

    Locks: NAMESPACE, PACK, WORK_ITEM, LEAF.
    Rule: C-03.
    """
    locked = _lock(tx, pack["Namespace"], pack["PackInstallId"])
    fence = tx.fetch_one(sql.FIND_UNCLOSED_FENCE, {"pack_install_id": pack["PackInstallId"]})
    if fence is None or fence["State"] != sql.OPEN:
        raise RollbackRefused(
            Finding(
                code=RollbackCode.NOT_ABANDONABLE,
                sentence="No rollback is open: there is none, or its receipt is written.",
                next_step="What a receipt binds is executed and reconciled.",
            )
        )
    by_fence = {"fence_id": fence["FenceId"]}
    items = tx.fetch_all(sql.LIST_FENCED_ITEMS, {**by_fence, "after": "", "limit": _GIVEN_BACK})
    if items:
        params = {**by_fence, "work_ids": [item["WorkId"] for item in items]}
        given_back = tx.execute(sql.UNFENCE_WORK_ITEMS, params) + tx.execute(sql.UNFENCE_RETRIES, params)
        if given_back != len(items):
            raise errors.UnexpectedRowCount
        return None
    if tx.execute(sql.CLOSE_ROLLBACK_FENCE, {**by_fence, "state": sql.OPEN}) != 1:
        raise errors.UnexpectedRowCount
    told = {"rollback_fence_id": fence["FenceId"]}
    record(locked, fact_of("inbound_cutover.rollback_abandoned", pack, told, actor, reason))
    return str(fence["FenceId"])


def list_fenced(reader: Reader, fence_id: str) -> Iterator[Row]:
    """Yield the items that a fence holds, or held, by WorkId."""
    after = ""
    while True:
        rows = reader.fetch_all(sql.LIST_FENCED_ITEMS, {"fence_id": fence_id, "after": after, "limit": _PAGE})
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1]["WorkId"]


def _lock(tx: Tx, namespace: str, pack_install_id: str) -> LockedPack:
    lock_namespace(tx, namespace)
    return lock_pack(tx, pack_install_id)


def _newest(reader: Reader, pack_install_id: str) -> Row | None:
    return reader.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack_install_id})
