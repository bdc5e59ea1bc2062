"""What stops or hands over work: fences, protocols, receipts."""

from __future__ import annotations

from django.db import models

from integration.models import fields
from integration.models.base import ReadOnlyModel


class ConnectorProjectionProtocol(ReadOnlyModel):
    """The last input admitted under the old protocol."""

    pack_install_id = fields.identity("PackInstallId", primary_key=True)
    protocol_version = fields.number("ProtocolVersion")
    legacy_max_ordinal = fields.big_number("LegacyMaxOrdinal")
    written_at = fields.instant("WrittenAt")
    written_by = fields.text("WrittenBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorProjectionProtocol"
        verbose_name = "projection protocol"


class ConnectorAdmissionFence(ReadOnlyModel):
    """A stop of materialization and replay."""

    fence_id = fields.identity("FenceId", primary_key=True)
    namespace = fields.text("Namespace", 128)
    scope = fields.text("Scope", 128)
    expires_at = fields.optional_instant("ExpiresAt")
    armed_at = fields.instant("ArmedAt")
    armed_by = fields.text("ArmedBy", 150)
    reason = fields.text("Reason", 1024)
    lifted_at = fields.optional_instant("LiftedAt")
    lifted_by = fields.optional_text("LiftedBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorAdmissionFence"
        verbose_name = "admission fence"


class ConnectorAdmissionOverride(ReadOnlyModel):
    """A scope that an armed fence lets through."""

    override_id = fields.identity("OverrideId", primary_key=True)
    fence_id = fields.identity("FenceId")
    scope = fields.text("Scope", 128)
    expires_at = fields.optional_instant("ExpiresAt")
    granted_at = fields.instant("GrantedAt")
    granted_by = fields.text("GrantedBy", 150)
    reason = fields.text("Reason", 1024)
    lifted_at = fields.optional_instant("LiftedAt")
    lifted_by = fields.optional_text("LiftedBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorAdmissionOverride"
        verbose_name = "admission override"


class ConnectorCutoverReceipt(ReadOnlyModel):
    """The durable proof of a transition of ownership."""

    receipt_id = fields.identity("ReceiptId", primary_key=True)
    pack_install_id = fields.identity("PackInstallId")
    direction = fields.text("Direction", 16)
    owner_generation = fields.big_number("OwnerGeneration")
    proof = fields.document("Proof")
    proof_digest = fields.digest("ProofDigest")
    previous_receipt_id = fields.optional_identity("PreviousReceiptId")
    written_at = fields.instant("WrittenAt")
    written_by = fields.text("WrittenBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorCutoverReceipt"
        verbose_name = "cutover receipt"


class ConnectorRollbackFence(ReadOnlyModel):
    """The WorkItems that a rollback handed over."""

    fence_id = fields.identity("FenceId", primary_key=True)
    pack_install_id = fields.identity("PackInstallId")
    owner_generation = fields.big_number("OwnerGeneration")
    state = fields.text("State", 16)
    open_key = fields.optional_identity("OpenKey")
    item_count = fields.big_number("ItemCount")
    set_digest = fields.optional_digest("SetDigest")
    receipt_id = fields.optional_identity("ReceiptId")
    opened_at = fields.instant("OpenedAt")
    opened_by = fields.text("OpenedBy", 150)
    sealed_at = fields.optional_instant("SealedAt")
    closed_at = fields.optional_instant("ClosedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorRollbackFence"
        verbose_name = "rollback fence"


class ConnectorLegacyOutcomeReceipt(ReadOnlyModel):
    """A terminal outcome of the compatibility owner."""

    pk = models.CompositePrimaryKey("event_id", "work_type")
    event_id = fields.identity("EventId")
    work_type = fields.text("WorkType", 64)
    rollback_fence_id = fields.identity("RollbackFenceId")
    receipt_version = fields.number("ReceiptVersion")
    outcome = fields.text("Outcome", 32)
    digest = fields.digest("Digest")
    conflict_digest = fields.optional_digest("ConflictDigest")
    conflict_at = fields.optional_instant("ConflictAt")
    written_at = fields.instant("WrittenAt")
    projected_at = fields.optional_instant("ProjectedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorLegacyOutcomeReceipt"
        verbose_name = "legacy outcome receipt"
