"""How an account's rights are read: all of them in one query, anew in every request."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.backends import ModelBackend

from console.access.reads import rights_of

#: Through which a session came in that began at the provider.
PROVIDER_BACKEND: Final = "console.backends.ProviderBackend"


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


class ProviderBackend(OperatorBackend):
    """The same accounts, come in through the provider: once that is switched off, their sessions are over."""

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **kwargs: Any) -> None:
        """Take no password; the provider's answer is checked where it arrives."""
