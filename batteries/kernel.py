"""The kernel's public functions, as batteries call them: the one module that follows when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from integration import errors
from integration.states import FailureClass
from integration.work import claim as claims
from integration.work import finish, metrics, reap
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim
from integration.work.items import Candidate
from integration.work.options import Options, Report
from integration.work.process import Fence, WorkerProcess, register_process
from integration.work.supervisor import Supervisor

#: Whether one transaction may take several later claims.
_LATER_TOGETHER = hasattr(Candidate, "batch")


def register(*roles: str) -> WorkerProcess:
    """Register a process of the battery."""
    return register_process(roles=frozenset(roles or {"claim"}), concurrency=1, build_version="batteries")


def candidates(process: WorkerProcess, count: int) -> list[Candidate]:
    """Read what is due, once, in the order in which it would be claimed."""
    queue = CandidateQueue(process, window=count)
    found: dict[str, Candidate] = {}
    while len(found) < count:
        taken = queue.take(count)
        if not taken or taken[0].work_id in found:
            break
        found.update({item.work_id: item for item in taken})
    return list(found.values())


def fence_of(process: WorkerProcess, item: Candidate) -> Fence:
    """Return the process's fence for an item's pack."""
    fence = process.fence_for(item.pack_install_id)
    if fence is None:
        message = "the pack may not be claimed from"
        raise RuntimeError(message)
    return fence


def batches(items: Sequence[Candidate], size: int) -> Iterator[list[Candidate]]:
    """Cut candidates into what one claim transaction may take."""
    for _, group in groupby(items, key=lambda item: (item.pack_install_id, item.state, item.attempt, item.epoch)):
        members = list(group)
        step = size if members[0].is_first or _LATER_TOGETHER else 1
        for start in range(0, len(members), step):
            yield members[start : start + step]


def claim(process: WorkerProcess, items: Sequence[Candidate], *, lease_seconds: int = 60) -> list[Claim]:
    """Try to claim candidates in one transaction; return what was won."""
    return list(claims.claim(items, fence_of(process, items[0]), lease_seconds=lease_seconds).claims)


def claim_all(process: WorkerProcess, count: int, *, lease_seconds: int = 60, size: int = 8) -> list[Claim]:
    """Claim what is due, until so many are won or nothing is left."""
    won: list[Claim] = []
    for batch in batches(candidates(process, count), size):
        won += claim(process, batch[: count - len(won)], lease_seconds=lease_seconds)
        if len(won) >= count:
            break
    return won


def reap_now(process: WorkerProcess, limit: int = 100) -> int:
    """Take back every expired lease, without slack; return how many."""
    return reap.reap_expired(process, slack_seconds=0, limit=limit).total


def _is_ended(write: Callable[[], object]) -> bool:
    try:
        write()
    except errors.StaleClaim:
        return False
    return True


#: Every way in which a claimant may write to its item: True when the write was accepted.
WRITES: dict[str, Callable[[Claim], bool]] = {
    "complete": lambda claim: _is_ended(lambda: finish.complete(claim)),
    "skip": lambda claim: _is_ended(lambda: finish.skip(claim)),
    "retry": lambda claim: _is_ended(lambda: finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=0)),
    "bury": lambda claim: _is_ended(lambda: finish.bury(claim, FailureClass.FLOW_ERROR)),
    "acknowledge_cancel": lambda claim: _is_ended(lambda: finish.acknowledge_cancel(claim)),
    "renew": claims.renew,
}


def _later_writes() -> dict[str, Callable[[Claim], bool]]:
    found: dict[str, Callable[[Claim], bool]] = {}
    release = getattr(finish, "release", None)
    if release is not None:
        found["release"] = release
    many: Any = getattr(finish, "finish_many", None)
    if many is not None:
        found["complete_many"] = lambda claim: bool(many([claim], finish.Ended.COMPLETE))
    return found


WRITES |= _later_writes()


def work_until_idle(
    *,
    roles: Sequence[str] = ("claim", "reap"),
    concurrency: int = 2,
    lease_seconds: int = 60,
    slack_seconds: int = 0,
) -> dict[str, Any]:
    """Run a whole worker until nothing is left; return its report and how many stale writes it met."""
    import batteries.flows  # noqa: F401 - registers the flows of the batteries

    report: Report = Supervisor(
        Options(
            roles=frozenset(roles),
            concurrency=concurrency,
            poll_seconds=0.005,
            lease_seconds=lease_seconds,
            slack_seconds=slack_seconds,
            until_idle=True,
            build_version="batteries",
        )
    ).run()
    return {"executed": report.executed, "stale": metrics.STALE._value.get(), "drained": report.drained}


def runs(file: Path) -> list[tuple[str, int]]:
    """Return which attempts ran a flow, in order."""
    if not file.exists():
        return []
    return [(work_id, int(attempt)) for work_id, attempt in (line.split() for line in file.read_text().splitlines())]
