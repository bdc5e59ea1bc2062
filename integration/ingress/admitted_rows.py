"""The rows that one receipt's event becomes: the Event and its WorkItem."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from integration.catalog.reads import RouteDefinition
from integration.ingress import crypto
from integration.ingress.policy import ArmedFence, DerivedEvent
from integration.states import WorkItemState
from integration.storage.db import Row
from integration.storage.locks import LockedPack, LockedReceipt
from integration.values import new_id

WORK_FAMILY: Final = "connector"
SUBJECT_KIND: Final = "event"
ENGINE_CAPABILITY: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """What holds for a whole admission, read under the pack's lock.

    Attributes:
        pack: The locked incarnation.
        live_routes: Its live routes by event kind.
        fences: The namespace's armed fences.
        owner_generation: The newest cutover receipt's.
        now: The database's time.
    """

    pack: LockedPack
    live_routes: Mapping[str, RouteDefinition]
    fences: tuple[ArmedFence, ...]
    owner_generation: int
    now: datetime


def event_row(context: AdmissionContext, receipt: LockedReceipt, event: DerivedEvent, key: str, ordinal: int) -> Row:
    """Return the parameters of INSERT_EVENTS for one event, its payload sealed for its own row."""
    pack, route, event_id = context.pack, event.route, new_id()
    return {
        "event_id": event_id,
        "org_id": pack.row["OrgId"],
        "namespace": pack.row["Namespace"],
        "pack_install_id": pack.pack_install_id,
        "route_id": route.route_id,
        "route_version": route.route_version,
        "route_snapshot": route.snapshot,
        "provider": route.provider,
        "event_kind": route.event_kind,
        "work_type": route.work_type.value,
        "source_lane": event.source_lane,
        "target_lane": event.target_lane,
        "lane_ordinal": ordinal,
        "idempotency_key": key,
        "delivery_id": receipt.row["DeliveryId"],
        "delivery_sequence": None,
        "receipt_id": receipt.row["ReceiptId"],
        "receipt_index": event.receipt_index,
        "payload": crypto.seal(event.payload, crypto.row_aad(crypto.SealedColumn.EVENT_PAYLOAD, event_id)),
        "payload_hash": hashlib.sha256(event.payload).hexdigest(),
        "occurred_at": event.occurred_at,
        "received_at": receipt.row["ReceivedAt"],
        "execution_owner": "event",
        "status": "pending",
        "terminal_at": None,
    }


def work_item_row(context: AdmissionContext, route: RouteDefinition, stored: Row) -> Row:
    """Return the parameters of INSERT_WORK_ITEMS for the work of one Event.

    Args:
        context: What holds for the admission.
        route: The route that takes the Event.
        stored: The Event, by the parameters of INSERT_EVENTS.
    """
    pack = context.pack
    shared: dict[str, Any] = {
        name: stored[name]
        for name in (
            "event_id",
            "org_id",
            "namespace",
            "pack_install_id",
            "route_id",
            "route_version",
            "event_kind",
            "work_type",
            "source_lane",
            "target_lane",
            "lane_ordinal",
        )
    }
    return {
        **shared,
        "work_id": new_id(),
        "state": WorkItemState.PENDING.value,
        "attempt": 0,
        "ownership_epoch": 0,
        "work_family": WORK_FAMILY,
        "subject_kind": SUBJECT_KIND,
        "subject_id": stored["event_id"],
        "flow_name": route.flow_name,
        "flow_version": str(route.flow_version),
        "companion_pack_name": route.companion_pack_name,
        "companion_pack_version": route.companion_pack_version,
        "catalog_revision": pack.row["CatalogRevision"],
        "catalog_digest": pack.row["CatalogDigest"],
        "payload_schema_version": route.rule.payload_schema_version,
        "engine_capability": ENGINE_CAPABILITY,
        "queue_class": route.rule.queue,
        "max_attempts": route.retry.max_attempts,
        "owner_generation": context.owner_generation,
        "now": context.now,
    }
