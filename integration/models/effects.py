"""Outbound intent, network tries and remote identity, without requests or responses."""

from __future__ import annotations

from integration.models import fields
from integration.models.base import ReadOnlyModel


class IntegrationExternalCommand(ReadOnlyModel):
    """An immutable outbound intent."""

    command_id = fields.identity("CommandId", primary_key=True)
    org_id = fields.identity("OrgId")
    app_installation_id = fields.identity("AppInstallationId")
    namespace = fields.text("Namespace", 128)
    idempotency_key = fields.digest("IdempotencyKey")
    provider = fields.text("Provider", 64)
    operation = fields.text("Operation", 128)
    logical_target = fields.text("LogicalTarget", 255)
    remote_link_id = fields.optional_identity("RemoteLinkId")
    create_slot_id = fields.optional_identity("CreateSlotId")
    binding_id = fields.identity("BindingId")
    binding_generation = fields.big_number("BindingGeneration")
    operation_definition_digest = fields.digest("OperationDefinitionDigest")
    binding_view_id = fields.optional_identity("BindingViewId")
    binding_view_revision = fields.big_number("BindingViewRevision")
    catalog_revision = fields.big_number("CatalogRevision")
    catalog_digest = fields.digest("CatalogDigest")
    request_digest = fields.digest("RequestDigest")
    payload_reference = fields.optional_text("PayloadReference", 255)
    runtime_capability_id = fields.optional_text("RuntimeCapabilityId", 128)
    runtime_command_id = fields.optional_identity("RuntimeCommandId")
    runtime_outbox_id = fields.optional_identity("RuntimeOutboxId")
    state = fields.text("State", 32)
    outcome_class = fields.optional_text("OutcomeClass", 32)
    repair_of_command_id = fields.optional_identity("RepairOfCommandId")
    superseded_by_command_id = fields.optional_identity("SupersededByCommandId")
    accepted_at = fields.instant("AcceptedAt")
    completed_at = fields.optional_instant("CompletedAt")
    retired_at = fields.optional_instant("RetiredAt")
    retired_by = fields.optional_text("RetiredBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationExternalCommand"
        verbose_name = "external command"


class IntegrationEffectAttempt(ReadOnlyModel):
    """One network try."""

    effect_attempt_id = fields.identity("EffectAttemptId", primary_key=True)
    command_id = fields.identity("CommandId")
    attempt_number = fields.number("AttemptNumber")
    open_key = fields.optional_identity("OpenKey")
    org_id = fields.identity("OrgId")
    work_id = fields.identity("WorkId")
    work_attempt = fields.number("WorkAttempt")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    binding_id = fields.identity("BindingId")
    binding_generation = fields.big_number("BindingGeneration")
    token_version = fields.optional_big_number("TokenVersion")
    method = fields.text("Method", 16)
    body_hash = fields.digest("BodyHash")
    prepared_at = fields.instant("PreparedAt")
    dispatch_started_at = fields.optional_instant("DispatchStartedAt")
    finished_at = fields.optional_instant("FinishedAt")
    response_status = fields.optional_number("ResponseStatus")
    correlation_id = fields.optional_text("CorrelationId", 255)
    outcome_class = fields.optional_text("OutcomeClass", 32)
    outcome_reason = fields.optional_text("OutcomeReason", 64)
    reconciled_at = fields.optional_instant("ReconciledAt")
    disposition = fields.optional_text("Disposition", 32)
    disposition_at = fields.optional_instant("DispositionAt")
    disposition_by = fields.optional_text("DispositionBy", 150)
    disposition_reason = fields.optional_text("DispositionReason", 1024)
    disposition_evidence = fields.optional_document("DispositionEvidence")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationEffectAttempt"
        verbose_name = "effect attempt"


class IntegrationRemoteLink(ReadOnlyModel):
    """A local and a remote record that are one."""

    remote_link_id = fields.identity("RemoteLinkId", primary_key=True)
    org_id = fields.identity("OrgId")
    namespace = fields.text("Namespace", 128)
    provider = fields.text("Provider", 64)
    binding_id = fields.identity("BindingId")
    binding_generation = fields.big_number("BindingGeneration")
    local_object = fields.text("LocalObject", 128)
    local_id = fields.optional_text("LocalId", 64)
    remote_object = fields.text("RemoteObject", 128)
    remote_id = fields.optional_text("RemoteId", 255)
    local_key = fields.optional_digest("LocalKey")
    remote_key = fields.optional_digest("RemoteKey")
    create_slot_id = fields.optional_identity("CreateSlotId")
    state = fields.text("State", 32)
    ownership_epoch = fields.big_number("OwnershipEpoch")
    remote_deleted_at = fields.optional_instant("RemoteDeletedAt")
    suspended_at = fields.optional_instant("SuspendedAt")
    suspended_reason = fields.optional_text("SuspendedReason", 64)
    retired_at = fields.optional_instant("RetiredAt")
    replaced_by_remote_link_id = fields.optional_identity("ReplacedByRemoteLinkId")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationRemoteLink"
        verbose_name = "remote link"


class ExternalDeliveryAttempt(ReadOnlyModel):
    """Evidence of a send, append-only."""

    delivery_attempt_id = fields.identity("DeliveryAttemptId", primary_key=True)
    org_id = fields.identity("OrgId")
    channel = fields.text("Channel", 32)
    cause = fields.text("Cause", 32)
    subject_kind = fields.text("SubjectKind", 32)
    subject_id = fields.text("SubjectId", 64)
    target_digest = fields.digest("TargetDigest")
    resend_of_attempt_id = fields.optional_identity("ResendOfAttemptId")
    response_status = fields.optional_number("ResponseStatus")
    outcome = fields.text("Outcome", 32)
    outcome_reason = fields.optional_text("OutcomeReason", 64)
    payload_digest = fields.digest("PayloadDigest")
    requested_by = fields.optional_text("RequestedBy", 150)
    attempted_at = fields.instant("AttemptedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ExternalDeliveryAttempt"
        verbose_name = "delivery attempt"
