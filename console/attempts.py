"""Wrong passwords and codes of one account, counted together wherever they are typed."""

from __future__ import annotations

from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest

from console.models import User


def is_closed(request: HttpRequest, user: User) -> bool:
    """Return whether so many were wrong, from this address, that no other one is looked at for a while."""
    return not AxesProxyHandler.is_allowed(request, _credentials(user))


def count_wrong(request: HttpRequest, user: User) -> None:
    """Count one that was wrong, and tell it in the trail."""
    user_login_failed.send(sender=__name__, credentials=_credentials(user), request=request)


def _credentials(user: User) -> dict[str, str]:
    return {"username": user.get_username()}
