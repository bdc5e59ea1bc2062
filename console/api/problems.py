"""What the API says when it does not do what was asked: RFC 9457 problem documents with stable codes."""

from __future__ import annotations

import json
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse

PREFIX: Final = "/api/"
CONTENT_TYPE: Final = "application/problem+json"


def is_api(request: HttpRequest) -> bool:
    """Return whether a request is for the API, whose answers are documents and never pages."""
    return request.path.startswith(PREFIX)


def problem(status: int, *, code: str, title: str, detail: str, next_step: str = "", **more: Any) -> HttpResponse:
    """Return a problem document.

    Args:
        status: The HTTP status.
        code: The stable code; a refusal's is the same as in the audit.
        title: What this status means.
        detail: What happened; nothing that the caller may not see.
        next_step: What can be done about it.
        **more: Members of its own, JSON values and moments.

    Returns:
        A response with that status.
    """
    document = {
        "type": f"urn:lockhouse:problem:{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "next_step": next_step,
        **more,
    }
    body = json.dumps(document, cls=DjangoJSONEncoder, ensure_ascii=False)
    return HttpResponse(body, status=status, content_type=CONTENT_TYPE)
