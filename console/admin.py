"""The Django admin: accounts and groups, nothing of the connector work."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest

from console import factors
from console.middleware import actor_of
from console.models import User

#: What only a superuser may change: with these, an account could be given any right.
SUPERUSER_FIELDS = ("is_superuser", "user_permissions")


@admin.register(User)
class OperatorAdmin(UserAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
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
class RightsAdmin(GroupAdmin):
    """Groups. Nobody but a superuser changes a group that he is in: that would be giving rights to himself."""

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        """Keep one's own groups from being changed."""
        return super().has_change_permission(request, obj) and (
            obj is None or request.user.is_superuser or not request.user.groups.filter(pk=obj.pk).exists()
        )


def _may_touch(request: HttpRequest, account: User | None) -> bool:
    if account is None or request.user.is_superuser:
        return True
    return not account.is_superuser and account.pk != request.user.pk


admin.site.site_header = "Lockhouse accounts"
admin.site.site_title = "Lockhouse accounts"
admin.site.index_title = "Who may sign in, and what they may do"
