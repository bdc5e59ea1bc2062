"""What the child's rows hold: the original's immutable facts under the current incarnation and route."""

from __future__ import annotations

from typing import Any

from integration.catalog.reads import RouteDefinition
from integration.ingress.admitted_rows import ENGINE_CAPABILITY, SUBJECT_KIND, WORK_FAMILY
from integration.ingress.crypto import SealedColumn, move_sealed, row_aad
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.storage.locks import LockedEvent, LockedPack


def shared_values(
    pack: LockedPack, event: LockedEvent, route: RouteDefinition, *, event_id: str, ordinal: int
) -> dict[str, Any]:
    """Return what the child's Event and WorkItem share. Lanes are the original's: they name the same subject."""
    return {
        "event_id": event_id,
        "org_id": pack.row["OrgId"],
        "namespace": event.row["Namespace"],
        "pack_install_id": pack.pack_install_id,
        "route_id": route.route_id,
        "route_version": route.route_version,
        "event_kind": event.row["EventKind"],
        "work_type": route.work_type.value,
        "source_lane": event.row["SourceLane"],
        "target_lane": event.row["TargetLane"],
        "lane_ordinal": ordinal,
    }


def event_values(event: LockedEvent, route: RouteDefinition, event_id: str) -> dict[str, Any]:
    """Return what the child's Event holds besides, its payload sealed for its own row.

    Raises:
        KeyUnavailable: The key that sealed the payload is not in the ring.
        SealBroken: The payload was changed or belongs to another row.
    """
    # A sealed payload is bound to its row, so it is sealed anew for the child's.
    source = row_aad(SealedColumn.EVENT_PAYLOAD, event.event_id)
    target = row_aad(SealedColumn.EVENT_PAYLOAD, event_id)
    return {
        "route_snapshot": route.snapshot,
        "provider": event.row["Provider"],
        "idempotency_key": f"replay:{event.event_id}",
        "delivery_id": event.row["DeliveryId"],
        "delivery_sequence": event.row["DeliverySequence"],
        "receipt_id": event.row["ReceiptId"],
        "payload": move_sealed(bytes(event.row["Payload"]), source, target),
        "payload_hash": event.row["PayloadHash"],
        "occurred_at": event.row["OccurredAt"],
        "received_at": event.row["ReceivedAt"],
        "replay_of_event_id": event.event_id,
    }


def work_item_values(pack: LockedPack, route: RouteDefinition, *, owner_generation: int) -> dict[str, Any]:
    """Return what the child's WorkItem holds besides: a new generation under the current definition.

    Rule: A-39.
    """
    return {
        "work_family": WORK_FAMILY,
        "subject_kind": SUBJECT_KIND,
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
        "owner_generation": owner_generation,
    }


def generation_values(event: LockedEvent, route: RouteDefinition) -> dict[str, Any]:
    """Return what makes a projection's child a generation: it starts at its own Event and has the active key.

    Its identity is that of the live route. It has the original's `ProjectionKey` when pack, route version, companion,
    work type and source lane are the same.

    Rule: P-10.
    """
    lane = event.row["SourceLane"]
    key = ProjectionIdentity.of_route(route, lane).key()
    scope = SourceScope(namespace=event.row["Namespace"], event_kind=event.row["EventKind"], source_lane=lane)
    return {"subject_kind": "projection", "subject_id": key, "projection_key": key, "source_scope_key": scope.key()}
