"""What a pack's receipts prove: from the receipts alone, then against today's rows."""

from __future__ import annotations

from typing import Any

import pytest

from integration.cutover.inbound.verify import verify
from integration.cutover.receipts import FaultCode
from integration.legacy.process import register_executor
from integration.values import digest_text
from integration.work.process import register_process
from tests.support import webhooks
from tests.support.inbound import forward, receipts_of, roll_back
from tests.support.legacy import LegacyPack
from tests.support.work import change

pytestmark = pytest.mark.django_db


@pytest.fixture
def pack() -> LegacyPack:
    """A pack that went forward, back, and forward again."""
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    register_executor(pack.pack_id, build_version="v1")
    pack.events(2)
    forward(pack)
    roll_back(pack)
    forward(pack)
    return pack


def faults(pack: LegacyPack) -> list[tuple[int, str]]:
    return [(fault.owner_generation, fault.code) for fault in verify(pack.pack_id).faults]


def against(pack: LegacyPack) -> list[str]:
    return [agreement.name for agreement in verify(pack.pack_id).agreements if not agreement.agrees]


@pytest.mark.evidence("C-01")
def test_receipts__of_cutovers_back_and_forth_hold(pack):
    found = verify(pack.pack_id)
    assert found.holds
    assert [(one.owner_generation, one.direction, one.kind) for one in found.receipts] == [
        (1, "forward", "inbound_forward"),
        (2, "rollback", "inbound_rollback"),
        (3, "forward", "inbound_forward"),
    ]


def test_receipt__of_an_activation_holds():
    assert verify(webhooks.activate()).holds


EDITS: dict[str, tuple[str, Any, tuple[int, str]]] = {
    "direction": ("Direction", "rollback", (1, FaultCode.COLUMN)),
    "writer": ("WrittenBy", "another", (1, FaultCode.COLUMN)),
    "time": ("WrittenAt", "2026-01-01 00:00:00", (1, FaultCode.COLUMN)),
    "digest": ("ProofDigest", "0" * 64, (1, FaultCode.DIGEST)),
    "proof": ("Proof", "{}", (1, FaultCode.DIGEST)),
}


@pytest.mark.parametrize("name", EDITS)
def test_receipt__edited_by_hand_is_named(pack, name):
    column, value, fault = EDITS[name]
    change(
        f"UPDATE _System_ConnectorCutoverReceipt SET {column} = %s WHERE OwnerGeneration = 1 AND PackInstallId = %s",
        value,
        pack.pack_id,
    )
    assert fault in faults(pack)
    assert {generation for generation, _ in faults(pack)} <= {1, 2}


def test_receipt__edited_with_its_digest_breaks_the_chain_after_it(pack):
    row = receipts_of(pack)[1]
    proof = row["Proof"].replace('"kind":"inbound_rollback"', '"kind":"inbound_forward"')
    change(
        "UPDATE _System_ConnectorCutoverReceipt SET Proof = %s, ProofDigest = %s WHERE ReceiptId = %s",
        proof,
        digest_text(proof),
        row["ReceiptId"],
    )
    assert faults(pack) == [(3, FaultCode.CHAIN)]


def test_receipt__taken_out_leaves_a_gap(pack):
    change("DELETE FROM _System_ConnectorCutoverReceipt WHERE OwnerGeneration = 2")
    assert faults(pack) == [(3, FaultCode.GAP), (3, FaultCode.CHAIN)]


def test_receipt__taken_off_the_end_is_missed_by_who_observed_it(pack):
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    assert process.fence_for(pack.pack_id) is not None
    change("DELETE FROM _System_ConnectorCutoverReceipt WHERE OwnerGeneration = 3")
    assert faults(pack) == []
    assert against(pack) == ["observed_receipts"]
    assert not verify(pack.pack_id).holds


# What today's database says


def revive(pack: LegacyPack) -> None:
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = NULL WHERE Kind = 'event_legacy'")


def forget(pack: LegacyPack) -> None:
    change("DELETE FROM _System_ConnectorClaimProcess WHERE Kind = 'event_legacy'")


def claim_as_an_old_build(pack: LegacyPack) -> None:
    change("UPDATE _System_ConnectorEvent SET Status = 'processing', ClaimToken = 't'")


def name_twice(pack: LegacyPack) -> None:
    (event_id,) = pack.events()
    pack.mirror(event_id)
    pack.mirror(event_id, WorkType="workflow_action_apply")


DISAGREEMENTS = {
    "revived": (revive, {"executors", "processes"}),
    "forgotten": (forget, {"process_rows"}),
    "claimed": (claim_as_an_old_build, {"events_processing", "event_claims"}),
    "uncovered": (lambda pack: pack.events(), {"coverage"}),
    "named twice": (name_twice, {"owners"}),
}


@pytest.mark.evidence("C-01", "C-02")
@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_proof__that_the_database_no_longer_agrees_with_is_told(pack, name):
    spoil, expected = DISAGREEMENTS[name]
    spoil(pack)
    assert faults(pack) == []
    assert set(against(pack)) == expected
