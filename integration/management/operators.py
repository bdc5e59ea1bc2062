"""What commands that act for a named operator share: whose rights count, and text that a column can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model

from integration import errors
from integration.values import Actor


def check_text(options: Mapping[str, Any]) -> None:
    """Refuse bytes that are no UTF-8: the shell hands them over as lone surrogates, which no column holds.

    Raises:
        InvalidInput: Names the option.
    """
    for name, value in options.items():
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            message = f"{name.replace('_', '-')} is not UTF-8 text."
            raise errors.InvalidInput(message, field=name)


def find_operator(name: str) -> Actor:
    """Return the named operator with the rights that the database gives at this moment.

    Raises:
        NotAllowed: There is no operator of this name.
    """
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        message = "There is no operator of this name."
        raise errors.NotAllowed(message)
    rights = user.rights()
    return Actor(
        user_id=user.pk,
        name=user.get_username(),
        via="command",
        permissions=rights.permissions,
        scopes=rights.scopes,
    )
