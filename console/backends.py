"""How an account's rights are read: all of them in one query, anew in every request."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.db.models import Q


class OperatorBackend(ModelBackend):
    """Django's own accounts and rights; own rights and those of groups come in one query instead of two.

    Rule: A-32.
    """

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Return the permission keys of an active account; none for anybody else, and none for an object.

        Args:
            user_obj: The account; the answer is kept on it, so for one request.
            obj: Django asks for rights on one object, which there are none of.
        """
        if user_obj.is_superuser or not user_obj.is_active or user_obj.is_anonymous or obj is not None:
            return super().get_all_permissions(user_obj, obj)
        if not hasattr(user_obj, "_perm_cache"):
            held = Permission.objects.filter(Q(user=user_obj) | Q(group__user=user_obj))
            keys = held.order_by().values_list("content_type__app_label", "codename").distinct()
            user_obj._perm_cache = {f"{app}.{name}" for app, name in keys}
        return set(user_obj._perm_cache)
