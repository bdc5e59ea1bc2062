"""What an admission will write, decided receipt by receipt: all of a receipt's events become work, or none does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from integration import errors
from integration.ingress import idempotency
from integration.ingress.admitted_rows import AdmissionContext, event_row, work_item_row
from integration.ingress.policy import DerivedEvent, QuarantineCode
from integration.projection.admission import Place, Placement, RangeChanges, first_ordinal, place_inputs
from integration.projection.coverage import StoredInput, find_uncovered, read_cutoffs
from integration.projection.identity import ProjectionIdentity
from integration.states import ExecutionClass
from integration.storage.db import Row
from integration.storage.locks import LockedReceipt
from integration.storage.sql import events

Derived = tuple[LockedReceipt, tuple[DerivedEvent, ...]]
#: An Event's unique name: its kind and its idempotency key.
EventName = tuple[str, str]
#: How many names one statement asks for.
_NAMES: Final = 1000
log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Plan:
    """What the transaction will write.

    Attributes:
        events: INSERT_EVENTS, in ordinal order.
        work_items: INSERT_WORK_ITEMS, of the per-event routes.
        ranges: What changes in the ranges of source projections.
        materialized: Receipts that became work.
        quarantined: Receipts that cannot, by code.
        held: How many stay for a later batch.
    """

    events: list[Row] = field(default_factory=list)
    work_items: list[Row] = field(default_factory=list)
    ranges: RangeChanges = field(default_factory=RangeChanges)
    materialized: list[str] = field(default_factory=list)
    quarantined: dict[QuarantineCode, list[str]] = field(default_factory=dict)
    held: int = 0

    def quarantine(self, receipt_id: str, code: QuarantineCode) -> None:
        """Note that a receipt cannot become work."""
        self.quarantined.setdefault(code, []).append(receipt_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keyed:
    """One derived event with its unique name, and its projection if its route has one."""

    receipt_id: str
    receipt: LockedReceipt
    event: DerivedEvent
    name: EventName
    projection_key: str | None
    identity: ProjectionIdentity | None

    @property
    def is_projected(self) -> bool:
        return self.identity is not None


def _keyed(receipt: LockedReceipt, event: DerivedEvent) -> _Keyed:
    route, identity = event.route, None
    if route.execution_class is ExecutionClass.SOURCE_PROJECTION:
        if event.source_lane is None:
            message = "an input of a source projection has no source lane"
            raise errors.InvariantBroken(message)
        identity = ProjectionIdentity.of_route(route, event.source_lane)
    return _Keyed(
        receipt_id=str(receipt.row["ReceiptId"]),
        receipt=receipt,
        event=event,
        name=(route.event_kind, _event_key(receipt, event)),
        projection_key=None if identity is None else identity.key(),
        identity=identity,
    )


def plan_events(context: AdmissionContext, plan: Plan, derived: Sequence[Derived], *, is_single: bool) -> None:
    """Plan the Events of a batch and the work of each.

    The steps: look up what the batch repeats; check that generations hold the repeated inputs; decide where the
    fresh inputs of each projection go; give ordinals in order of arrival.

    Args:
        context: What holds for the admission.
        plan: Takes the decisions.
        derived: The receipts that can become work, in order of arrival, with their events.
        is_single: The batch is one receipt that collided in a larger one: an Event that this same receipt became
            is acknowledged, too.

    Raises:
        OrdinalsExhausted: The incarnation has too few ordinals left.

    Locks: EVENT, WORK_ITEM, when there are inputs of source projections.
    """
    keyed = [_keyed(receipt, event) for receipt, found in derived for event in found]
    stored = _read_stored(context, keyed, is_single=is_single)
    refused: dict[str, QuarantineCode | None] = {}
    placements: dict[str, Placement] = {}
    if any(item.is_projected for item in keyed) or any(item.is_projected for item in stored.values()):
        refused |= _check_coverage(context, keyed, stored)
        fresh = {
            item.projection_key: item.identity
            for item in keyed
            if item.identity is not None and item.name not in stored and item.receipt_id not in refused
        }
        placements = place_inputs(context.pack, fresh.values())
        held = {key for key, placement in placements.items() if placement.place is Place.HELD}
        for item in keyed:
            if item.projection_key in held and item.name not in stored:
                refused.setdefault(item.receipt_id, None)
    for receipt, _ in derived:
        _settle(plan, receipt.row["ReceiptId"], refused)
    _give_ordinals(context, plan, [item for item in keyed if item.receipt_id not in refused], stored, placements)


def _settle(plan: Plan, receipt_id: str, refused: Mapping[str, QuarantineCode | None]) -> None:
    if receipt_id not in refused:
        plan.materialized.append(receipt_id)
    elif (code := refused[receipt_id]) is not None:
        plan.quarantine(receipt_id, code)
    else:
        plan.held += 1


def _event_key(receipt: LockedReceipt, event: DerivedEvent) -> str:
    if event.item_id is None:
        return idempotency.indexed_key(receipt.row["IdempotencyKey"], event.receipt_index)
    return idempotency.item_key(
        namespace=receipt.row["Namespace"],
        route_key=receipt.row["RouteKey"],
        subscription_generation=receipt.row["SubscriptionGeneration"],
        item_id=event.item_id,
    )


def _read_stored(
    context: AdmissionContext, keyed: Sequence[_Keyed], *, is_single: bool
) -> dict[EventName, StoredInput]:
    """Return the Events that the batch repeats, by name.

    A per-event delivery is repeated only by an item's own id: its receipt is unique and marked in the transaction
    that makes its Event. The inputs of a projection are looked up always, since their coverage must be verified.
    """
    asked = [item for item in keyed if is_single or item.is_projected or item.event.item_id is not None]
    own = {item.name: item.receipt_id for item in asked if not item.is_projected and item.event.item_id is None}
    stored: dict[EventName, StoredInput] = {}
    for row in _rows_of(context, asked):
        name = (row["EventKind"], row["IdempotencyKey"])
        # The same name from another receipt is no repetition: its insert collides, and the receipt says so.
        if own.get(name, row["ReceiptId"]) == row["ReceiptId"]:
            stored[name] = StoredInput.from_row(row)
    return stored


def _rows_of(context: AdmissionContext, asked: Sequence[_Keyed]) -> Iterator[Row]:
    for start in range(0, len(asked), _NAMES):
        some = asked[start : start + _NAMES]
        yield from context.pack.tx.fetch_all(
            events.LIST_STORED_EVENTS,
            {
                "namespace": context.pack.row["Namespace"],
                "event_kinds": {item.event.route.event_kind for item in some},
                "idempotency_keys": {item.name[1] for item in some},
            },
        )


def _check_coverage(
    context: AdmissionContext, keyed: Sequence[_Keyed], stored: Mapping[EventName, StoredInput]
) -> dict[str, QuarantineCode | None]:
    """Return the receipts that do not become work, each with its code, or None to leave it where it is."""
    tx, pack_id = context.pack.tx, context.pack.pack_install_id
    cutoffs = read_cutoffs(tx, {pack_id, *(item.pack_install_id for item in stored.values())})
    uncovered = find_uncovered(tx, stored.values(), cutoffs)
    refused: dict[str, QuarantineCode | None] = {}
    if pack_id not in cutoffs or context.pack.row["NextLaneOrdinal"] <= cutoffs[pack_id]:
        # Without the cutoff nobody could tell a new input from one of the old protocol.
        log.warning("projection.no_protocol", pack_install_id=pack_id)
        refused = {item.receipt_id: None for item in keyed if item.is_projected}
    for item in keyed:
        found = stored.get(item.name)
        if found is not None and found.event_id in uncovered:
            log.error("projection.coverage_missing", receipt_id=item.receipt_id, event_id=found.event_id)
            refused[item.receipt_id] = QuarantineCode.COVERAGE_MISSING
    return refused


def _give_ordinals(
    context: AdmissionContext,
    plan: Plan,
    keyed: Sequence[_Keyed],
    stored: Collection[EventName],
    placements: Mapping[str, Placement],
) -> None:
    taken: set[EventName] = set(stored)
    fresh = []
    for item in keyed:
        if item.name not in taken:
            taken.add(item.name)
            fresh.append(item)
    if not fresh:
        return
    groups: dict[str, list[tuple[DerivedEvent, Row]]] = defaultdict(list)
    for ordinal, item in enumerate(fresh, first_ordinal(context.pack, len(fresh))):
        row = event_row(context, item.receipt, item.event, item.name[1], ordinal)
        plan.events.append(row)
        if item.projection_key is not None:
            groups[item.projection_key].append((item.event, row))
        else:
            plan.work_items.append(work_item_row(context, item.event.route, row))
    for key, inputs in groups.items():
        event, row = inputs[-1]
        plan.ranges.add(placements[key], [row for _, row in inputs], work_item_row(context, event.route, row))
