"""Whose rights an item is replayed under: the creator's, as the database gives them at that moment."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from integration.scopes import Rights
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
    rights = Rights() if user is None else user.rights()
    return Actor(user_id=user_id, name=name, via="batch", permissions=rights.permissions, scopes=rights.scopes)
