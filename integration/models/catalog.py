"""What is installed: namespaces, pack incarnations, route versions, published binding views."""

from __future__ import annotations

from integration.models import fields
from integration.models.base import ReadOnlyModel


class ConnectorNamespace(ReadOnlyModel):
    """A namespace: what namespace-wide transitions lock."""

    namespace = fields.text("Namespace", 128, primary_key=True)
    org_id = fields.identity("OrgId")
    created_at = fields.instant("CreatedAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorNamespace"
        verbose_name = "namespace"


class ConnectorPackInstall(ReadOnlyModel):
    """An incarnation of an installed pack."""

    pack_install_id = fields.identity("PackInstallId", primary_key=True)
    org_id = fields.identity("OrgId")
    app_installation_id = fields.identity("AppInstallationId")
    namespace = fields.text("Namespace", 128)
    pack_name = fields.text("PackName", 128)
    pack_version = fields.text("PackVersion", 64)
    incarnation = fields.number("Incarnation")
    status = fields.text("Status", 16)
    active_key = fields.optional_text("ActiveKey", 320)
    next_lane_ordinal = fields.big_number("NextLaneOrdinal")
    ownership_epoch = fields.big_number("OwnershipEpoch")
    catalog_revision = fields.big_number("CatalogRevision")
    catalog_digest = fields.digest("CatalogDigest")
    installed_at = fields.instant("InstalledAt")
    activated_at = fields.optional_instant("ActivatedAt")
    retired_at = fields.optional_instant("RetiredAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorPackInstall"
        verbose_name = "pack install"


class ConnectorRoute(ReadOnlyModel):
    """An immutable route version."""

    route_id = fields.identity("RouteId", primary_key=True)
    pack_install_id = fields.identity("PackInstallId")
    event_kind = fields.text("EventKind", 128)
    route_version = fields.number("RouteVersion")
    provider = fields.text("Provider", 64)
    work_type = fields.text("WorkType", 64)
    execution_class = fields.text("ExecutionClass", 32)
    flow_name = fields.text("FlowName", 128)
    flow_version = fields.text("FlowVersion", 64)
    companion_pack_name = fields.optional_text("CompanionPackName", 128)
    companion_pack_version = fields.optional_text("CompanionPackVersion", 64)
    status = fields.text("Status", 16)
    live_key = fields.optional_text("LiveKey", 320)
    created_at = fields.instant("CreatedAt")
    swept_at = fields.optional_instant("SweptAt")

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_ConnectorRoute"
        verbose_name = "route"


class IntegrationBindingView(ReadOnlyModel):
    """A projection of one Catalog revision."""

    binding_view_id = fields.identity("BindingViewId", primary_key=True)
    org_id = fields.identity("OrgId")
    namespace = fields.text("Namespace", 128)
    pack_install_id = fields.identity("PackInstallId")
    catalog_revision = fields.big_number("CatalogRevision")
    catalog_digest = fields.digest("CatalogDigest")
    current_key = fields.optional_identity("CurrentKey")
    definition_digest = fields.digest("DefinitionDigest")
    published_at = fields.instant("PublishedAt")
    published_by = fields.text("PublishedBy", 150)

    class Meta(ReadOnlyModel.Meta):
        """The table, and what one is called."""

        db_table = "_System_IntegrationBindingView"
        verbose_name = "binding view"
