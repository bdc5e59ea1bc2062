"""A receipt's proof, digest and chain: every change to what was written is found, and named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integration.cutover import receipts
from integration.cutover.receipts import Direction, FaultCode
from integration.storage.locks import LockedPack
from integration.storage.sql import cutovers
from integration.values import Actor, canonical_json, digest_text, new_id

ACTOR = Actor(user_id=7, name="owner")


class Shelf:
    """A transaction that keeps receipts in memory."""

    open = True

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
        self.rows: list[dict[str, Any]] = []

    def fetch_one(self, statement: Any, params: Any = None) -> Any:
        if statement is cutovers.NEWEST_CUTOVER_RECEIPT:
            return self.rows[-1] if self.rows else None
        self.now += timedelta(microseconds=1)
        return {"Now": self.now}

    def execute(self, statement: Any, params: Any) -> int:
        assert statement is cutovers.INSERT_CUTOVER_RECEIPT
        self.rows.append({"".join(part.title() for part in name.split("_")): params[name] for name in params})
        return 1


def chain(length: int) -> list[dict[str, Any]]:
    """Return the rows of so many transitions, back and forth."""
    shelf = Shelf()
    pack = LockedPack(_tx=shelf, row={"PackInstallId": new_id()})  # type: ignore[arg-type]
    for number in range(length):
        receipts.append(
            pack,
            receipt_id=new_id(),
            direction=(Direction.FORWARD, Direction.ROLLBACK)[number % 2],
            kind="inbound_forward",
            facts={"counts": {"event_claims": 0}, "processes": ["caf\u00e9"]},
            actor=ACTOR,
        )
    return shelf.rows


def found(rows: list[dict[str, Any]]) -> list[tuple[int, FaultCode]]:
    return [(fault.owner_generation, fault.code) for fault in receipts.find_faults(rows)]


def test_append__gives_the_next_generation_and_names_the_receipt_before_it():
    first, second, third = chain(3)
    assert [row["OwnerGeneration"] for row in (first, second, third)] == [1, 2, 3]
    assert [row["PreviousReceiptId"] for row in (second, third)] == [first["ReceiptId"], second["ReceiptId"]]
    assert first["PreviousReceiptId"] is None
    assert first["ProofDigest"] == digest_text(first["Proof"])
    assert f'"previous_proof_digest":"{first["ProofDigest"]}"' in second["Proof"]


@pytest.mark.parametrize("length", [0, 1, 4])
def test_faults__of_what_was_written_are_none(length: int):
    assert receipts.find_faults(chain(length)) == ()


def test_append__lets_no_fact_speak_for_the_receipt():
    shelf = Shelf()
    pack = LockedPack(_tx=shelf, row={"PackInstallId": new_id()})  # type: ignore[arg-type]
    facts = {"direction": "rollback", "owner_generation": 9, "kind": "other", "written_at": "never"}
    receipt = receipts.append(
        pack, receipt_id=new_id(), direction=Direction.FORWARD, kind="inbound_forward", facts=facts, actor=ACTOR
    )
    assert (receipt.proof["direction"], receipt.proof["owner_generation"]) == ("forward", 1)
    assert receipt.proof["kind"] == "inbound_forward"
    assert receipts.find_faults(shelf.rows) == ()


EDITS = {
    "ReceiptId": "another",
    "PackInstallId": "another",
    "Direction": "rollback",
    "PreviousReceiptId": "another",
    "WrittenBy": "another",
    "WrittenAt": datetime(2026, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("column", EDITS)
def test_faults__name_a_column_that_was_edited(column: str):
    rows = chain(1)
    rows[0][column] = EDITS[column]
    assert (1, FaultCode.COLUMN) in found(rows)


def test_faults__of_an_edited_proof_are_its_digest():
    rows = chain(3)
    rows[1]["Proof"] = rows[1]["Proof"].replace('"event_claims":0', '"event_claims":1')
    assert found(rows) == [(2, FaultCode.DIGEST)]


def test_faults__of_a_proof_edited_with_its_digest_are_in_the_receipt_after_it():
    rows = chain(3)
    rows[1]["Proof"] = rows[1]["Proof"].replace('"event_claims":0', '"event_claims":1')
    rows[1]["ProofDigest"] = digest_text(rows[1]["Proof"])
    assert found(rows) == [(3, FaultCode.CHAIN)]


def test_faults__of_an_edited_digest_are_in_both():
    rows = chain(2)
    rows[0]["ProofDigest"] = "0" * 64
    assert found(rows) == [(1, FaultCode.DIGEST), (2, FaultCode.CHAIN)]


def test_faults__of_a_receipt_that_is_gone_are_a_gap():
    rows = chain(3)
    del rows[1]
    assert found(rows) == [(3, FaultCode.GAP), (3, FaultCode.CHAIN)]
    assert found(chain(3)[1:]) == [(2, FaultCode.GAP), (2, FaultCode.CHAIN)]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"b": 1}', "[" * 100_000])
def test_faults__of_what_is_no_canonical_object_are_that_it_cannot_be_read(text: str):
    rows = chain(1)
    rows[0] |= {"Proof": text, "ProofDigest": digest_text(text)}
    assert (1, FaultCode.UNREADABLE) in found(rows)


def test_faults__of_a_proof_that_says_nothing_of_itself_are_every_column():
    rows = chain(1)
    text = canonical_json({"kind": "inbound_forward"})
    rows[0] |= {"Proof": text, "ProofDigest": digest_text(text)}
    assert [code for _, code in found(rows)].count(FaultCode.COLUMN) == 7
