"""A locked row is a type. Tokens are made here and nowhere else, in rank order.

A token carries its transaction and the row as it was read under the lock; using it after the transaction
raises TransactionRequired. `docs/locking.md` has the whole order and what each use case locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from integration import errors
from integration.storage.db import Row, Tx
from integration.storage.sql import (
    cutovers,
    events,
    legacy,
    namespaces,
    packs,
    processes,
    projections,
    receipts,
    replays,
    scheduler_leases,
    work_items,
)
from integration.values import EventId, PackInstallId, ProcessId, ReceiptId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Locked:
    """A row that is locked until its transaction ends."""

    _tx: Tx = field(repr=False)
    row: Row = field(repr=False)

    @property
    def tx(self) -> Tx:
        """The transaction that holds the lock."""
        if not self._tx.open:
            raise errors.TransactionRequired
        return self._tx


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedNamespace(_Locked):
    """A namespace row, rank 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPack(_Locked):
    """A pack incarnation's row, rank 10: the anchor that serializes admission and replay."""

    @property
    def pack_install_id(self) -> PackInstallId:
        """The incarnation's id."""
        return PackInstallId(self.row["PackInstallId"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedProcess(_Locked):
    """A claim-capable process's own row, rank 15."""

    @property
    def process_id(self) -> ProcessId:
        """The process's id."""
        return ProcessId(self.row["ProcessId"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedReceipt(_Locked):
    """A stored webhook's row, rank 18."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedEvent(_Locked):
    """An Event's row, rank 20."""

    @property
    def event_id(self) -> EventId:
        """The Event's id."""
        return EventId(self.row["EventId"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWorkItem(_Locked):
    """A WorkItem's row, rank 30."""

    @property
    def work_id(self) -> str:
        """The generation's id."""
        return str(self.row["WorkId"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSchedulerLease(_Locked):
    """A pack's scheduler lease of the Event executor, rank 90."""


L = TypeVar("L", bound=_Locked)


def lock_namespace(tx: Tx, namespace: str) -> LockedNamespace:
    """Lock a namespace row.

    Raises:
        NotFound: There is no such namespace.

    Locks: NAMESPACE.
    """
    row = tx.fetch_one(namespaces.LOCK_NAMESPACE, {"namespace": namespace})
    if row is None:
        message = "There is no such namespace."
        raise errors.NotFound(message)
    return LockedNamespace(_tx=tx, row=row)


def lock_pack(tx: Tx, pack_install_id: str) -> LockedPack:
    """Lock one pack incarnation.

    Raises:
        PackNotFound: There is no such incarnation.

    Locks: PACK.
    """
    row = tx.fetch_one(packs.LOCK_PACK, {"pack_install_id": pack_install_id})
    if row is None:
        raise errors.PackNotFound
    return LockedPack(_tx=tx, row=row)


def lock_packs(tx: Tx, pack_install_ids: Sequence[str]) -> list[LockedPack]:
    """Lock several incarnations by id, sorted, in one statement; missing ones are left out.

    Locks: PACK.
    """
    rows = tx.fetch_all(packs.LOCK_PACKS, {"pack_install_ids": tuple(sorted(set(pack_install_ids)))})
    return [LockedPack(_tx=tx, row=row) for row in rows]


def lock_process(tx: Tx, process_id: str) -> LockedProcess:
    """Lock a process's own row, which a cutover changes to evict it.

    Raises:
        NotFound: The process is not registered.

    Locks: PROCESS.
    """
    row = tx.fetch_one(processes.LOCK_PROCESS, {"process_id": process_id})
    if row is None:
        message = "This process is not registered."
        raise errors.NotFound(message)
    return LockedProcess(_tx=tx, row=row)


def lock_processes(pack: LockedPack, process_ids: Sequence[str]) -> list[LockedProcess]:
    """Lock claim-capable processes' rows by id, sorted, in one statement; missing ones are left out.

    It waits for every claim that is in flight under one of them.

    Args:
        pack: The locked incarnation: while it is held nobody registers for it.
        process_ids: At least one.

    Locks: PROCESS, under the pack.
    """
    rows = pack.tx.fetch_all(processes.LOCK_PROCESSES, {"process_ids": tuple(sorted(set(process_ids)))})
    return [LockedProcess(_tx=pack.tx, row=row) for row in rows]


def lock_receipts(pack: LockedPack, receipt_ids: Sequence[ReceiptId] | Sequence[str]) -> list[LockedReceipt]:
    """Lock receipts by id, sorted, in one statement; missing ones are left out.

    Locks: RECEIPT, under the pack.
    """
    rows = pack.tx.fetch_all(receipts.LOCK_RECEIPTS, {"receipt_ids": tuple(sorted(set(receipt_ids)))})
    return [LockedReceipt(_tx=pack.tx, row=row) for row in rows]


def lock_event(pack: LockedPack, event_id: str) -> LockedEvent:
    """Lock one Event under its pack.

    Raises:
        EventNotFound: There is no such Event.

    Locks: EVENT, under the pack.
    """
    found = lock_events(pack, (event_id,))
    if not found:
        raise errors.EventNotFound
    return found[0]


def lock_events(pack: LockedPack, event_ids: Sequence[str]) -> list[LockedEvent]:
    """Lock Events by id, sorted, in one statement; missing ones are left out.

    Locks: EVENT, under the pack.
    """
    rows = pack.tx.fetch_all(events.LOCK_EVENTS, {"event_ids": tuple(sorted(set(event_ids)))})
    return [LockedEvent(_tx=pack.tx, row=row) for row in rows]


def lock_selected_events(pack: LockedPack, event_ids: Sequence[str]) -> list[LockedEvent]:
    """Lock the selected Events of generations that may be extended, without their payloads.

    Sorted by id, in one statement; missing ones are left out.

    Locks: EVENT, under the pack.
    """
    rows = pack.tx.fetch_all(projections.LOCK_SELECTED_EVENTS, {"event_ids": tuple(sorted(set(event_ids)))})
    return [LockedEvent(_tx=pack.tx, row=row) for row in rows]


def lock_events_without_work(pack: LockedPack, event_ids: Sequence[str]) -> list[LockedEvent]:
    """Lock the Events that a cutover gives WorkItems, without their payloads.

    Sorted by id, in one statement; missing ones are left out.

    Locks: EVENT, under the pack.
    """
    rows = pack.tx.fetch_all(cutovers.LOCK_EVENTS_WITHOUT_WORK, {"event_ids": tuple(sorted(set(event_ids)))})
    return [LockedEvent(_tx=pack.tx, row=row) for row in rows]


def lock_generations(pack: LockedPack, work_ids: Sequence[str]) -> list[LockedWorkItem]:
    """Lock generations of projections, after the Events that they select.

    Sorted by id, in one statement; missing ones are left out.

    Locks: WORK_ITEM, under the pack.
    """
    rows = pack.tx.fetch_all(projections.LOCK_GENERATIONS, {"work_ids": tuple(sorted(set(work_ids)))})
    return [LockedWorkItem(_tx=pack.tx, row=row) for row in rows]


def lock_events_for_claim(process: LockedProcess, event_ids: Sequence[str]) -> list[LockedEvent]:
    """Lock the Events that first claims take over, under the claimant's own process row.

    Sorted by id, in one statement; missing ones are left out.

    Locks: EVENT, under the process.
    """
    rows = process.tx.fetch_all(events.LOCK_EVENTS_FOR_CLAIM, {"event_ids": tuple(sorted(set(event_ids)))})
    return [LockedEvent(_tx=process.tx, row=row) for row in rows]


def lock_replayed_scope(
    pack: LockedPack, work_ids: Sequence[str], *, is_old_schema: bool = False
) -> list[LockedWorkItem]:
    """Lock a replayed Event's WorkItems and the generations of its source scope, by id, sorted, in one statement.

    Args:
        pack: The incarnation that the replay goes to.
        work_ids: At least one.
        is_old_schema: The table has no failure and replay columns, and the rows come without them.

    Locks: WORK_ITEM, under the pack.
    """
    statement = replays.LOCK_REPLAYED_SCOPE_OF_OLD_SCHEMA if is_old_schema else replays.LOCK_REPLAYED_SCOPE
    rows = pack.tx.fetch_all(statement, {"work_ids": tuple(sorted(set(work_ids)))})
    return [LockedWorkItem(_tx=pack.tx, row=row) for row in rows]


def lock_replayed_items(event: LockedEvent, *, is_old_schema: bool = False) -> list[LockedWorkItem]:
    """Lock a replayed Event's WorkItems under both work types, sorted by id.

    Args:
        event: The Event.
        is_old_schema: The table has no failure and replay columns, and the rows come without them.

    Locks: WORK_ITEM, under the Event.
    """
    statement = replays.LOCK_REPLAYED_ITEMS_OF_OLD_SCHEMA if is_old_schema else replays.LOCK_REPLAYED_ITEMS
    rows = event.tx.fetch_all(statement, {"event_id": event.event_id})
    return [LockedWorkItem(_tx=event.tx, row=row) for row in rows]


def lock_work_items_of_event(event: LockedEvent) -> list[LockedWorkItem]:
    """Lock an Event's WorkItems under both work types, sorted by id.

    Locks: WORK_ITEM, under the Event.
    """
    rows = event.tx.fetch_all(work_items.LOCK_WORK_ITEMS_OF_EVENT, {"event_id": event.event_id})
    return [LockedWorkItem(_tx=event.tx, row=row) for row in rows]


def lock_event_to_execute(process: LockedProcess, event_id: str) -> LockedEvent | None:
    """Lock an Event that the Event executor is about to claim or takes back, under the executor's own process row.

    Returns:
        The Event, or None when there is no such row.

    Locks: EVENT, under the process.
    """
    row = process.tx.fetch_one(legacy.LOCK_EVENT_OF_EXECUTOR, {"event_id": event_id})
    return None if row is None else LockedEvent(_tx=process.tx, row=row)


def lock_executed_event(tx: Tx, event_id: str) -> LockedEvent | None:
    """Lock an Event whose execution ends; its claim token decides, so that no other row is locked before it.

    Returns:
        The Event, or None when there is no such row.

    Locks: EVENT.
    """
    row = tx.fetch_one(legacy.LOCK_EVENT_OF_EXECUTOR, {"event_id": event_id})
    return None if row is None else LockedEvent(_tx=tx, row=row)


def lock_mirrors(event: LockedEvent, *, has_ranges: bool, is_bridge: bool = False) -> list[LockedWorkItem]:
    """Lock an Event's WorkItems under both work types, sorted by id, as a schema of any vintage has them.

    Args:
        event: The Event.
        has_ranges: The table has the lower bound of a range.
        is_bridge: The pack was rolled back, so that the table has the fence that may hold a row.

    Locks: WORK_ITEM, under the Event.
    """
    statement = legacy.LOCK_RANGED_MIRRORS if has_ranges else legacy.LOCK_MIRRORS
    if is_bridge:
        statement = legacy.LOCK_FENCED_MIRRORS
    rows = event.tx.fetch_all(statement, {"event_id": event.event_id})
    return [LockedWorkItem(_tx=event.tx, row=row) for row in rows]


def lock_scheduler_lease(process: LockedProcess, pack_install_id: str, lease_name: str) -> LockedSchedulerLease | None:
    """Lock a pack's scheduler lease; nothing is locked after it.

    Returns:
        The lease, or None when it was never made.

    Locks: LEAF, under the process.
    """
    params = {"pack_install_id": pack_install_id, "lease_name": lease_name}
    row = process.tx.fetch_one(scheduler_leases.LOCK_SCHEDULER_LEASE, params)
    return None if row is None else LockedSchedulerLease(_tx=process.tx, row=row)
