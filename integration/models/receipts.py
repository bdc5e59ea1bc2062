"""What arrived: verified webhooks, without their bodies."""

from __future__ import annotations

from integration.models import fields
from integration.models.base import ReadOnlyModel


class ConnectorIngressReceipt(ReadOnlyModel):
    """A verified webhook that was stored before it was answered."""

    receipt_id = fields.identity("ReceiptId", primary_key=True)
    pack_install_id = fields.identity("PackInstallId")
    namespace = fields.text("Namespace", 128)
    route_key = fields.text("RouteKey", 128)
    provider = fields.text("Provider", 64)
    delivery_id = fields.optional_text("DeliveryId", 255)
    idempotency_key = fields.digest("IdempotencyKey")
    body_hash = fields.digest("BodyHash")
    subscription_generation = fields.big_number("SubscriptionGeneration")
    state = fields.text("State", 16)
    quarantine_code = fields.optional_text("QuarantineCode", 64)
    received_at = fields.instant("ReceivedAt")
    materialized_at = fields.optional_instant("MaterializedAt")
    materialized_pack_install_id = fields.optional_identity("MaterializedPackInstallId")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorIngressReceipt"
        verbose_name = "ingress receipt"
