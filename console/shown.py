"""From the domain's values to what pages show, and from forms to the domain's filters."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from enum import Enum
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


def plain(value: Any) -> Any:
    """Return a JSON-ready copy of a frozen value: fields by name, moments in ISO 8601.

    Args:
        value: A dataclass, enum, moment, collection or scalar.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
