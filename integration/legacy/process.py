"""The executor's own process row, of the kind `event_legacy`: a cutover evicts it as it does a worker's.

Of a pack that was rolled back only a bridge-compatible process is admitted: a build that writes outcome receipts, and
that the rollback's receipt names.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from integration.legacy.lease import refuse_seized
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import LockedProcess, lock_pack, lock_process
from integration.storage.sql import cutovers, legacy, processes, rollback_fences
from integration.values import new_id
from integration.work.legacy_outcomes import approved_builds_of
from integration.work.process import ClaimFenced

_ROLLBACK = "rollback"


class BridgeRefused(ClaimFenced):
    """The rollback of this pack does not admit this build; start one that its receipt names."""

    code = "bridge_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventProcess:
    """One running executor, as the database knows it.

    Attributes:
        process_id: Its row.
        pack_install_id: The one pack whose Events it executes.
        observed_receipt_id: The rollback receipt that it found; None when the pack has no receipt.
        rollback_fence_id: The fence that this receipt sealed; None when the pack has no receipt.
    """

    process_id: str
    pack_install_id: str
    observed_receipt_id: str | None
    rollback_fence_id: str | None = None

    def beat(self) -> None:
        """Record that the process lives.

        Locks: PROCESS.
        """
        db.execute_alone(processes.RECORD_HEARTBEATS, {"process_ids": (self.process_id,), "in_flight": 0})

    def stop(self) -> None:
        """Record that the process has stopped; call it only when it executes nothing.

        Locks: PROCESS.
        """
        db.execute_alone(processes.MARK_PROCESSES_STOPPED, {"process_ids": (self.process_id,)})


def register_executor(pack_install_id: str, *, build_version: str) -> EventProcess:
    """Insert an executor's row under its pack's lock, so that a cutover sees it or comes before it.

    Args:
        pack_install_id: The pack.
        build_version: Which build it is.

    Returns:
        The process.

    Raises:
        PackNotFound: There is no such incarnation.
        ClaimFenced: The pack's newest cutover receipt is a forward one: its Events are executed by WorkItems. Or a
            cutover is under way.
        BridgeRefused: It is a rollback's, and the rollback does not admit this build.

    Locks: PACK.
    Rule: C-10.
    """
    process_id = new_id()

    def unit(tx: Tx) -> EventProcess:
        lock_pack(tx, pack_install_id)
        receipt = _newest_receipt(tx, pack_install_id)
        refuse_forward(receipt, pack_install_id)
        refuse_seized(tx, pack_install_id)
        process = EventProcess(
            process_id=process_id,
            pack_install_id=pack_install_id,
            observed_receipt_id=None if receipt is None else receipt["ReceiptId"],
            rollback_fence_id=None if receipt is None else _find_fence(tx, receipt["ReceiptId"], build_version),
        )
        tx.execute(
            legacy.INSERT_EVENT_PROCESS,
            {
                "process_id": process_id,
                "build_version": build_version,
                "host": socket.gethostname()[:255],
                "pack_install_id": pack_install_id,
                "observed_receipt_id": process.observed_receipt_id,
                "bridge_compatible": process.rollback_fence_id is not None,
            },
        )
        stored[:] = [process]
        return process

    def settle(reader: Reader) -> EventProcess | None:
        # The run whose COMMIT was not answered is the last one.
        return stored[0] if reader.fetch_one(processes.FIND_PROCESS, {"process_id": process_id}) else None

    stored: list[EventProcess] = []
    return db.run(unit, name="legacy.register", settle=settle)


def lock_executor(tx: Tx, process: EventProcess) -> LockedProcess:
    """Lock an executor's row and make sure that it still may claim.

    Args:
        tx: The claim's transaction.
        process: The executor.

    Returns:
        The locked row.

    Raises:
        ClaimFenced: It was stopped or evicted, or a cutover receipt was written since it registered.
        BridgeRefused: The pack was rolled back, and the row is not that of a bridge-compatible process.

    Locks: PROCESS.
    """
    locked = lock_process(tx, process.process_id)
    if locked.row["StoppedAt"] is not None or locked.row["EvictedAt"] is not None:
        raise ClaimFenced(process_id=process.process_id)
    # Read after the lock: a cutover writes its receipt only after it has waited for this row.
    receipt = _newest_receipt(tx, process.pack_install_id)
    refuse_forward(receipt, process.pack_install_id)
    if (None if receipt is None else receipt["ReceiptId"]) != process.observed_receipt_id:
        raise ClaimFenced(pack_install_id=process.pack_install_id)
    if receipt is not None and not locked.row["BridgeCompatible"]:
        raise BridgeRefused(process_id=process.process_id)
    return locked


def refuse_forward(receipt: Row | None, pack_install_id: str) -> None:
    """Refuse a pack whose work has moved to WorkItems.

    Raises:
        ClaimFenced: The newest receipt is a forward one, or one of a direction that this build does not know.
    """
    if receipt is not None and receipt["Direction"] != _ROLLBACK:
        message = "This pack's newest cutover receipt is not a rollback: its Events are not executed any more."
        raise ClaimFenced(message, pack_install_id=pack_install_id)


def _newest_receipt(tx: Tx, pack_install_id: str) -> Row | None:
    return tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack_install_id})


def _find_fence(tx: Tx, receipt_id: str, build_version: str) -> str:
    """Return the fence that a rollback's receipt sealed, if the receipt names this build."""
    row = tx.fetch_one(rollback_fences.FIND_FENCE_OF_RECEIPT, {"receipt_id": receipt_id})
    builds = () if row is None else approved_builds_of(row["Proof"])
    if row is None or build_version not in builds:
        admitted = ", ".join(builds) or "none"
        message = (
            f"The rollback of this pack admits these builds: {admitted}; this is {build_version}. Start one of those."
        )
        raise BridgeRefused(message, build_version=build_version, approved_builds=builds, receipt_id=receipt_id)
    return str(row["FenceId"])
