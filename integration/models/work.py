"""Executable units and their executions, without leases' secrets or failure texts."""

from __future__ import annotations

from django.db import models

from integration.models import fields
from integration.models.base import ReadOnlyModel


class ConnectorWorkItem(ReadOnlyModel):
    """A generation of Event-backed work."""

    work_id = fields.identity("WorkId", primary_key=True)
    work_family = fields.text("WorkFamily", 32)
    work_type = fields.text("WorkType", 64)
    subject_kind = fields.text("SubjectKind", 32)
    subject_id = fields.text("SubjectId", 64)
    event_id = fields.identity("EventId")
    org_id = fields.identity("OrgId")
    namespace = fields.text("Namespace", 128)
    pack_install_id = fields.identity("PackInstallId")
    route_id = fields.identity("RouteId")
    route_version = fields.number("RouteVersion")
    flow_name = fields.text("FlowName", 128)
    flow_version = fields.text("FlowVersion", 64)
    companion_pack_name = fields.optional_text("CompanionPackName", 128)
    companion_pack_version = fields.optional_text("CompanionPackVersion", 64)
    event_kind = fields.text("EventKind", 128)
    catalog_revision = fields.big_number("CatalogRevision")
    catalog_digest = fields.digest("CatalogDigest")
    payload_schema_version = fields.number("PayloadSchemaVersion")
    engine_capability = fields.text("EngineCapability", 64)
    queue_class = fields.text("QueueClass", 64)
    source_lane = fields.optional_text("SourceLane", 255)
    target_lane = fields.optional_text("TargetLane", 255)
    lane_ordinal = fields.optional_big_number("LaneOrdinal")
    projection_key = fields.optional_digest("ProjectionKey")
    projection_active_key = fields.optional_digest("ProjectionActiveKey")
    source_scope_key = fields.optional_digest("SourceScopeKey")
    target_lane_active_key = fields.optional_digest("TargetLaneActiveKey")
    state = fields.text("State", 32)
    run_after = fields.instant("RunAfter")
    attempt = fields.number("Attempt")
    max_attempts = fields.number("MaxAttempts")
    lease_until = fields.optional_instant("LeaseUntil")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    owner_generation = fields.big_number("OwnerGeneration")
    cancel_requested_at = fields.optional_instant("CancelRequestedAt")
    cancel_requested_by = fields.optional_text("CancelRequestedBy", 150)
    blocked_on = fields.optional_text("BlockedOn", 255)
    blocked_since = fields.optional_instant("BlockedSince")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")
    outcome = fields.optional_text("Outcome", 32)
    failure_count = fields.number("FailureCount")
    first_failed_at = fields.optional_instant("FirstFailedAt")
    last_failed_at = fields.optional_instant("LastFailedAt")
    terminal_at = fields.optional_instant("TerminalAt")
    replayed_at = fields.optional_instant("ReplayedAt")
    replay_of_work_id = fields.optional_identity("ReplayOfWorkId")
    input_start_ordinal = fields.optional_big_number("InputStartOrdinal")
    rollback_execution_fence_id = fields.optional_identity("RollbackExecutionFenceId")
    legacy_outcome_receipt_version = fields.optional_number("LegacyOutcomeReceiptVersion")
    legacy_outcome_receipt_digest = fields.optional_digest("LegacyOutcomeReceiptDigest")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorWorkItem"
        verbose_name = "WorkItem"


class ConnectorExecutionAttempt(ReadOnlyModel):
    """One claimed execution."""

    pk = models.CompositePrimaryKey("work_id", "attempt")
    work_id = fields.identity("WorkId")
    attempt = fields.number("Attempt")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    started_at = fields.instant("StartedAt")
    dispatched_at = fields.optional_instant("DispatchedAt")
    finished_at = fields.optional_instant("FinishedAt")
    outcome = fields.optional_text("Outcome", 32)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorExecutionAttempt"
        verbose_name = "execution attempt"


class IntegrationWorkItem(ReadOnlyModel):
    """A unit of effect, subscription, reconcile or token work."""

    work_id = fields.identity("WorkId", primary_key=True)
    work_family = fields.text("WorkFamily", 32)
    work_type = fields.text("WorkType", 64)
    subject_kind = fields.text("SubjectKind", 32)
    subject_id = fields.text("SubjectId", 64)
    org_id = fields.identity("OrgId")
    app_installation_id = fields.optional_identity("AppInstallationId")
    namespace = fields.text("Namespace", 128)
    pack_install_id = fields.optional_identity("PackInstallId")
    flow_name = fields.text("FlowName", 128)
    flow_version = fields.text("FlowVersion", 64)
    definition_reference = fields.optional_text("DefinitionReference", 255)
    binding_id = fields.optional_identity("BindingId")
    binding_generation = fields.optional_big_number("BindingGeneration")
    binding_view_revision = fields.optional_big_number("BindingViewRevision")
    catalog_revision = fields.big_number("CatalogRevision")
    catalog_digest = fields.digest("CatalogDigest")
    payload_schema_version = fields.number("PayloadSchemaVersion")
    engine_capability = fields.text("EngineCapability", 64)
    queue_class = fields.text("QueueClass", 64)
    source_lane = fields.optional_text("SourceLane", 255)
    target_lane = fields.optional_text("TargetLane", 255)
    lane_ordinal = fields.optional_big_number("LaneOrdinal")
    target_lane_active_key = fields.optional_digest("TargetLaneActiveKey")
    active_key = fields.optional_digest("ActiveKey")
    state = fields.text("State", 32)
    run_after = fields.instant("RunAfter")
    attempt = fields.number("Attempt")
    max_attempts = fields.number("MaxAttempts")
    lease_until = fields.optional_instant("LeaseUntil")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    owner_generation = fields.big_number("OwnerGeneration")
    cancel_requested_at = fields.optional_instant("CancelRequestedAt")
    cancel_requested_by = fields.optional_text("CancelRequestedBy", 150)
    blocked_on = fields.optional_text("BlockedOn", 255)
    blocked_since = fields.optional_instant("BlockedSince")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")
    outcome = fields.optional_text("Outcome", 32)
    failure_count = fields.number("FailureCount")
    first_failed_at = fields.optional_instant("FirstFailedAt")
    last_failed_at = fields.optional_instant("LastFailedAt")
    terminal_at = fields.optional_instant("TerminalAt")
    replayed_at = fields.optional_instant("ReplayedAt")
    replay_of_work_id = fields.optional_identity("ReplayOfWorkId")
    rollback_execution_fence_id = fields.optional_identity("RollbackExecutionFenceId")
    legacy_outcome_receipt_version = fields.optional_number("LegacyOutcomeReceiptVersion")
    legacy_outcome_receipt_digest = fields.optional_digest("LegacyOutcomeReceiptDigest")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationWorkItem"
        verbose_name = "work item"
