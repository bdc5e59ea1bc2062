"""What a list's address may say: a parameter that it does not have is refused, never left out silently."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Schema

from integration.errors import InvalidInput


class UnknownParameter(InvalidInput):
    """The address names a parameter that this list does not have."""

    code = "unknown_parameter"


def refuse_unknown(request: HttpRequest, query: type[Schema]) -> None:
    """Refuse an address with parameters that a list does not have.

    Args:
        request: The request.
        query: The list's own parameters.

    Raises:
        UnknownParameter: There is one; its name may be a stranger's text and is not repeated.
    """
    if not set(request.GET) <= set(query.model_fields):
        raise UnknownParameter
