"""Whose authority calls use: bindings, grants, subscriptions, quota; never secret material."""

from __future__ import annotations

from django.db import models

from integration.models import fields
from integration.models.base import ReadOnlyModel


class IntegrationPrincipalBinding(ReadOnlyModel):
    """A principal's binding and its current generation."""

    binding_id = fields.identity("BindingId", primary_key=True)
    org_id = fields.identity("OrgId")
    app_installation_id = fields.optional_identity("AppInstallationId")
    namespace = fields.text("Namespace", 128)
    provider = fields.text("Provider", 64)
    principal_kind = fields.text("PrincipalKind", 32)
    user_id = fields.optional_identity("UserId")
    active_key = fields.optional_digest("ActiveKey")
    binding_generation = fields.big_number("BindingGeneration")
    generation_reason = fields.optional_text("GenerationReason", 64)
    generation_changed_at = fields.optional_instant("GenerationChangedAt")
    token_version = fields.big_number("TokenVersion")
    issuer = fields.optional_text("Issuer", 255)
    remote_subject = fields.optional_text("RemoteSubject", 255)
    remote_tenant = fields.optional_text("RemoteTenant", 255)
    remote_installation_id = fields.optional_text("RemoteInstallationId", 255)
    scopes = fields.optional_document("Scopes")
    scope_digest = fields.optional_digest("ScopeDigest")
    state = fields.text("State", 32)
    refresh_until = fields.optional_instant("RefreshUntil")
    refresh_epoch = fields.big_number("RefreshEpoch")
    refresh_generation = fields.optional_big_number("RefreshGeneration")
    failure_code = fields.optional_text("FailureCode", 64)
    failure_count = fields.number("FailureCount")
    last_failed_at = fields.optional_instant("LastFailedAt")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")
    disconnected_at = fields.optional_instant("DisconnectedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationPrincipalBinding"
        verbose_name = "principal binding"


class IntegrationAuthorizationGrant(ReadOnlyModel):
    """A version of secret material, without the material."""

    grant_id = fields.identity("GrantId", primary_key=True)
    binding_id = fields.identity("BindingId")
    binding_generation = fields.big_number("BindingGeneration")
    token_version = fields.big_number("TokenVersion")
    active_key = fields.optional_identity("ActiveKey")
    state = fields.text("State", 32)
    origin = fields.text("Origin", 32)
    expires_at = fields.optional_instant("ExpiresAt")
    created_by_work_id = fields.optional_identity("CreatedByWorkId")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    failure_code = fields.optional_text("FailureCode", 64)
    created_at = fields.instant("CreatedAt")
    activated_at = fields.optional_instant("ActivatedAt")
    superseded_at = fields.optional_instant("SupersededAt")
    revoked_at = fields.optional_instant("RevokedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationAuthorizationGrant"
        verbose_name = "authorization grant"


class IntegrationRemoteSubscription(ReadOnlyModel):
    """A provider's subscription as observed."""

    subscription_id = fields.identity("SubscriptionId", primary_key=True)
    org_id = fields.identity("OrgId")
    namespace = fields.text("Namespace", 128)
    pack_install_id = fields.optional_identity("PackInstallId")
    route_key = fields.text("RouteKey", 128)
    provider = fields.text("Provider", 64)
    binding_id = fields.identity("BindingId")
    binding_generation = fields.big_number("BindingGeneration")
    subscription_generation = fields.big_number("SubscriptionGeneration")
    live_key = fields.optional_digest("LiveKey")
    provider_subscription_id = fields.optional_text("ProviderSubscriptionId", 255)
    desired_digest = fields.digest("DesiredDigest")
    observed_digest = fields.optional_digest("ObservedDigest")
    state = fields.text("State", 32)
    health = fields.text("Health", 32)
    secret_generation = fields.big_number("SecretGeneration")
    reconcile_cursor = fields.optional_text("ReconcileCursor", 255)
    reconcile_cursor_id = fields.optional_text("ReconcileCursorId", 255)
    last_reconciled_at = fields.optional_instant("LastReconciledAt")
    last_operation = fields.optional_text("LastOperation", 32)
    last_outcome = fields.optional_text("LastOutcome", 32)
    last_outcome_at = fields.optional_instant("LastOutcomeAt")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")
    removed_at = fields.optional_instant("RemovedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationRemoteSubscription"
        verbose_name = "remote subscription"


class IntegrationQuotaWindow(ReadOnlyModel):
    """The capacity of one quota window."""

    pk = models.CompositePrimaryKey("quota_key", "window_start")
    quota_key = fields.digest("QuotaKey")
    window_start = fields.instant("WindowStart")
    window_seconds = fields.number("WindowSeconds")
    org_id = fields.identity("OrgId")
    provider = fields.text("Provider", 64)
    binding_id = fields.optional_identity("BindingId")
    endpoint_class = fields.optional_text("EndpointClass", 64)
    provider_quota_key = fields.optional_text("ProviderQuotaKey", 128)
    capacity = fields.big_number("Capacity")
    reserved = fields.big_number("Reserved")
    refused = fields.big_number("Refused")
    throttled_until = fields.optional_instant("ThrottledUntil")
    created_at = fields.instant("CreatedAt")
    updated_at = fields.instant("UpdatedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationQuotaWindow"
        verbose_name = "quota window"
