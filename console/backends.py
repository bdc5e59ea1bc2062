"""How an account's rights are read: all of them in one query, anew in every request."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend

from console.access.reads import rights_of


class OperatorBackend(ModelBackend):
    """Django's own accounts; rights and grants come in one query instead of two for each.

    Django is told what is held everywhere. Whoever asks for a place asks for the account's `rights()`.

    Rule: A-32.
    """

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Return the keys that an active account holds everywhere; none for anybody else, and none for an object.

        Args:
            user_obj: The account; the answer is kept on it, so for one request.
            obj: Django asks for rights on one object, which there are none of.
        """
        if user_obj.is_superuser or not user_obj.is_active or user_obj.is_anonymous or obj is not None:
            return super().get_all_permissions(user_obj, obj)
        return set(rights_of(user_obj).permissions)
