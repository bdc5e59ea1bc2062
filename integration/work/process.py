"""The claim-capable process: its own row, and one row for each pack that fences its claims of that pack.

A fence row names its pack and the cutover receipt that the process observed for it. It is inserted under the
pack's lock, so a cutover, which holds that lock and then evicts every process row, sees it or comes before it.
The row without a pack is the worker that operators count; under it only work that no pack fences is claimed.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from integration.errors import Refused
from integration.projection.gate import may_project
from integration.storage import db
from integration.storage.db import Reader, Tx
from integration.storage.locks import LockedProcess, lock_pack, lock_process
from integration.storage.probe import capabilities
from integration.storage.sql import cutovers, packs, processes, rollback_fences
from integration.values import new_id

#: How long a pack that may not be claimed from is left alone before it is asked again.
CLOSED_SECONDS: Final = 2.0
#: How long a process that loses claims waits before it asks who else claims.
PLACE_SECONDS: Final = 0.5
#: How old the list of packs may be.
PACKS_SECONDS: Final = 5.0
#: Stands in a process's roles before the name of a family that it serves.
_FAMILY: Final = "family:"
#: Stands for the pack of what no pack fences.
NO_PACK: Final = ""
_FORWARD: Final = "forward"
log = structlog.get_logger(__name__)


class ClaimFenced(Refused):
    """This process may not claim from this pack: it was stopped, evicted, or its cutover receipt is not current."""

    code = "claim_fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A process's own row for one pack.

    Attributes:
        process_id: The row's id; the lease owner of what is claimed under it.
        pack_install_id: The pack; `NO_PACK` for the worker's own row, under which unfenced families are claimed.
        older_pack_install_ids: The earlier incarnations of the same pack, which come first in every lane.
        may_project: Its source projections may be claimed; as of when the row was registered.
    """

    process_id: str
    pack_install_id: str
    older_pack_install_ids: tuple[str, ...] = ()
    may_project: bool = True


