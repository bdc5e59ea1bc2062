"""Signing in through the provider: there, and back."""

from __future__ import annotations

import time
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from console import identities, oidc
from console.backends import PROVIDER_BACKEND
from console.oidc_settings import OidcSettings
from console.people import stranger
from console.views.session import proceed
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone

#: The one sign-in of this browser that is under way.
KEPT_KEY: Final = "at_provider"
KEPT_SECONDS: Final = 600


@never_cache
@require_GET
def go(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, by a link: the policy lets no form lead to another site."""
    provider, onwards = _provider(), _onwards(request)
    if request.user.is_authenticated:
        return redirect(onwards)
    try:
        address, kept = oidc.begin(provider, _back(request))
    except oidc.ProviderAway as away:
        return _door(request, provider, onwards, away.http_status)
    request.session[KEPT_KEY] = {**kept, "next": onwards, "at": int(time.time())}
    return redirect(address)


@never_cache
@require_GET
def back(request: HttpRequest) -> HttpResponse:
    """Sign in whoever came back and has an open account here; the same words for everybody else.

    The sign-in that was under way is over with this, whatever comes of it. A second factor that the account set here
    is asked for as after a password.
    """
    provider = _provider()
    kept: dict[str, Any] = request.session.pop(KEPT_KEY, None) or {}
    onwards = kept.get("next") or resolve_url(settings.LOGIN_REDIRECT_URL)
    if not kept or time.time() - kept["at"] > KEPT_SECONDS:
        return _refuse(request, provider, onwards, code="not_begun")
    try:
        subject = oidc.finish(provider, kept, request.GET, _back(request))
    except oidc.ProviderAway as away:
        return _door(request, provider, onwards, away.http_status)
    except oidc.NotProved as error:
        return _refuse(request, provider, onwards, code=error.code, why=error.data_fields["why"])
    user = identities.account_of(provider.issuer, subject, creates=provider.creates)
    if user is None:
        return _refuse(request, provider, onwards, code="no_account")
    if not user.is_active:
        return _refuse(request, provider, onwards, code="account_closed", account=str(user.pk))
    return proceed(request, user, PROVIDER_BACKEND, onwards)


def _provider() -> OidcSettings:
    provider: OidcSettings | None = settings.LOCKHOUSE_OIDC
    if provider is None:
        raise Http404
    return provider


def _onwards(request: HttpRequest) -> str:
    """Return the page to go on to, which is one of this console's."""
    asked = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(asked, {request.get_host()}, require_https=request.is_secure())
    return asked if is_ours else resolve_url(settings.LOGIN_REDIRECT_URL)


def _back(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("sign-in-provider-back"))


def _door(request: HttpRequest, provider: OidcSettings, onwards: str, status: int) -> HttpResponse:
    """Show the sign-in page again, with what went wrong; where somebody was going is not lost."""
    context = {"provider": provider, "next": onwards, "provider_status": status}
    return render(request, "console/sign_in.html", context, status=status)


def _refuse(
    request: HttpRequest, provider: OidcSettings, onwards: str, *, account: str = "", **facts: object
) -> HttpResponse:
    fact = AuditFact(
        action="user.signed_in",
        outcome=AuditOutcome.REFUSED,
        actor=stranger(request),
        ref_kind="user",
        ref_id=account,
        facts={"by": "provider", **facts},
    )
    record_alone(fact)
    return _door(request, provider, onwards, 403)
