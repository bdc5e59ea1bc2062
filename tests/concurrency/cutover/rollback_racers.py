"""What racing processes run around a rollback."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from integration.cutover.inbound import rollback, rollback_steps
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.storage.locks import lock_process
from integration.work import claim as claims
from integration.work import process as processes
from integration.work.claim import claim
from integration.work.items import candidate_from_row
from integration.work.process import register_process
from tests.concurrency.cutover import fence_racers
from tests.concurrency.cutover.projection_racers import without_locks
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.rollback import BUILD, OWNER
from tests.support.work import due_rows

_PROCESSES = "_System_ConnectorClaimProcess"


def roll_back(pack_id: str, *, chunk: int = 500) -> dict[str, Any]:
    """Roll a pack back; return the rollback, or the code of what stands in the way."""
    try:
        done = rollback.roll_back(
            pack_id, actor=OWNER, reason="race", attestation="none", approved_builds=[BUILD], chunk=chunk
        )
    except RollbackRefused as refused:
        return {"refused": refused.finding.code.value}
    return asdict(done)


def claim_or_roll_back(part: str, pack_id: str, folder: str, *, guarded: bool = True) -> Any:
    """Play one of the two sides of a claim that a rollback meets."""
    return {"claim": _claim_in_flight, "rollback": _roll_back_after, "late": _claim_late}[part](
        pack_id, Path(folder), guarded=guarded
    )


def _claim_in_flight(pack_id: str, folder: Path, *, guarded: bool) -> list[str]:
    """Claim, and stay before the commit until the rollback is seen to wait for this process's row."""
    fence = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests").fence_for(pack_id)
    assert fence is not None
    insert = claims._insert_attempts

    def insert_and_stay(tx: Any, wanted: Any) -> None:
        insert(tx, wanted)
        hold_until_waited_for(folder, _PROCESSES)

    claims._insert_attempts = insert_and_stay
    return [taken.work_id for taken in claim([candidate_from_row(row) for row in due_rows()], fence).claims]


def _roll_back_after(pack_id: str, folder: Path, *, guarded: bool) -> dict[str, Any]:
    await_lock(folder)
    return roll_back(pack_id)


def _claim_late(pack_id: str, folder: Path, *, guarded: bool) -> list[str]:
    """Observe the forward receipt, let the rollback and an admission pass by, then claim what was admitted."""
    fence = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests").fence_for(pack_id)
    assert fence is not None
    (folder / "observed").touch()
    await_file(folder / "rolled-back")
    if not guarded:
        claims.lock_fence = lambda tx, fence: lock_process(tx, fence.process_id)  # type: ignore[attr-defined]
    return [taken.work_id for taken in claim([candidate_from_row(row) for row in due_rows()], fence).claims]


def register_beside(pack_id: str, *, guarded: bool = True) -> bool:
    """Try to register for a pack's claims."""
    if not guarded:
        processes._is_rolling_back = lambda tx, pack_install_id: False
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    return process.fence_for(pack_id) is not None


def beside(part: str, options: dict[str, Any]) -> Any:
    """Play one side of an admission or a replay that a rollback meets."""
    return _roll_back_beside(**options) if part == "rollback" else fence_racers.play(part, options)


def _roll_back_beside(folder: str, pack_id: str, *, guarded: bool) -> dict[str, Any]:
    """Roll back while the other holds the pack's row, or, without locks, go past it."""
    if not guarded:
        without_locks(rollback_steps)
    await_lock(Path(folder))
    found = roll_back(pack_id)
    (Path(folder) / fence_racers.ARMED).touch()
    return found
