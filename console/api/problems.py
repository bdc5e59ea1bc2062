"""What the API says when it does not do what was asked: RFC 9457 problem documents with stable codes."""

from __future__ import annotations

import json
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse

from integration import errors
from integration.callers.policy import UNDER_WAY_SECONDS

PREFIX: Final = "/api/"
CONTENT_TYPE: Final = "application/problem+json"


#: After how many seconds a busy database may be asked again.
SOON: Final = "2"


def is_for_the_log(error: errors.IntegrationError) -> bool:
    """Return whether an error is a fault of this program's: its words are for the log, and the answer is a bare 500."""
    return error.http_status >= 500 and not isinstance(error, (errors.Busy, errors.CommitUnknown))


def retry_after(error: errors.IntegrationError) -> str | None:
    """Return after how many seconds the same request may come again; None where that changes nothing.

    After an unknown COMMIT with the same key, once nobody works on it: what was stored is found then.
    """
    if error.retryable:
        return SOON
    return str(UNDER_WAY_SECONDS) if isinstance(error, errors.CommitUnknown) else None


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
