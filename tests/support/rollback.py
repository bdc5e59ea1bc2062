"""Packs that are rolled back: who does it, what waits in them, and what is left."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batteries import forking
from integration import failpoints
from integration.cutover import receipts
from integration.cutover.inbound import projector, rollback
from integration.cutover.inbound.projector import Reconciled
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.cutover.inbound.rollback_steps import RolledBack
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.storage import db
from integration.storage.locks import LockedPack, lock_pack
from integration.values import Actor, new_id
from integration.work.legacy_outcomes import RECEIPT_VERSION, outcome_digest
from tests.support.work import Pack, change, insert, item_row, query

OWNER = Actor(user_id=None, name="ana", via="command", permissions=frozenset({CUTOVER_PERMISSION}))
BUILD = "tests"
FENCES, OUTCOMES = "_System_ConnectorRollbackFence", "_System_ConnectorLegacyOutcomeReceipt"


def write_forward_receipt(pack_id: str) -> str:
    """Write a pack's first receipt as the program does, instead of any that was made up; return its id."""
    receipt_id = new_id()
    change("DELETE FROM _System_ConnectorCutoverReceipt WHERE PackInstallId = %s", pack_id)

    def append(pack: LockedPack) -> None:
        receipts.append(
            pack,
            receipt_id=receipt_id,
            direction=receipts.Direction.FORWARD,
            kind="test",
            facts={},
            actor=OWNER,
        )

    db.run(lambda tx: append(lock_pack(tx, pack_id)), name="tests.move")
    return receipt_id


class MovedPack(Pack):
    """A pack whose work is the WorkItems', with a live route."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"flow": "tests.end", "direction": None, **values})
        self.route()
        self.receipt_id, self.generation = write_forward_receipt(self.pack_id), 1

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


def deliver_end(work_id: str, status: str = "processed") -> None:
    """End the Event of an item that a rollback holds, and leave the receipt that its executor would."""
    (item,) = query("SELECT * FROM _System_ConnectorWorkItem WHERE WorkId = %s", work_id)
    key = {
        "event_id": item["EventId"],
        "work_type": item["WorkType"],
        "rollback_fence_id": item["RollbackExecutionFenceId"],
        "outcome": status,
    }
    change(
        "UPDATE _System_ConnectorEvent SET Status = %s, TerminalAt = UTC_TIMESTAMP(6) WHERE EventId = %s",
        status,
        item["EventId"],
    )
    row = {
        "EventId": item["EventId"],
        "WorkType": item["WorkType"],
        "RollbackFenceId": item["RollbackExecutionFenceId"],
        "ReceiptVersion": RECEIPT_VERSION,
        "Outcome": status,
        "Digest": outcome_digest(**key),
        "WrittenAt": datetime.now(UTC),
    }
    insert(OUTCOMES, [row])


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


def kill(folder: Path, point: str, act: Callable[[], Any]) -> None:
    """Do something in a process of its own that kills itself at a point, and see that it has."""

    def until_killed() -> None:
        failpoints._ARMED = point
        act()

    child = forking.fork(folder, until_killed)
    assert child.wait() == -signal.SIGKILL, child.tail()


def states(work_ids: list[str]) -> Counter[str]:
    """Count items by their state."""
    return Counter(item_row(work_id)["State"] for work_id in work_ids)
