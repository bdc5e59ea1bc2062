"""Immutable routing facts, without payloads, and the state of the compatibility executor."""

from __future__ import annotations

from integration.models import fields
from integration.models.base import ReadOnlyModel

#: The permission keys, as `integration.<codename>`; each may be narrowed to an org and namespace by a grant.
PERMISSIONS = (
    ("view_connector_event", "May see dead work"),
    ("replay_connector_event", "May replay dead work"),
    ("repair_effect", "May repair effects whose outcome is unknown"),
    ("run_cutover", "May arm fences and run cutovers"),
    ("manage_access", "May grant and revoke access"),
    ("view_audit", "May read the audit trail"),
)


class ConnectorEvent(ReadOnlyModel):
    """An immutable Event."""

    event_id = fields.identity("EventId", primary_key=True)
    org_id = fields.identity("OrgId")
    namespace = fields.text("Namespace", 128)
    pack_install_id = fields.identity("PackInstallId")
    route_id = fields.identity("RouteId")
    route_version = fields.number("RouteVersion")
    provider = fields.text("Provider", 64)
    event_kind = fields.text("EventKind", 128)
    work_type = fields.text("WorkType", 64)
    source_lane = fields.optional_text("SourceLane", 255)
    target_lane = fields.optional_text("TargetLane", 255)
    lane_ordinal = fields.optional_big_number("LaneOrdinal")
    idempotency_key = fields.text("IdempotencyKey", 255)
    delivery_id = fields.optional_text("DeliveryId", 255)
    delivery_sequence = fields.optional_big_number("DeliverySequence")
    receipt_id = fields.optional_identity("ReceiptId")
    receipt_index = fields.optional_number("ReceiptIndex")
    payload_hash = fields.digest("PayloadHash")
    occurred_at = fields.optional_instant("OccurredAt")
    received_at = fields.instant("ReceivedAt")
    replay_of_event_id = fields.optional_identity("ReplayOfEventId")
    execution_owner = fields.text("ExecutionOwner", 16)
    status = fields.text("Status", 16)
    retry_count = fields.number("RetryCount")
    next_retry_at = fields.optional_instant("NextRetryAt")
    claimed_until = fields.optional_instant("ClaimedUntil")
    terminal_at = fields.optional_instant("TerminalAt")
    replayed_at = fields.optional_instant("ReplayedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorEvent"
        permissions = PERMISSIONS
        verbose_name = "Event"
