"""What the processes of the admission's races run; a process takes guards away from its own admission alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from integration.ingress import service
from integration.projection import admission as admitting
from integration.storage.locks import LockedEvent, LockedPack, LockedWorkItem
from integration.storage.sql import projections
from integration.storage.statements import LockRank, Statement
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim_next
from integration.work.finish import complete
from integration.work.process import WorkerProcess, register_process
from tests.support import admission, webhooks
from tests.support.work import item_row

_LONGEST_SECONDS = 200.0


def await_file(path: Path) -> None:
    """Wait until another process has made a file."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, path.name
        time.sleep(0.005)


def _unlocked(statement: Statement) -> Statement:
    return replace(statement, text=statement.text.replace("FOR UPDATE", ""), locks=())  # type: ignore[arg-type]


def _cut(statement: Statement, before: str) -> Statement:
    head, found, _ = statement.text.partition(before)
    assert found
    return replace(statement, text=head)  # type: ignore[arg-type]


def without_locks() -> None:
    """Decide by plain reads of the rows that the admission locks."""

    def events(pack: LockedPack, ids: Sequence[str]) -> list[LockedEvent]:
        rows = pack.tx.fetch_all(_unlocked(projections.LOCK_SELECTED_EVENTS), {"event_ids": tuple(ids)})
        pack.tx.lock_trace.append(LockRank.EVENT)
        return [LockedEvent(_tx=pack.tx, row=row) for row in rows]

    def generations(pack: LockedPack, ids: Sequence[str]) -> list[LockedWorkItem]:
        rows = pack.tx.fetch_all(_unlocked(projections.LOCK_GENERATIONS), {"work_ids": tuple(ids)})
        # The writes believe that the locks were taken.
        pack.tx.lock_trace.append(LockRank.WORK_ITEM)
        return [LockedWorkItem(_tx=pack.tx, row=row) for row in rows]

    admitting.lock_selected_events = events
    admitting.lock_generations = generations


def without_swap() -> None:
    """Extend whatever the generation and its selected Event have become."""
    projections.EXTEND_GENERATION = _cut(projections.EXTEND_GENERATION, "AND EventId =")
    projections.SKIP_SUPERSEDED_EVENTS = _cut(projections.SKIP_SUPERSEDED_EVENTS, "AND ExecutionOwner")


_REMOVED = {"locks": without_locks, "swap": without_swap}


def admit_while(folder: str, pause_at: str, removed: list[str]) -> str:
    """Admit once the other process is ready; stop at a point until it has done its part."""
    place = Path(folder)
    await_file(place / "ready")
    for guard in removed:
        _REMOVED[guard]()

    def failpoint(name: str) -> None:
        if name == pause_at:
            (place / "paused").touch()
            await_file(place / "done")

    admitting.failpoint = failpoint
    return str(service.materialize_ready())


def claim_in_between(folder: str) -> list[Any]:
    """Claim while the admission stands still; return the generation and its bounds as they were claimed."""
    place = Path(folder)
    process = _register()
    (place / "ready").touch()
    await_file(place / "paused")
    claim = _claim(process)
    bounds = bounds_of(claim.work_id)
    (place / "done").touch()
    return bounds


def end_in_between(folder: str) -> list[Any]:
    """Claim before the admission begins, and complete while it stands still."""
    place = Path(folder)
    claim = _claim(_register())
    bounds = bounds_of(claim.work_id)
    (place / "ready").touch()
    await_file(place / "paused")
    complete(claim)
    (place / "done").touch()
    return bounds


def bounds_of(work_id: str) -> list[Any]:
    """Return a generation's id, both bounds and its selected Event."""
    row = item_row(work_id)
    return [work_id, row["InputStartOrdinal"], row["LaneOrdinal"], row["EventId"]]


def _register() -> WorkerProcess:
    """Register with a fence for every pack, which takes the pack's lock and so cannot be done in between."""
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    assert all(process.fence_for(pack_id) is not None for pack_id in process.pack_ids())
    return process


def _claim(process: WorkerProcess) -> Claim:
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    return claim


def play(part: str, folder: str, **options: Any) -> Any:
    """Play one part of a race."""
    return _PARTS[part](folder, **options)


def admit_all(folder: str, lanes: int, rounds: int, name: str) -> int:
    """Store and admit receipts of every lane in small pages, beside others that do the same; the first one is claimed."""
    count = 0
    for number in range(rounds):
        if number == 1:
            await_file(Path(folder) / "claimed")
        for lane in range(lanes):
            admission.receive(webhooks.deal(lane), f"{name}-{number}-{lane}")
        count += admission.materialize_patiently(3)
    while (done := admission.materialize_patiently(3)) or _is_waiting():
        count += done
    (Path(folder) / f"over-{name}").touch()
    return count


def claim_all(folder: str, others: list[str]) -> list[Any]:
    """Claim and complete until the admissions are over; return what each claim had, and what it had at its end."""
    process = _register()
    queue = CandidateQueue(process)
    found = []
    deadline = time.monotonic() + _LONGEST_SECONDS
    while True:
        assert time.monotonic() < deadline
        is_over = all((Path(folder) / f"over-{name}").exists() for name in others)
        claim = claim_next(process, queue)
        if claim is None:
            if is_over and not any(row["State"] in {"pending", "processing"} for row in admission.generations()):
                return found
            continue
        (Path(folder) / "claimed").touch()
        first = bounds_of(claim.work_id)
        last = bounds_of(claim.work_id)
        complete(claim)
        found.append([first, last])


def _is_waiting() -> bool:
    return any(row["State"] == "received" for row in webhooks.rows("IngressReceipt"))


_PARTS: dict[str, Any] = {
    "admit": admit_while,
    "claim": claim_in_between,
    "end": end_in_between,
    "admit_all": admit_all,
    "claim_all": claim_all,
}
