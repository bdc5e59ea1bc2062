"""The Django admin: accounts, groups and, to read, grants; nothing of the connector work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console import factors
from console.access.managers import LastManager, keeping_a_manager
from console.middleware import actor_of
from console.models import ScopeGrant, User
from console.permissions import ACCESS
from console.system_admin import ReadOnlyAdmin
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone

#: What only a superuser may change: with these, an account could be given any right.
SUPERUSER_FIELDS = ("is_superuser", "user_permissions")


class KeepsAManager:
    """Every change of accounts or groups that would leave nobody who manages access is undone and told."""

    model: Any

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Show the form, or change what it says."""
        return self._keep(super().changeform_view, request, object_id, *args, **kwargs)  # type: ignore[misc]

    def delete_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        """Ask, or delete."""
        return self._keep(super().delete_view, request, object_id, *args, **kwargs)  # type: ignore[misc]

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the list, or do something to what is ticked; other actions have transactions of their own."""
        view: Callable[..., HttpResponse] = super().changelist_view  # type: ignore[misc]
        if request.POST.get("action") == "delete_selected":
            return self._keep(view, request, *args, **kwargs)
        return view(request, *args, **kwargs)

    def _keep(self, view: Callable[..., HttpResponse], request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        try:
            with keeping_a_manager():
                return view(request, *args, **kwargs)
        except LastManager as refusal:
            name = self.model._meta.model_name
            fact = AuditFact(
                action=f"{name}.changed",
                outcome=AuditOutcome.REFUSED,
                actor=actor_of(request),
                ref_kind=name,
                ref_id=str(args[0] or "")[:64] if args else "",
                facts={"code": refusal.code},
            )
            record_alone(fact)
            messages.error(request, refusal.operator_message())
            return redirect(request.path)


@admin.register(User)
class OperatorAdmin(KeepsAManager, UserAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
    """Accounts. Whoever may change accounts gives others the groups that exist, and himself nothing.

    Rule: A-32.
    """

    actions = ("remove_second_factor",)

    @admin.action(description="Take the second factor away", permissions=["change"])
    def remove_second_factor(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Let accounts sign in by their passwords alone, whose owners lost app and codes; told in the trail."""
        for account in queryset.order_by("pk"):
            if not _may_touch(request, account):
                self.message_user(request, f"{account}: not yours to change.", messages.ERROR)
            elif factors.remove(account.pk, actor=actor_of(request)):
                self.message_user(request, f"{account}: signs in by password alone.")
            else:
                self.message_user(request, f"{account}: has no second factor.", messages.WARNING)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Keep a superuser's account, and one's own, from being changed by anyone but a superuser."""
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Keep a superuser's account, and one's own, from being removed by anyone but a superuser."""
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Show, and do not take, the fields that would give every right."""
        fields = tuple(super().get_readonly_fields(request, obj))
        return fields if request.user.is_superuser else (*fields, *SUPERUSER_FIELDS)


admin.site.unregister(Group)


@admin.register(Group)
class RightsAdmin(KeepsAManager, GroupAdmin):
    """Groups. Nobody but a superuser changes a group that he is in: that would be giving rights to himself."""

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Keep one's own groups from being changed."""
        return super().has_change_permission(request, obj) and (
            obj is None or request.user.is_superuser or not request.user.groups.filter(pk=obj.pk).exists()
        )


@admin.register(ScopeGrant)
class GrantAdmin(ReadOnlyAdmin):
    """Grants, to read: the access page makes, confirms and revokes them."""

    list_display = ("user", "permission", "org_id", "namespace", "expires_at", "confirmed_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "namespace", "org_id")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Show them to whoever manages access."""
        return bool(request.user.has_perm(ACCESS))


def _may_touch(request: HttpRequest, account: User | None) -> bool:
    if account is None or request.user.is_superuser:
        return True
    return not account.is_superuser and account.pk != request.user.pk


admin.site.site_header = "Lockhouse accounts"
admin.site.site_title = "Lockhouse accounts"
admin.site.index_title = "Who may sign in, and what they may do"
