"""Django's error handlers: designed, and saying no more than the status."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.answers import say


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 400."""
    return say(request, 400, code="bad_request")


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 403, the same for a missing permission and for what does not exist."""
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
