"""Django's error handlers: designed, and saying no more than the status."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.answers import say
from console.middleware import actor_of
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.authority.details import looks_like_id


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 400."""
    return say(request, 400, code="bad_request")


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 403, the same for a missing permission and for what does not exist; an attempt to change is told."""
    if request.method == "POST" and request.user.is_authenticated:
        _tell_refused(request)
    if getattr(request.user, "token_scopes", None) is not None:
        return say(
            request,
            403,
            code="permission_denied",
            sentence="The token's scopes or its account's rights do not name what this needs. Nothing was changed.",
            next_step="Make a token with this scope on your account's page, or ask an administrator for the right.",
        )
    return say(request, 403, code="permission_denied")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer 403 to a form whose token is missing or old."""
    return say(
        request,
        403,
        code="form_expired",
        sentence="The form was too old or did not come from this console. Nothing was changed.",
        next_step="Reload the page and send it again.",
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 404."""
    return say(request, 404, code="not_found")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500."""
    return say(request, 500, code="internal_error")


def locked_out(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Answer 429 to too many sign-in attempts, the same for known and unknown accounts."""
    return render(request, "console/sign_in.html", {"locked": True}, status=429)


def _tell_refused(request: HttpRequest) -> None:
    """Leave in the trail who sent a form, maybe from a page that was open before, without the right to it."""
    match = request.resolver_match
    named = [] if match is None else [str(value).rpartition(":")[2] for value in match.kwargs.values()]
    fact = AuditFact(
        action="request.sent",
        outcome=AuditOutcome.REFUSED,
        actor=actor_of(request),
        ref_kind="page",
        # What somebody typed into an address is told only if it has an id's form.
        ref_id=next((text for text in named if looks_like_id(text)), ""),
        facts={"code": "permission_denied", "page": "" if match is None else match.view_name},
    )
    record_alone(fact)
