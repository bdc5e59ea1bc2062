"""Packs that are rolled back: who does it, what waits in them, and what is left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from integration.cutover import receipts
from integration.cutover.inbound import projector, rollback
from integration.cutover.inbound.projector import Reconciled
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.cutover.inbound.rollback_steps import RolledBack
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.storage import db
from integration.storage.locks import LockedPack, lock_pack
from integration.values import Actor, new_id
from tests.support.legacy import LegacyPack
from tests.support.work import change, insert, query

OWNER = Actor(user_id=None, name="ana", via="command", permissions=frozenset({CUTOVER_PERMISSION}))
BUILD = "tests"
FENCES, OUTCOMES = "_System_ConnectorRollbackFence", "_System_ConnectorLegacyOutcomeReceipt"


class MovedPack(LegacyPack):
    """A pack whose work is the WorkItems', with a live route."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"flow": "tests.end", **values})
        self.route()
        self.receipt_id = new_id()
        self.generation = 1
        db.run(lambda tx: self._move(lock_pack(tx, self.pack_id)), name="tests.move")

    def _move(self, pack: LockedPack) -> None:
        receipts.append(
            pack,
            receipt_id=self.receipt_id,
            direction=receipts.Direction.FORWARD,
            kind="test",
            facts={},
            actor=OWNER,
        )

    def waiting(self, count: int = 1, *, end: str = "well", **over: Any) -> list[str]:
        """Admit items that were never claimed; return their WorkIds."""
        return self.admit(count, payload={"end": end}, **over)

    def released(self, **over: Any) -> str:
        """Admit an item that a draining worker gave back before its flow was called; return its WorkId."""
        return self.tried("retry", FailureClass="released", **over)

    def tried(self, state: str, *, attempts: int = 1, dispatched: bool = True, **over: Any) -> str:
        """Admit an item with attempts whose ends are still to be told by the item; return its WorkId."""
        (work_id,) = self.waiting(**{"State": state, "Attempt": attempts, "MaxAttempts": 4, **over})
        change(
            "UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item' WHERE EventId ="
            " (SELECT EventId FROM _System_ConnectorWorkItem WHERE WorkId = %s)",
            work_id,
        )
        for number in range(1, attempts + 1):
            change(
                "INSERT INTO _System_ConnectorExecutionAttempt"
                " (WorkId, Attempt, OwnershipEpoch, StartedAt, DispatchedAt) VALUES"
                f" (%s, %s, %s, UTC_TIMESTAMP(6), {'UTC_TIMESTAMP(6)' if dispatched else 'NULL'})",
                work_id,
                number,
                number,
            )
        return work_id

    def worker_row(self, **over: Any) -> str:
        """Insert the row of a worker that may claim from this pack; return its id."""
        now = datetime.now(UTC)
        row = {
            "ProcessId": new_id(),
            "Kind": "work_item",
            "BuildVersion": "tests",
            "Host": "here",
            "PackInstallId": self.pack_id,
            "ObservedReceiptId": self.receipt_id,
            "StartedAt": now,
            "HeartbeatAt": now,
            **over,
        }
        insert("_System_ConnectorClaimProcess", [row])
        return str(row["ProcessId"])

    def roll_back(self, **over: Any) -> RolledBack:
        """Roll it back."""
        options = {"actor": OWNER, "reason": "The new build loses deals", "attestation": "none runs", **over}
        return rollback.roll_back(self.pack_id, **{"approved_builds": [BUILD], **options})

    def refusal(self, **over: Any) -> str:
        """Try to roll it back; return the code of what stands in the way."""
        try:
            done = self.roll_back(**over)
        except RollbackRefused as refused:
            return refused.finding.code.value
        message = f"it was rolled back: {done}"
        raise AssertionError(message)

    def reconcile(self) -> Reconciled:
        """Reconcile its rollback."""
        return projector.reconcile(self.pack_id, actor=OWNER)

    def run_out(self) -> dict[str, int]:
        """Run an executor until nothing is due; return what it stored."""
        executor = self.executor()
        while executor.round():
            pass
        executor._say_stopped()
        return dict(executor.report().ended)


def fence_row(fence_id: str) -> dict[str, Any]:
    """Return a rollback fence's whole row."""
    (row,) = query(f"SELECT * FROM {FENCES} WHERE FenceId = %s", fence_id)
    return row


def outcome_rows() -> list[dict[str, Any]]:
    """Return every outcome receipt, by Event."""
    return query(f"SELECT * FROM {OUTCOMES} ORDER BY EventId, WorkType")


def receipts_of(pack_id: str) -> list[dict[str, Any]]:
    """Return a pack's cutover receipts, oldest first."""
    return query(
        "SELECT * FROM _System_ConnectorCutoverReceipt WHERE PackInstallId = %s ORDER BY OwnerGeneration", pack_id
    )
