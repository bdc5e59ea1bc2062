"""The zone in which an operator reads times."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console import zones
from console.forms import ZoneForm
from console.permissions import SIGNED_IN, requires


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(SIGNED_IN)
def choose(request: HttpRequest) -> HttpResponse:
    """Ask for a zone, or keep it in a cookie and go back to where it was asked for."""
    back = _own_address(request.POST.get("next") or request.GET.get("next", ""))
    form = ZoneForm(request.POST or None)
    if form.is_valid():
        chosen = form.cleaned_data["tz"]
        response = redirect(zones.moved(back, old=request.zone, new=chosen))  # type: ignore[attr-defined]
        response.set_cookie(
            zones.COOKIE,
            chosen,
            max_age=zones.COOKIE_SECONDS,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
        return response
    context = {"section": "zone", "form": form, "next": back, "names": zones.names()}
    return render(request, "console/zone.html", context, status=422 if request.method == "POST" else 200)


def _own_address(wanted: str) -> str:
    """Return an address of this console; the overview in place of any other."""
    is_own = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if is_own else reverse("overview")
