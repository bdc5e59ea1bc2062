"""Receipts of who owns a pack's work: a proof in canonical JSON, its digest, and the chain to the receipt before.

A proof repeats what its row says of itself and of its predecessor, so that the digest covers all of it: a receipt that
was edited, moved or taken out of the middle shows from the receipts alone. What was taken off the end shows in the
pack's audit stream, which names every receipt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from integration import errors
from integration.storage.db import Reader, Row
from integration.storage.locks import LockedPack
from integration.storage.sql import cutovers
from integration.storage.sql.audit import READ_DATABASE_TIME
from integration.values import Actor, canonical_json, digest_text

#: What a proof repeats of its row, by the row's column.
_BOUND: Final = {
    "receipt_id": "ReceiptId",
    "pack_install_id": "PackInstallId",
    "direction": "Direction",
    "owner_generation": "OwnerGeneration",
    "previous_receipt_id": "PreviousReceiptId",
    "written_by": "WrittenBy",
}


class Direction(StrEnum):
    """Whose the work is after a transition."""

    #: The WorkItems'.
    FORWARD = "forward"
    #: The Event executor's.
    ROLLBACK = "rollback"


class FaultCode(StrEnum):
    """What a receipt can have wrong."""

    #: The digest is not the proof's.
    DIGEST = "digest_mismatch"
    #: The proof is no JSON object in canonical form.
    UNREADABLE = "proof_unreadable"
    #: A column says something else than the proof.
    COLUMN = "column_mismatch"
    #: It does not name the receipt before it, or not with that one's digest.
    CHAIN = "chain_broken"
    #: A generation is missing before it.
    GAP = "generation_gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that a receipt has wrong.

    Attributes:
        code: Which.
        receipt_id: The receipt.
        owner_generation: Its generation.
        sentence: For the operator.
    """

    code: FaultCode
    receipt_id: str
    owner_generation: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A receipt as it is stored.

    Attributes:
        receipt_id: Its id.
        pack_install_id: The incarnation.
        direction: Whose the work is since.
        owner_generation: From 1, one more with each transition.
        proof: What was counted and seen, and what the receipt says of itself.
        proof_digest: 64 lowercase hex characters, of the proof's canonical text.
    """

    receipt_id: str
    pack_install_id: str
    direction: Direction
    owner_generation: int
    proof: Mapping[str, Any]
    proof_digest: str


def append(
    pack: LockedPack,
    *,
    receipt_id: str,
    direction: Direction,
    kind: str,
    facts: Mapping[str, Any],
    actor: Actor,
) -> Receipt:
    """Write a pack's next receipt; whoever observes it may claim from then on.

    Args:
        pack: The locked incarnation, which serializes its receipts.
        receipt_id: The id, made before the transaction, so that an unknown COMMIT can be settled by it.
        direction: Whose the work is from now on.
        kind: Which transition it is, `noun_verb`.
        facts: What was counted and seen under the locks: JSON values, none of the names that a receipt says of
            itself; ids, codes, counts, times and the operator's own sentences.
        actor: Who made the transition.

    Returns:
        The receipt.

    Locks: none; the pack is held.
    Rule: C-01.
    """
    tx = pack.tx
    previous = tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack.pack_install_id})
    clock = tx.fetch_one(READ_DATABASE_TIME)
    if clock is None:
        raise errors.InvariantBroken
    generation = 1 if previous is None else int(previous["OwnerGeneration"]) + 1
    values = {
        "receipt_id": receipt_id,
        "pack_install_id": pack.pack_install_id,
        "direction": direction.value,
        "owner_generation": generation,
        "previous_receipt_id": None if previous is None else previous["ReceiptId"],
        "written_by": actor.name,
    }
    proof = {
        **facts,
        **values,
        "kind": kind,
        "previous_proof_digest": None if previous is None else previous["ProofDigest"],
        "written_at": _moment(clock["Now"]),
    }
    text = canonical_json(proof)
    digest = digest_text(text)
    tx.execute(
        cutovers.INSERT_CUTOVER_RECEIPT,
        {**values, "proof": text, "proof_digest": digest, "written_at": clock["Now"]},
    )
    return Receipt(
        receipt_id=receipt_id,
        pack_install_id=pack.pack_install_id,
        direction=direction,
        owner_generation=generation,
        proof=proof,
        proof_digest=digest,
    )


def list_receipts(reader: Reader, pack_install_id: str) -> list[Row]:
    """Return the whole rows of a pack's receipts, oldest first."""
    return reader.fetch_all(cutovers.LIST_CUTOVER_RECEIPTS, {"pack_install_id": pack_install_id})


def count_faults(reader: Reader, pack_install_id: str) -> int:
    """Return how much is wrong with a pack's receipts, from them alone; as `find_faults` names it."""
    return len(find_faults(list_receipts(reader, pack_install_id)))


def find_faults(rows: Sequence[Row]) -> tuple[Fault, ...]:
    """Hold a pack's receipts against their digests and against each other; nothing else is asked.

    Args:
        rows: As `list_receipts` returns them.

    Returns:
        What is wrong, oldest receipt first; empty when every receipt is what was written.
    """
    found: list[Fault] = []
    previous: Row | None = None
    for row in rows:
        proof = parse_proof(row["Proof"])
        complaints = _complaints(row, proof, previous)
        found += [
            Fault(
                code=code,
                receipt_id=row["ReceiptId"],
                owner_generation=row["OwnerGeneration"],
                sentence=sentence,
            )
            for code, sentence in complaints
        ]
        previous = row
    return tuple(found)


def _complaints(row: Row, proof: Mapping[str, Any] | None, previous: Row | None) -> list[tuple[FaultCode, str]]:
    found = []
    if digest_text(row["Proof"]) != row["ProofDigest"]:
        found.append((FaultCode.DIGEST, "The digest is not the one of the proof: one of the two was changed."))
    if proof is None:
        found.append((FaultCode.UNREADABLE, "The proof is not a JSON object as a receipt writes it."))
    else:
        stored = {**{name: row[column] for name, column in _BOUND.items()}, "written_at": _moment(row["WrittenAt"])}
        found += [
            (FaultCode.COLUMN, f"The row's {name} is not what its proof says.")
            for name, value in stored.items()
            if name not in proof or proof[name] != value
        ]
    expected_generation = 1 if previous is None else previous["OwnerGeneration"] + 1
    if row["OwnerGeneration"] != expected_generation:
        found.append((FaultCode.GAP, f"Generation {expected_generation} is missing before it."))
    before = (None, None) if previous is None else (previous["ReceiptId"], previous["ProofDigest"])
    named = (row["PreviousReceiptId"], None if proof is None else proof.get("previous_proof_digest"))
    if named != before:
        found.append((FaultCode.CHAIN, "It does not name the receipt before it by that one's id and digest."))
    return found


def parse_proof(text: str) -> Mapping[str, Any] | None:
    """Return a stored proof, or None if it is not the canonical text of a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and canonical_json(value) == text else None


def _moment(at: datetime) -> str:
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return aware.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
