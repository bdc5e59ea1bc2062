"""Receipts to Events and WorkItems: what one pack transaction does.

Order of locks: the pack, the receipts by id, and, for inputs of source projections, the selected Events and the
generations that they may extend. Everything that decides is read under the pack's lock: that the incarnation is
active, which routes are live, which fences are armed, the next ordinal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self

from integration import errors
from integration.catalog.reads import WebhookBinding, bind_webhooks, parse_route
from integration.failpoints import failpoint
from integration.ingress import crypto
from integration.ingress.admitted_rows import AdmissionContext
from integration.ingress.planning import Derived, Plan, plan_events
from integration.ingress.policy import (
    ArmedFence,
    DerivedEvent,
    Fenced,
    QuarantineCode,
    Unmaterializable,
    derive_events,
    is_closed,
)
from integration.projection.admission import Place, advance_ordinals
from integration.states import PackStatus, ReceiptState
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.locks import LockedPack, LockedReceipt, lock_pack, lock_receipts
from integration.storage.sql import cutovers, events, fences, packs, receipts, routes, work_items
from integration.storage.sql.audit import READ_DATABASE_TIME

Position = tuple[datetime, str]
START: Final[Position] = (datetime(1970, 1, 1, tzinfo=UTC), "")
FIRST_GENERATION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedBatch:
    """What a page of receipts came to.

    Attributes:
        count: Receipts that became work.
        event_count: Events, each with its WorkItem.
        quarantined: Receipts that cannot become work, by code.
        held: Receipts that stay: a fence stops them, their key is not in the ring, or their projection cannot take
            them yet.
        fenced: How many of those a fence stops.
        placed: Into which generations the inputs of source projections went.
        end: Where the page ended; None when there was no page, or a fence stops whatever is behind it.
    """

    count: int = 0
    event_count: int = 0
    quarantined: Counter[QuarantineCode] = field(default_factory=Counter)
    held: int = 0
    fenced: int = 0
    placed: Counter[Place] = field(default_factory=Counter)
    end: Position | None = None

    def __add__(self, other: MaterializedBatch) -> Self:
        """Add the counts of a part; the end stays."""
        return replace(
            self,
            count=self.count + other.count,
            event_count=self.event_count + other.event_count,
            quarantined=self.quarantined + other.quarantined,
            held=self.held + other.held,
            fenced=self.fenced + other.fenced,
            placed=self.placed + other.placed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Receipts to take, as they were read without locks; each is checked again under its own.

    Attributes:
        pack_install_id: The incarnation that takes them.
        receipt_ids: In order of arrival.
        webhooks: The incarnation's webhooks by key.
        end: Where the page ends.
        is_single: The page is one receipt of a batch that collided; what it repeats is looked for with more care.
    """

    pack_install_id: str
    receipt_ids: tuple[str, ...]
    webhooks: Mapping[str, WebhookBinding]
    end: Position
    is_single: bool = False

    def only(self, receipt_id: str) -> Page:
        """Return the page of one of its receipts."""
        return replace(self, receipt_ids=(receipt_id,), is_single=True)


def read_page(pack_install_id: str, limit: int, after: Position) -> Page | None:
    """Read which receipts an incarnation could take.

    Args:
        pack_install_id: The incarnation.
        limit: How many receipts, at most.
        after: Where the page before ended.

    Returns:
        The page, or None when the incarnation is not active or nothing waits for it.

    Raises:
        PackNotFound: There is no such incarnation.
    """
    reader = db.read()
    row = reader.fetch_one(packs.FIND_PACK, {"pack_install_id": pack_install_id})
    if row is None:
        raise errors.PackNotFound
    if row["Status"] != PackStatus.ACTIVE:
        return None
    webhooks = bind_webhooks(row)
    found = reader.fetch_all(
        receipts.LIST_READY_RECEIPTS,
        {
            "namespace": row["Namespace"],
            "route_keys": sorted(webhooks),
            "after_at": after[0],
            "after_id": after[1],
            "limit": limit,
        },
    )
    if not found:
        return None
    return Page(
        pack_install_id=pack_install_id,
        receipt_ids=tuple(receipt["ReceiptId"] for receipt in found),
        webhooks=webhooks,
        end=(found[-1]["ReceivedAt"], found[-1]["ReceiptId"]),
    )


def materialize_page(page: Page) -> MaterializedBatch:
    """Materialize a page in one transaction; what another took in the meantime is passed over.

    Raises:
        IntegrityError: A row of another writer collides; nothing was changed.
        Busy: The database is busy; nothing was changed.

    Locks: PACK, RECEIPT; EVENT and WORK_ITEM where a source projection has inputs.
    """
    batch = db.run(lambda tx: _materialize(tx, page), name="ingress.materialize")
    failpoint("materialize.after_commit")
    return batch


def quarantine_page(page: Page) -> MaterializedBatch:
    """Quarantine a page whose Events collide with another writer's.

    Locks: PACK, RECEIPT.
    """

    def unit(tx: Tx) -> MaterializedBatch:
        pack = lock_pack(tx, page.pack_install_id)
        if is_closed(read_fences(tx, pack.row["Namespace"])):
            return _held(page)
        ids = [row.row["ReceiptId"] for row in _lock_ready(pack, page)]
        plan = Plan(quarantined={QuarantineCode.EVENT_CONFLICT: ids} if ids else {})
        return _write(pack, plan, page)

    return db.run(unit, name="ingress.quarantine")


