"""What a pack's receipts still prove: first from the receipts alone, then against what the database holds today."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from integration import errors
from integration.cutover import receipts
from integration.cutover.inbound import reads
from integration.cutover.inbound.claimers import list_claimers
from integration.cutover.inbound.policy import Obstacle, find_broken_receipts, find_obstacles
from integration.cutover.inbound.rollback_proof import count_inputs_without_item
from integration.cutover.inbound.service import check_pack_install_id
from integration.cutover.receipts import Direction, Fault
from integration.projection.coverage import read_cutoffs
from integration.storage import db, probe
from integration.storage.db import Reader, Row
from integration.storage.sql import cutovers, packs


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A receipt, as pages and commands name it.

    Attributes:
        receipt_id: Its id.
        direction: Whose the work is since, as the row says.
        owner_generation: Its generation.
        kind: Which transition the proof tells of; empty when it cannot be read.
        written_at: When.
        written_by: Who.
        proof_digest: As stored.
    """

    receipt_id: str
    direction: str
    owner_generation: int
    kind: str
    written_at: datetime
    written_by: str
    proof_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One thing that the newest receipt proved, and whether the database still agrees.

    Attributes:
        name: Which; stable.
        agrees: Whether it does.
        sentence: What was looked at, and what was found.
    """

    name: str
    agrees: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a pack's receipts are worth.

    Attributes:
        pack_install_id: The incarnation.
        receipts: All of them, oldest first.
        faults: What is wrong with them, from the receipts alone.
        agreements: What the newest one proved, held against today's rows.
    """

    pack_install_id: str
    receipts: tuple[Receipt, ...]
    faults: tuple[Fault, ...]
    agreements: tuple[Agreement, ...]

    @property
    def holds(self) -> bool:
        """Whether the receipts are what was written and the database agrees with the newest."""
        return not self.faults and all(agreement.agrees for agreement in self.agreements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a pack stands.

    Attributes:
        pack_install_id: The incarnation.
        newest: Its newest receipt; None before its first cutover.
        is_forward: WorkItems are executed; nothing more is to be done.
        is_under_way: A forward cutover has stopped the claims, and neither written its receipt nor been abandoned.
        obstacles: What stands in the way of a forward cutover; of one that is done, what is wrong with its receipts.
    """

    pack_install_id: str
    newest: Receipt | None
    is_forward: bool
    is_under_way: bool
    obstacles: tuple[Obstacle, ...]


def read_status(pack_install_id: str) -> Status:
    """Return what still stands in the way of a pack's forward cutover, as of a moment ago.

    Raises:
        InvalidInput: The id is not valid.
        PackNotFound: There is no such incarnation.

    Locks: none.
    """
    pack = _find_pack(pack_install_id)
    rows = receipts.list_receipts(db.read(), pack["PackInstallId"])
    newest = _receipt(rows[-1]) if rows else None
    is_moved = newest is not None and newest.direction == Direction.FORWARD
    if is_moved:
        unfinished = reads.find_unfinished_rollback(db.read(), pack)
        obstacles = (*find_broken_receipts(len(receipts.find_faults(rows))), *unfinished)
    else:
        unfinished = ()
        obstacles = find_obstacles(reads.read_facts(db.read(), pack, is_attested=False))
    return Status(
        pack_install_id=pack["PackInstallId"],
        newest=newest,
        is_forward=is_moved and not unfinished,
        is_under_way=reads.is_stopped(db.read(), pack["PackInstallId"]),
        obstacles=obstacles,
    )


def verify(pack_install_id: str) -> Verification:
    """Recompute every digest and link of a pack's receipts, and hold the newest against today's rows.

    Raises:
        InvalidInput: The id is not valid.
        PackNotFound: There is no such incarnation.
        NotFound: It has no receipt.

    Locks: none.
    """
    pack = _find_pack(pack_install_id)
    reader = db.read()
    rows = receipts.list_receipts(reader, pack["PackInstallId"])
    if not rows:
        message = "This incarnation has no cutover receipt."
        raise errors.NotFound(message)
    return Verification(
        pack_install_id=pack["PackInstallId"],
        receipts=tuple(_receipt(row) for row in rows),
        faults=receipts.find_faults(rows),
        agreements=_agreements(reader, pack, rows),
    )


def _agreements(reader: Reader, pack: Row, rows: Sequence[Row]) -> tuple[Agreement, ...]:
    by_id = {"pack_install_id": pack["PackInstallId"]}
    lost = [row["ReceiptId"] for row in reader.fetch_all(cutovers.LIST_LOST_RECEIPTS, by_id)]
    found = [_agreement("observed_receipts", lost, "receipts that a process observed are not there")]
    if rows[-1]["Direction"] != Direction.FORWARD:
        return tuple(found)
    claimers = list_claimers(reader, pack["PackInstallId"])
    executors = [one.process_id for one in claimers if one.ended is None and one.is_executor]
    # A proof leaves out what the one before it has named.
    ended = {process_id for row in rows for process_id in _named_processes(_proof_of(row))}
    revived = [one.process_id for one in claimers if one.process_id in ended and one.ended is None]
    gone = sorted(ended - {one.process_id for one in claimers})
    found += [
        _agreement("executors", executors, "registered processes may claim Events"),
        _agreement("processes", revived, "processes that the proofs name as ended may claim"),
        _agreement("process_rows", gone, "processes that the proofs name are not there"),
    ]
    missing = reads.missing_of(probe.capabilities(fresh=True))
    found.append(_agreement("schema", missing, "tables, columns or keys of the claim schema are missing"))
    if missing:
        return tuple(found)
    facts = reads.read_facts(reader, pack, is_attested=True)
    # A projection cutover has proved that what it found up to its cutoff is covered, with or without a WorkItem.
    cutoff = read_cutoffs(reader, (pack["PackInstallId"],)).get(pack["PackInstallId"])
    inputs = count_inputs_without_item(reader, pack["PackInstallId"], cutoff)
    uncovered = facts.events_to_materialize + facts.events_without_route + int(inputs["AboveCutoff"])
    counts = {
        "events_processing": (facts.events_processing, "Events are executed by the Event executor"),
        "event_claims": (facts.event_claims, "Events hold a claim token"),
        "coverage": (uncovered, "Events that have not ended have no WorkItem, and no projection cutover covers them"),
        "owners": (facts.ambiguous_events, "Events have WorkItems under both work types"),
        "rollbacks": (facts.outcomes_awaited + facts.outcomes_unknown, "WorkItems wait for a legacy outcome"),
    }
    found += [
        Agreement(name=name, agrees=count == 0, sentence=f"{count} {what}.") for name, (count, what) in counts.items()
    ]
    return tuple(found)


def _agreement(name: str, against: Any, what: str) -> Agreement:
    named = f": {', '.join(list(against)[:5])}" if against else ""
    return Agreement(name=name, agrees=not against, sentence=f"{len(against)} {what}{named}.")


def _named_processes(proof: Mapping[str, Any]) -> set[str]:
    named = proof.get("processes")
    if not isinstance(named, list):
        return set()
    return {str(one["process_id"]) for one in named if isinstance(one, dict) and "process_id" in one}


def _proof_of(row: Row) -> Mapping[str, Any]:
    try:
        proof = json.loads(row["Proof"])
    except (ValueError, RecursionError):
        return {}
    return proof if isinstance(proof, dict) else {}


def _receipt(row: Row) -> Receipt:
    return Receipt(
        receipt_id=row["ReceiptId"],
        direction=row["Direction"],
        owner_generation=row["OwnerGeneration"],
        kind=str(_proof_of(row).get("kind", "")),
        written_at=row["WrittenAt"],
        written_by=row["WrittenBy"],
        proof_digest=row["ProofDigest"],
    )


def _find_pack(pack_install_id: str) -> Row:
    by_id = {"pack_install_id": check_pack_install_id(pack_install_id)}
    found = db.read().fetch_one(packs.FIND_PACK, by_id)
    if found is None:
        raise errors.PackNotFound
    return found
