"""What every full page shows beside its own work: the two counts that call for an operator."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from integration.states import ReceiptState, WorkItemState
from integration.work import reads

#: The rail says how much waits, not how much exactly: a low cap keeps it free on every page.
RAIL_CAP = 999


def rail(request: HttpRequest) -> dict[str, Any]:
    """Return the rail's counts, read only if the page draws the rail."""
    return {
        "nav": {
            "dead": SimpleLazyObject(lambda: reads.count_in_state(WorkItemState.DEAD, cap=RAIL_CAP)),
            "quarantined": SimpleLazyObject(lambda: reads.count_receipts(ReceiptState.QUARANTINED, cap=RAIL_CAP)),
        }
    }
