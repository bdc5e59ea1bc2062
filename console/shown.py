"""From the domain's values to what pages show, and from forms to the domain's filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from integration.audit.listing import AuditFilters
from integration.authority.listing import DeadFilters
from integration.errors import InvalidInput

#: The orders of a list, by the word in its address; the first one is what no word means.
ORDERS: Final = ("newest", "oldest")


def dead_filters(chosen: dict[str, Any]) -> DeadFilters:
    """Return the domain's filter for a checked form.

    Args:
        chosen: The form's cleaned data; empty means unrestricted.
    """
    replayed = {"yes": True, "no": False}.get(chosen["replayed"])
    values = {name: value or None for name, value in chosen.items() if name not in {"id", "replayed", "attempts"}}
    return DeadFilters(
        **values,
        search=chosen["id"] or None,
        min_attempts=chosen["attempts"],
        replayed=replayed,
    )


def audit_filters(chosen: dict[str, Any]) -> AuditFilters:
    """Return the domain's filter for a checked form; empty means unrestricted."""
    return AuditFilters(**{name: value or None for name, value in chosen.items()})


def is_oldest_first(query: Mapping[str, Any]) -> bool:
    """Return whether an address asks for the oldest rows first.

    Raises:
        InvalidInput: It asks for an order that there is none of.
    """
    order = query.get("sort") or ORDERS[0]
    if order not in ORDERS:
        message = f"A list is sorted by {' or '.join(ORDERS)}."
        raise InvalidInput(message, field="sort")
    return bool(order != ORDERS[0])
