"""From the domain's values to what pages show, and from forms to the domain's filters."""

from __future__ import annotations

from typing import Any

from integration.authority.listing import DeadFilters


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
