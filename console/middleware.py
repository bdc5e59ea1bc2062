"""What every console request passes through: the error pages, the time zone, the age of a session.

This and the management commands are the only places that turn a domain error into an answer.
"""

from __future__ import annotations

import ipaddress
import time
import zoneinfo
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import logout
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
)
from django.utils import timezone

from console.access.reads import rights_of
from console.answers import say
from console.api.problems import is_api
from console.people import address_of
from console.zones import zone_of
from integration.errors import IntegrationError
from integration.values import Actor, digest_parts

GetResponse = Callable[[HttpRequest], HttpResponseBase]

#: A session ends this long after the sign-in, however busy it is (ASVS V7).
SESSION_ABSOLUTE_SECONDS: Final = 8 * 3600
#: And this long after the last thing that somebody did in it.
SESSION_IDLE_SECONDS: Final = 30 * 60
#: The last act is noted no more often than this: a read should not write.
SEEN_EVERY_SECONDS: Final = 60
STARTED_KEY: Final = "started_at"
SEEN_KEY: Final = "seen_at"
RIGHTS_KEY: Final = "rights_version"
#: Addresses that know no session, whatever cookie comes along.
UNATTENDED: Final = frozenset({"/csp-report"})
#: Methods that change nothing.
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: What `Sec-Fetch-Site` may say of a write: one of our pages sent it, or the person themselves did.
OWN_SITES: Final = frozenset({"same-origin", "none"})

#: Whoever makes the current request; account changes made in the Django admin are audited under it.
current_actor: ContextVar[Actor | None] = ContextVar("current_actor", default=None)


def actor_of(request: HttpRequest) -> Actor:
    """Return who makes this request, with the permissions that the account holds right now.

    Args:
        request: An authenticated request.

    Returns:
        The actor for services and the audit; `via` is `console`.
    """
    user = request.user
    rights = rights_of(user)
    return Actor(
        user_id=user.pk,
        name=user.get_username(),
        remote_addr=address_of(request),
        via="console",
        permissions=rights.permissions,
        scopes=rights.scopes,
    )


class ClientAddress:
    """Take the client's address from the proxy that ends TLS, where the installation says that there is one.

    The proxy appends whom it talked to: the last entry of `X-Forwarded-For` is its word, all before it the client's.
    Throttled sign-ins and the trail would else hold everybody for one.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer; without a valid entry the address stays the proxy's."""
        if settings.LOCKHOUSE_BEHIND_TLS_PROXY:
            last = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
            with suppress(ValueError):
                request.META["REMOTE_ADDR"] = str(ipaddress.ip_address(last))
        return self.get_response(request)


class SentFrom:
    """Refuse a write that the browser says another site sent, whatever cookie and token come with it.

    Browsers that send no `Sec-Fetch-Site`, and programs, are left to the form token or the API token.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer."""
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """Refuse before the view runs; a page of the same site but another origin is another one too."""
        if request.method in SAFE_METHODS or request.headers.get("Sec-Fetch-Site", "none") in OWN_SITES:
            return None
        return say(
            request,
            403,
            code="cross_site",
            sentence="Another site sent this. Nothing was changed.",
            next_step="Open the page in this console and send it from there.",
        )


class SessionAge:
    """End a session that is too old, or in which nobody did anything for too long; renew its key with the rights.

    A refresh that the page makes by itself is nobody's act and keeps no session alive. Whoever knew the key under
    other rights does not have the new ones.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, as a signed-out visitor if the session is too old."""
        # A browser sends reports by itself: they are nobody's act, and read no session.
        if request.path not in UNATTENDED and request.user.is_authenticated:
            now = int(time.time())
            started = request.session.setdefault(STARTED_KEY, now)
            seen = request.session.get(SEEN_KEY, now)
            if now - started > SESSION_ABSOLUTE_SECONDS or now - seen > SESSION_IDLE_SECONDS:
                logout(request)
            elif not getattr(request, "htmx", False) and (
                now - seen > SEEN_EVERY_SECONDS or SEEN_KEY not in request.session
            ):
                request.session[SEEN_KEY] = now
            if request.user.is_authenticated:
                _renew_key(request)
        return self.get_response(request)


def _renew_key(request: HttpRequest) -> None:
    version = _rights_version(request.user)
    known = request.session.get(RIGHTS_KEY)
    if known == version:
        return
    if known is not None:
        request.session.cycle_key()
    request.session[RIGHTS_KEY] = version


def _rights_version(user: Any) -> str:
    """Return what changes with a grant, a group, a permission, or the right to the account pages."""
    return digest_parts(str(user.rights_version), str(user.is_staff), *sorted(rights_of(user).permissions))


class Zone:
    """Show times in the zone that the URL names (`?tz=Europe/Berlin`), or that was chosen before; else in UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in the page's zone."""
        request.zone = zone_of(request)  # type: ignore[attr-defined]
        with timezone.override(zoneinfo.ZoneInfo(request.zone)):  # type: ignore[attr-defined]
            return self.get_response(request)


class Answers:
    """Turn domain errors and bare 405s into pages and fragments with the right status.

    A fragment gets the same status as the page, so that htmx never swaps in a blank.
    """

    def __init__(self, get_response: GetResponse) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with a designed page in place of Django's empty 405."""
        token = None
        is_write = request.method == "POST" and request.path not in UNATTENDED
        if is_write and getattr(request, "user", None) is not None and request.user.is_authenticated:
            token = current_actor.set(actor_of(request))
        try:
            response = self.get_response(request)
        finally:
            if token is not None:
                current_actor.reset(token)
        if isinstance(response, HttpResponseNotAllowed) and (not response.content or is_api(request)):
            page = say(request, 405, code="method_not_allowed")
            page["Allow"] = response["Allow"]
            return page
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer a domain error by its code and status; leave everything else to Django.

        Only the error's fixed sentence is shown. Broken invariants show nothing but the 500 page: their
        message is for the log.
        """
        if not isinstance(exception, IntegrationError) or (exception.http_status >= 500 and not exception.retryable):
            return None
        response = say(
            request,
            exception.http_status,
            code=exception.code,
            sentence=exception.operator_message(),
        )
        if exception.retryable:
            response["Retry-After"] = "2"
        return response
