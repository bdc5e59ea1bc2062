"""Whose rights an item is replayed under: the creator's, as the database gives them at that moment."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from integration.authority.values import BOTH_PERMISSIONS
from integration.values import Actor


def actor_of(user_id: int | None, name: str) -> Actor:
    """Return the creator of a batch with the rights that he holds now.

    Args:
        user_id: The account.
        name: What it was called when the batch was made.

    Returns:
        The actor; one without permissions if the account is gone or closed.
    """
    user = None if user_id is None else get_user_model().objects.filter(pk=user_id).first()
    held = frozenset() if user is None else frozenset(key for key in BOTH_PERMISSIONS if user.has_perm(key))
    return Actor(user_id=user_id, name=name, via="batch", permissions=held)
