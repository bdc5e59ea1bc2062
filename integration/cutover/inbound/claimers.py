"""The processes that may claim from a pack: seen, waited for and evicted under its lock.

An old heartbeat proves nothing. A process is done when its own row says so, and its row is changed only by whoever
holds its lock, which every claim of it holds as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from integration.failpoints import failpoint
from integration.storage.db import Reader, Row
from integration.storage.locks import LockedPack, lock_processes
from integration.storage.sql import processes
from integration.values import Actor


class Kind(StrEnum):
    """What a claim-capable process claims."""

    #: WorkItems.
    WORK_ITEM = "work_item"
    #: Events.
    EVENT = "event_legacy"


class Ended(StrEnum):
    """How a process lost the right to claim."""

    #: It said itself that it had stopped.
    STOPPED = "stopped"
    #: A cutover took the right from it.
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimer:
    """A process's row for a pack.

    Attributes:
        process_id: The row.
        kind: What it claims; as the database has it.
        build_version: Which build it is.
        observed_receipt_id: The receipt that it found when it registered, if there was one.
        ended: How it lost the right to claim; None while it may.
        ended_at: When.
        evicted_by: Who evicted it.
    """

    process_id: str
    kind: str
    build_version: str
    observed_receipt_id: str | None
    ended: Ended | None
    ended_at: datetime | None
    evicted_by: str | None

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Read a row of LIST_CLAIMERS_OF_PACK or LOCK_PROCESSES."""
        ended = None
        if row["StoppedAt"] is not None:
            ended = Ended.STOPPED
        elif row["EvictedAt"] is not None:
            ended = Ended.EVICTED
        return cls(
            process_id=row["ProcessId"],
            kind=row["Kind"],
            build_version=row["BuildVersion"],
            observed_receipt_id=row["ObservedReceiptId"],
            ended=ended,
            ended_at=row["StoppedAt"] or row["EvictedAt"],
            evicted_by=row["EvictedBy"],
        )

    @property
    def is_executor(self) -> bool:
        """Whether it claims Events, or something that this build does not know."""
        return self.kind != Kind.WORK_ITEM

    def as_proof(self) -> dict[str, Any]:
        """Return what a receipt says of it: JSON values."""
        return {
            "process_id": self.process_id,
            "kind": self.kind,
            "build_version": self.build_version,
            "ended": self.ended,
            "ended_at": None if self.ended_at is None else self.ended_at.isoformat(),
            "evicted_by": self.evicted_by,
        }


def list_claimers(reader: Reader, pack_install_id: str) -> tuple[Claimer, ...]:
    """Return every process that ever registered for a pack, by id, which is by age."""
    rows = reader.fetch_all(processes.LIST_CLAIMERS_OF_PACK, {"pack_install_id": pack_install_id})
    return tuple(Claimer.from_row(row) for row in rows)


def evict_claimers(pack: LockedPack, *, actor: Actor, kinds: Collection[str] | None = None) -> tuple[Claimer, ...]:
    """Take the right to claim from every process of a pack that still has it; wait for the claims in flight.

    Args:
        pack: The locked incarnation: nobody registers for it until the transaction ends.
        actor: Who evicts them.
        kinds: Which processes; all of them, those of kinds that this build does not know too, when none is named.

    Returns:
        All claimers of these kinds; each has ended, and the rows of those that had not are locked.

    Raises:
        LockTimeout: A claim in flight did not end in time.

    Locks: PROCESS, under the pack.
    Rule: C-01, C-12.
    """
    tx = pack.tx
    found = _of_kinds(list_claimers(tx, pack.pack_install_id), kinds)
    running = [claimer.process_id for claimer in found if claimer.ended is None]
    if not running:
        return found
    lock_processes(pack, running)
    failpoint("cutover.before_evict")
    tx.execute(processes.EVICT_PROCESSES, {"process_ids": tuple(running), "evicted_by": actor.name})
    return _of_kinds(list_claimers(tx, pack.pack_install_id), kinds)


def _of_kinds(claimers: Iterable[Claimer], kinds: Collection[str] | None) -> tuple[Claimer, ...]:
    return tuple(claimer for claimer in claimers if kinds is None or claimer.kind in kinds)