@dataclass(slots=True, kw_only=True)
class WorkerProcess:
    """One running process, as the database knows it. Its methods may be called from several threads.

    Attributes:
        process_id: The id of the worker's own row.
        roles: What it does.
        concurrency: How many flows it runs at once.
        per_event_only: It claims no source projection.
        live: The live claimers by id, as of the last time it asked, each with the families it serves; none for all.
        has_raced: A claim was lost to another since then: there may be one that this process does not know of.
    """

    process_id: str
    roles: frozenset[str]
    concurrency: int
    build_version: str
    host: str
    clock: Callable[[], float] = time.monotonic
    per_event_only: bool = False
    live: tuple[tuple[str, frozenset[str]], ...] = ()
    has_raced: bool = False
    _placed_at: float = float("-inf")
    _fences: dict[str, Fence] = field(default_factory=dict)
    _closed_until: dict[str, float] = field(default_factory=dict)
    _packs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _packs_read_at: float | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _registering: threading.Lock = field(default_factory=threading.Lock)

    def pack_ids(self) -> tuple[str, ...]:
        """Return the packs whose work may exist, from a list at most a few seconds old."""
        with self._lock:
            if self._packs_read_at is None or self.clock() - self._packs_read_at > PACKS_SECONDS:
                self._packs = _older_incarnations(db.read())
                self._packs_read_at = self.clock()
            return tuple(self._packs)

    def closed_pack_ids(self) -> tuple[str, ...]:
        """Return the packs that this process may not claim from now."""
        with self._lock:
            return tuple(pack for pack, until in self._closed_until.items() if self.clock() < until)

    def fence_for(self, pack_install_id: str) -> Fence | None:
        """Return this process's fence row for a pack, registering it at the first need.

        Args:
            pack_install_id: The pack, or `NO_PACK` for the worker's own row.

        Returns:
            The fence, or None while the pack's newest cutover receipt is missing or is not a forward one, or a rollback
            has stopped the pack's claims.

        Locks: PACK, when it registers.
        """
        with self._lock:
            known = self._fences.get(pack_install_id)
            if known is not None or pack_install_id in self.closed_pack_ids():
                return known
            if pack_install_id == NO_PACK:
                return Fence(process_id=self.process_id, pack_install_id=NO_PACK)
        # Not under the lock that a heartbeat needs: a cutover may hold the pack for long.
        with self._registering:
            with self._lock:
                known = self._fences.get(pack_install_id)
                if known is not None or pack_install_id in self.closed_pack_ids():
                    return known
                if pack_install_id not in self._packs:
                    self._packs_read_at = None
                    self.pack_ids()
                older = self._packs.get(pack_install_id, ())
            fence = Fence(process_id=new_id(), pack_install_id=pack_install_id, older_pack_install_ids=older)
            opened = _register_fence(fence, self)
            with self._lock:
                if opened is None:
                    self._closed_until[pack_install_id] = self.clock() + CLOSED_SECONDS
                    return None
                self._fences[pack_install_id] = opened
        if not opened.may_project:
            log.warning("process.projections_left", pack_install_id=pack_install_id)
        return opened

    def drop_fence(self, fence: Fence) -> None:
        """Forget a fence row that no longer lets this process claim; the next need registers another one."""
        with self._lock:
            if fence.pack_install_id == NO_PACK or self._fences.get(fence.pack_install_id) == fence:
                self._fences.pop(fence.pack_install_id, None)
                self._closed_until[fence.pack_install_id] = self.clock() + CLOSED_SECONDS
        log.warning("process.fenced", pack_install_id=fence.pack_install_id)

    def beat(self, *, in_flight: int) -> None:
        """Record that the process lives, and learn its place among the live ones.

        Args:
            in_flight: How many flows it runs now.

        Locks: PROCESS.
        """
        with self._lock:
            fence_ids = tuple(fence.process_id for fence in self._fences.values())
        db.execute_alone(processes.RECORD_HEARTBEATS, {"process_ids": (self.process_id,), "in_flight": in_flight})
        if fence_ids:
            # A fence row counts as no worker of its own, so that sums over the rows stay right.
            db.execute_alone(processes.RECORD_HEARTBEATS, {"process_ids": fence_ids, "in_flight": 0})
        self.learn_place()

    def learn_place(self) -> None:
        """Ask who else is alive and claims."""
        self._placed_at = self.clock()
        self.has_raced = False
        rows = db.read().fetch_all(processes.LIST_LIVE_CLAIMERS)
        self.live = tuple((row["ProcessId"], _families_of(row["Roles"])) for row in rows)

    def place_in(self, family: str) -> tuple[int, int]:
        """Return this process's place among the live claimers of a family, from 0, and how many there are.

        Args:
            family: The family's name; a claimer that serves others only is not counted.
        """
        ids = [process_id for process_id, families in self.live if not families or family in families]
        # Unknown to the others, it looks at everything; the claim decides.
        return (ids.index(self.process_id), len(ids)) if self.process_id in ids else (0, 1)

    def learn_place_after_race(self) -> None:
        """Ask again when a claim was lost to another, a moment after the last time at the earliest."""
        if self.has_raced and self.clock() - self._placed_at >= PLACE_SECONDS:
            self.learn_place()

    def start_drain(self) -> None:
        """Record that the process claims no more.

        Locks: PROCESS.
        """
        db.execute_alone(processes.MARK_PROCESSES_DRAINING, {"process_ids": self._all_ids()})

    def stop(self) -> None:
        """Record that the process has stopped; call it only when no flow of it runs.

        Locks: PROCESS.
        """
        db.execute_alone(processes.MARK_PROCESSES_STOPPED, {"process_ids": self._all_ids()})

    def _all_ids(self) -> tuple[str, ...]:
        with self._lock:
            return (self.process_id, *(fence.process_id for fence in self._fences.values()))


def _families_of(roles: str) -> frozenset[str]:
    names = (role.partition(_FAMILY) for role in roles.split(","))
    return frozenset(name for head, found, name in names if found and not head)


