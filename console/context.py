"""What every full page shows beside its own work: the two counts that call for an operator."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.permissions import AUDIT, VIEW, keeps_accounts
from integration.work import figures

#: The rail says that much waits, not how much exactly: a low cap keeps it free on every page.
RAIL_CAP = 99


def rail(request: HttpRequest) -> dict[str, Any]:
    """Return the rail's counts and where it leads to, read only if the page draws the rail."""
    user = getattr(request, "user", None)
    return {
        "nav": SimpleLazyObject(lambda: figures.waiting_for_operators(cap=RAIL_CAP)),
        "is_keeper": SimpleLazyObject(lambda: user is not None and keeps_accounts(user)),
        "is_confined": SimpleLazyObject(lambda: user is not None and _is_confined(user)),
        "may_audit": SimpleLazyObject(lambda: user is not None and _may_audit(user)),
    }


def _may_audit(user: Any) -> bool:
    """Return whether an account may read the trail of anything."""
    return bool(user.is_authenticated and user.rights().reach(AUDIT))


def _is_confined(user: Any) -> bool:
    """Return whether an account may look into some places only: not every page is for it."""
    return bool(user.is_authenticated and not user.has_perm(VIEW) and user.rights().reach(VIEW))
