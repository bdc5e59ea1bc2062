"""What every full page shows beside its own work: the two counts that call for an operator."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from integration.work import figures

#: The rail says how much waits, not how much exactly: a low cap keeps it free on every page.
RAIL_CAP = 999


def rail(request: HttpRequest) -> dict[str, Any]:
    """Return the rail's counts, read only if the page draws the rail."""
    return {"nav": SimpleLazyObject(lambda: figures.waiting_for_operators(cap=RAIL_CAP))}