def register_process(
    *,
    roles: frozenset[str],
    concurrency: int,
    build_version: str,
    families: Iterable[str] = (),
    per_event_only: bool = False,
) -> WorkerProcess:
    """Insert the row of a new worker.

    Args:
        roles: What it does: `claim`, `materialize`, `reap`.
        concurrency: How many flows it runs at once.
        build_version: Which build it is.
        families: The families that it serves; all of them when none is named.
        per_event_only: It claims no source projection.

    Returns:
        The process, which registers a fence for each pack when it first needs one.
    """
    process = WorkerProcess(
        process_id=new_id(),
        roles=roles,
        concurrency=concurrency,
        build_version=build_version,
        host=socket.gethostname()[:255],
        per_event_only=per_event_only,
    )
    db.execute_alone(
        processes.INSERT_PROCESS,
        {
            "process_id": process.process_id,
            "build_version": build_version,
            "host": process.host,
            "pack_install_id": None,
            "observed_receipt_id": None,
            "roles": ",".join([*sorted(roles), *(f"{_FAMILY}{name}" for name in sorted(families))]),
            "concurrency": concurrency,
        },
    )
    return process


def lock_fence(tx: Tx, fence: Fence) -> LockedProcess:
    """Lock a fence row and make sure that it still lets its process claim.

    Args:
        tx: The claim's or the reaper's transaction.
        fence: The process's own row for the item's pack.

    Returns:
        The locked row.

    Raises:
        ClaimFenced: It is stopped, evicted, or, for a pack, its receipt is not the pack's newest forward receipt.

    Locks: PROCESS.
    """
    process = lock_process(tx, fence.process_id)
    row = process.row
    if fence.pack_install_id == NO_PACK:
        if row["StoppedAt"] is not None or row["EvictedAt"] is not None:
            raise ClaimFenced(process_id=fence.process_id)
        return process
    # Read after the lock: a cutover writes its receipt only after it has waited for this row.
    receipt = tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": fence.pack_install_id})
    if (
        row["StoppedAt"] is not None
        or row["EvictedAt"] is not None
        or receipt is None
        or receipt["Direction"] != _FORWARD
        or receipt["ReceiptId"] != row["ObservedReceiptId"]
    ):
        raise ClaimFenced(pack_install_id=fence.pack_install_id)
    return process


def _register_fence(fence: Fence, process: WorkerProcess) -> Fence | None:
    def opened(reader: Reader) -> Fence:
        # An activation writes the protocol with its receipt, under the lock that is held here.
        projects = not process.per_event_only and may_project(reader, fence.pack_install_id, capabilities())
        return replace(fence, may_project=projects)

    def unit(tx: Tx) -> Fence | None:
        lock_pack(tx, fence.pack_install_id)
        receipt = tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": fence.pack_install_id})
        if receipt is None or receipt["Direction"] != _FORWARD or _is_rolling_back(tx, fence.pack_install_id):
            return None
        tx.execute(
            processes.INSERT_PROCESS,
            {
                "process_id": fence.process_id,
                "build_version": process.build_version,
                "host": process.host,
                "pack_install_id": fence.pack_install_id,
                "observed_receipt_id": receipt["ReceiptId"],
                "roles": "fence",
                "concurrency": 0,
            },
        )
        return opened(tx)

    def settle(reader: Reader) -> Fence | None:
        return opened(reader) if reader.fetch_one(processes.FIND_PROCESS, {"process_id": fence.process_id}) else None

    return db.run(unit, name="work.register_fence", settle=settle)


def _is_rolling_back(tx: Tx, pack_install_id: str) -> bool:
    """Return whether a rollback has stopped the pack's claims; its receipt is written when nothing is in hand."""
    if not capabilities().has_rollback:
        return False
    fence = tx.fetch_one(rollback_fences.FIND_UNCLOSED_FENCE, {"pack_install_id": pack_install_id})
    return fence is not None and fence["State"] == rollback_fences.OPEN


def _older_incarnations(reader: Reader) -> dict[str, tuple[str, ...]]:
    older: dict[tuple[str, str], list[str]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for row in reader.fetch_all(packs.LIST_SERVED_PACKS):
        line = older.setdefault((row["Namespace"], row["PackName"]), [])
        found[row["PackInstallId"]] = tuple(line)
        line.append(row["PackInstallId"])
    return found
