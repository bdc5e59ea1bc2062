"""WorkItems for the Events of earlier builds, made while no WorkItem of the pack is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Final

from integration import errors
from integration.catalog.reads import RouteDefinition
from integration.cutover.inbound import reads
from integration.failpoints import failpoint
from integration.ingress.admitted_rows import AdmissionContext, work_item_row
from integration.states import EventStatus, ExecutionOwner
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.storage.locks import LockedEvent, LockedPack, lock_events_without_work, lock_pack
from integration.storage.sql import cutovers, work_items
from integration.storage.sql.audit import READ_DATABASE_TIME

#: How many Events' ids are read at once (each page of TiDB reads what is left anew), and how many become work in one
#: transaction.
PAGE: Final = 20_000
BATCH: Final = 250
_BEFORE_ALL: Final = datetime(1000, 1, 1, tzinfo=UTC)


def materialize(pack_install_id: str) -> int:
    """Give every eligible Event of a pack its WorkItem, in transactions of their own.

    An Event is eligible when it has not ended, is not claimed, was not replayed, belongs to the Event executor, and no
    WorkItem names it under either work type. What has a WorkItem in whatever state is left alone, so that it may be
    run again at any time, and beside another run.

    Args:
        pack_install_id: The incarnation.

    Returns:
        How many WorkItems were made.

    Raises:
        Busy: The database is busy; what was made stays.

    Locks: PACK, EVENT.
    Rule: C-11.
    """
    routes = reads.list_materializing_routes(db.read(), pack_install_id)
    return sum(
        _materialize_batch(pack_install_id, page[start : start + BATCH], routes)
        for page in _eligible_pages(pack_install_id, set(routes))
        for start in range(0, len(page), BATCH)
    )


def _eligible_pages(pack_install_id: str, route_ids: Set[str]) -> Iterator[list[str]]:
    """Yield the ids of what may be eligible, a page at a time.

    What the Event executor, which may still run, fails meanwhile comes later in this order: pending before failed,
    undated before dated, and then by the date.
    """
    if not route_ids:
        return
    reader = db.read()
    for status in (EventStatus.PENDING, EventStatus.FAILED):
        for statement in (cutovers.LIST_UNDATED_EVENTS_WITHOUT_WORK, cutovers.LIST_DATED_EVENTS_WITHOUT_WORK):
            last: Row = {"NextRetryAt": _BEFORE_ALL, "EventId": ""}
            while True:
                params = {"retry_at": last["NextRetryAt"], "after": last["EventId"], "status": status, "limit": PAGE}
                page = reader.fetch_all(
                    statement, params | {"pack_install_id": pack_install_id, "route_ids": route_ids}
                )
                yield [row["EventId"] for row in page]
                if len(page) < PAGE:
                    break
                last = page[-1]


def _materialize_batch(pack_install_id: str, event_ids: Sequence[str], routes: Mapping[str, RouteDefinition]) -> int:
    def unit(tx: Tx) -> int:
        pack = lock_pack(tx, pack_install_id)
        locked = lock_events_without_work(pack, event_ids)
        # Read under the locks: a run beside this one may have made them.
        found = tx.fetch_all(cutovers.LIST_WORK_OF_EVENTS, {"event_ids": tuple(sorted(event_ids))})
        covered = {row["EventId"] for row in found}
        eligible = [event for event in locked if event.event_id not in covered and _is_eligible(event, pack)]
        context = _context(pack)
        rows = [work_item_row(context, routes[event.row["RouteId"]], _stored(event)) for event in eligible]
        if rows:
            tx.execute_many(work_items.INSERT_WORK_ITEMS, rows)
        failpoint("inbound_forward.materializing")
        return len(rows)

    made = db.run(unit, name="cutover.materialize")
    failpoint("inbound_forward.materialized")
    return made


def _is_eligible(event: LockedEvent, pack: LockedPack) -> bool:
    row = event.row
    return (
        row["PackInstallId"] == pack.pack_install_id
        and row["ExecutionOwner"] == ExecutionOwner.EVENT
        and row["Status"] in {EventStatus.PENDING, EventStatus.FAILED}
        and row["ClaimToken"] is None
        and row["ReplayedAt"] is None
    )


def _context(pack: LockedPack) -> AdmissionContext:
    clock = pack.tx.fetch_one(READ_DATABASE_TIME)
    newest = pack.tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack.pack_install_id})
    if clock is None:
        raise errors.InvariantBroken
    return AdmissionContext(
        pack=pack,
        live_routes={},
        fences=(),
        # Theirs is the generation that the receipt will have.
        owner_generation=1 if newest is None else newest["OwnerGeneration"] + 1,
        now=clock["Now"],
    )


def _stored(event: LockedEvent) -> Row:
    """Return an Event by the names under which an admission knows it."""
    return {
        "event_id": event.event_id,
        "org_id": event.row["OrgId"],
        "namespace": event.row["Namespace"],
        "pack_install_id": event.row["PackInstallId"],
        "route_id": event.row["RouteId"],
        "route_version": event.row["RouteVersion"],
        "event_kind": event.row["EventKind"],
        "work_type": event.row["WorkType"],
        "source_lane": event.row["SourceLane"],
        "target_lane": event.row["TargetLane"],
        "lane_ordinal": event.row["LaneOrdinal"],
    }
