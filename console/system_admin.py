"""The small system tables in the account pages: to read, sanitized as their models are, in the reader's places alone.

Events, WorkItems and receipts have pages of their own, which never count or walk a whole table.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from console.access.reads import rights_of
from console.permissions import VIEW
from integration import models
from integration.scopes import Scope

#: Rows that a list counts and pages through, at most; a search finds the others.
MOST_ROWS: Final = 1_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs alone
    """Pages through the first rows and counts no others."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most `MOST_ROWS`."""
        rows: Any = self.object_list
        return len(rows.values_list("pk")[:MOST_ROWS])


def in_namespaces(within: Scope) -> Q:
    """Return what rows of a table with a namespace have to match."""
    return Q(namespace__in=within.namespaces)


def of_packs(within: Scope) -> Q:
    """Return what rows have to match that name an incarnation."""
    packs = models.ConnectorPackInstall.reading().filter(in_namespaces(within))
    return Q(pack_install_id__in=packs.values("pack_install_id"))


def of_fences(within: Scope) -> Q:
    """Return what rows have to match that name a fence."""
    fences = models.ConnectorAdmissionFence.reading().filter(in_namespaces(within))
    return Q(fence_id__in=fences.values("fence_id"))


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
    """A table that these pages list and show, and never write."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show it in the index to whoever may view it."""
        return self.has_view_permission(request)


class SystemAdmin(ReadOnlyAdmin):
    """A system table: listed and shown where the reader may view."""

    actions = None
    list_per_page = 50
    paginator = BoundedPaginator

    #: What narrows the table to a scope.
    narrow: Any = staticmethod(in_namespaces)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of where the reader may view."""
        within = rights_of(request.user).reach(VIEW)
        rows = super().get_queryset(request)
        return rows if within.is_everywhere else rows.filter(self.narrow(within))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Show it to whoever may view anywhere; the rows are narrowed."""
        return bool(rights_of(request.user).reach(VIEW))


class OfPack(SystemAdmin):
    """A table whose rows name an incarnation."""

    narrow = staticmethod(of_packs)


class OfFence(SystemAdmin):
    """A table whose rows name a fence."""

    narrow = staticmethod(of_fences)


_TABLES: Final[tuple[tuple[type[Model], type[SystemAdmin], tuple[str, ...], tuple[str, ...]], ...]] = (
    (models.ConnectorNamespace, SystemAdmin, ("namespace", "org_id", "created_at"), ("namespace", "org_id")),
    (
        models.ConnectorPackInstall,
        SystemAdmin,
        ("pack_install_id", "namespace", "pack_name", "pack_version", "incarnation", "status"),
        ("pack_install_id", "namespace", "pack_name"),
    ),
    (
        models.ConnectorRoute,
        OfPack,
        ("route_id", "event_kind", "route_version", "provider", "work_type", "status"),
        ("route_id", "event_kind"),
    ),
    (
        models.ConnectorProjectionProtocol,
        OfPack,
        ("pack_install_id", "protocol_version", "legacy_max_ordinal", "written_at", "written_by"),
        ("pack_install_id",),
    ),
    (
        models.ConnectorCutoverReceipt,
        OfPack,
        ("receipt_id", "pack_install_id", "direction", "owner_generation", "written_at", "written_by"),
        ("receipt_id", "pack_install_id"),
    ),
    (
        models.ConnectorRollbackFence,
        OfPack,
        ("fence_id", "pack_install_id", "owner_generation", "state", "opened_at", "opened_by"),
        ("fence_id", "pack_install_id"),
    ),
    (
        models.ConnectorAdmissionFence,
        SystemAdmin,
        ("fence_id", "namespace", "scope", "armed_at", "armed_by", "lifted_at"),
        ("fence_id", "namespace"),
    ),
    (
        models.ConnectorAdmissionOverride,
        OfFence,
        ("override_id", "fence_id", "scope", "granted_at", "granted_by", "lifted_at"),
        ("override_id", "fence_id"),
    ),
)

for _model, _base, _shown, _searched in _TABLES:
    admin.site.register(
        _model, type(f"{_model.__name__}Admin", (_base,), {"list_display": _shown, "search_fields": _searched})
    )