def _materialize(tx: Tx, page: Page) -> MaterializedBatch:
    pack = lock_pack(tx, page.pack_install_id)
    if pack.row["Status"] != PackStatus.ACTIVE:
        return MaterializedBatch(end=page.end)
    context = _read_context(pack)
    if is_closed(context.fences):
        return _held(page)
    plan = Plan()
    derived: list[Derived] = []
    fenced = 0
    for receipt in _lock_ready(pack, page):
        receipt_id = receipt.row["ReceiptId"]
        try:
            found = _open_and_derive(receipt, page, context)
        except Unmaterializable as finding:
            plan.quarantine(receipt_id, finding.code)
        except Fenced:
            fenced += 1
        except crypto.KeyUnavailable:
            plan.held += 1
        else:
            derived.append((receipt, found))
    plan_events(context, plan, derived, is_single=page.is_single)
    batch = _write(pack, plan, page)
    failpoint("materialize.before_commit")
    return replace(batch, held=batch.held + fenced, fenced=fenced)


def _held(page: Page) -> MaterializedBatch:
    """Leave a page as it is, and do not go on to the next: nothing is opened that a fence stops anyhow."""
    return MaterializedBatch(held=len(page.receipt_ids))


def _lock_ready(pack: LockedPack, page: Page) -> list[LockedReceipt]:
    """Lock the page's receipts that are still to be taken, in order of arrival."""
    locked = {row.row["ReceiptId"]: row for row in lock_receipts(pack, page.receipt_ids)}
    return [
        locked[receipt_id]
        for receipt_id in page.receipt_ids
        if receipt_id in locked and locked[receipt_id].row["State"] == ReceiptState.RECEIVED
    ]


def _read_context(pack: LockedPack) -> AdmissionContext:
    tx, namespace = pack.tx, pack.row["Namespace"]
    by_id = {"pack_install_id": pack.pack_install_id}
    clock = tx.fetch_one(READ_DATABASE_TIME)
    receipt = tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, by_id)
    if clock is None:
        raise errors.InvariantBroken
    return AdmissionContext(
        pack=pack,
        live_routes={
            route.event_kind: route for route in map(parse_route, tx.fetch_all(routes.LIST_LIVE_ROUTES, by_id))
        },
        fences=read_fences(tx, namespace),
        # Without a receipt the work was never handed over: what is admitted mirrors an Event that its executor ends.
        owner_generation=FIRST_GENERATION if receipt is None else receipt["OwnerGeneration"],
        now=clock["Now"],
    )


def read_fences(reader: db.Reader, namespace: str) -> tuple[ArmedFence, ...]:
    """Return a namespace's armed, unexpired admission fences with the scopes that they let through."""
    armed = reader.fetch_all(fences.LIST_ARMED_FENCES, {"namespace": namespace})
    if not armed:
        return ()
    overrides = reader.fetch_all(fences.LIST_LIVE_OVERRIDES, {"fence_ids": [row["FenceId"] for row in armed]})
    return tuple(
        ArmedFence(
            fence_id=row["FenceId"],
            scope=row["Scope"],
            overrides=frozenset(found["Scope"] for found in overrides if found["FenceId"] == row["FenceId"]),
        )
        for row in armed
    )


def _open_and_derive(receipt: LockedReceipt, page: Page, context: AdmissionContext) -> tuple[DerivedEvent, ...]:
    aad = crypto.row_aad(crypto.SealedColumn.RECEIPT_BODY, receipt.row["ReceiptId"])
    try:
        body = crypto.open_sealed(receipt.row["Body"], aad)
    except crypto.SealBroken:
        raise Unmaterializable(QuarantineCode.BODY_UNREADABLE) from None
    return derive_events(page.webhooks[receipt.row["RouteKey"]].rule, context.live_routes, body, context.fences)


def _write(pack: LockedPack, plan: Plan, page: Page) -> MaterializedBatch:
    tx = pack.tx
    by_id = {"pack_install_id": pack.pack_install_id}
    if plan.events:
        tx.execute_many(events.INSERT_EVENTS, plan.events)
        if plan.work_items:
            tx.execute_many(work_items.INSERT_WORK_ITEMS, plan.work_items)
        plan.ranges.store(pack)
        advance_ordinals(pack, plan.events[0]["lane_ordinal"], len(plan.events))
    if plan.materialized:
        changed = tx.execute(receipts.MARK_RECEIPTS_MATERIALIZED, {**by_id, "receipt_ids": plan.materialized})
        _demand(len(plan.materialized), changed)
    for code, receipt_ids in plan.quarantined.items():
        changed = tx.execute(
            receipts.MARK_RECEIPTS_QUARANTINED, {**by_id, "receipt_ids": receipt_ids, "quarantine_code": code.value}
        )
        _demand(len(receipt_ids), changed)
    return MaterializedBatch(
        count=len(plan.materialized),
        event_count=len(plan.events),
        quarantined=Counter({code: len(receipt_ids) for code, receipt_ids in plan.quarantined.items()}),
        held=plan.held,
        placed=plan.ranges.placed,
        end=page.end,
    )


def _demand(expected: int, found: int) -> None:
    if found != expected:
        message = f"{expected} rows must change, {found} did"
        raise errors.UnexpectedRowCount(message)
