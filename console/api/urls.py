"""The API's addresses, each behind the same permission keys as the pages.

A session's cookie or a token lets a request in; by cookie every write needs the form token as well.
A route that asks its service for the place as well lets an account in that holds its keys in some places only.
Rule: A-32.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache

from console.api.handlers import api
from console.api.once import once
from console.middleware import SAFE_METHODS
from console.permissions import AUDIT, BULK, REPLAY, VIEW, requires

#: What each route needs, by name; a route that is not here stops the boot.
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "openapi-json": (VIEW,),
    "connector-events": (VIEW,),
    "connector-event": (VIEW,),
    "connector-event-plan": (VIEW,),
    "connector-event-replay": (VIEW, REPLAY),
    "batches": (VIEW,),
    "batch": (VIEW,),
    "batch-items": (VIEW,),
    "batch-go": (VIEW, BULK),
    "batch-cancel": (VIEW, BULK),
    "work-items": (VIEW,),
    "work-item": (VIEW,),
    "receipts": (VIEW,),
    "receipt": (VIEW,),
    "fences": (VIEW,),
    "fence": (VIEW,),
    "packs": (VIEW,),
    "cutovers": (VIEW,),
    "audit": (AUDIT,),
    # Only its address is used, in the OpenAPI document.
    "api-root": (VIEW,),
}
#: Where something is changed: an unsafe method needs this key too, and an `Idempotency-Key`.
WRITES: Final[dict[str, str]] = {
    "connector-event-replay": REPLAY,
    "batches": BULK,
    "batch-go": BULK,
    "batch-cancel": BULK,
}

#: What asks for the place as well.
SCOPED: Final = frozenset(
    {
        "openapi-json",
        "connector-events",
        "connector-event",
        "connector-event-plan",
        "connector-event-replay",
        "work-items",
        "work-item",
        "receipts",
        "receipt",
        "fences",
        "fence",
        "packs",
        "cutovers",
        "audit",
        "batches",
        "batch",
        "batch-items",
        "batch-go",
        "batch-cancel",
        "api-root",
    }
)


def _guarded(pattern: URLPattern) -> URLPattern:
    view: Any = pattern.callback
    name = str(pattern.name)
    if name in WRITES:
        view = _writing(view, WRITES[name], scoped=name in SCOPED)
    for permission in NEEDS[name]:
        view = requires(permission, scoped=name in SCOPED)(view)
    view = never_cache(view)
    # The library exempts every view from Django's own check of the form token.
    view.csrf_exempt = False
    guarded: URLPattern = path(str(pattern.pattern), view, name=pattern.name)
    return guarded


def _writing(view: Any, permission: str, *, scoped: bool) -> Any:
    checked = requires(permission, scoped=scoped)(once(view))

    @wraps(view)
    def choose(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer: HttpResponseBase = (view if request.method in SAFE_METHODS else checked)(request, *args, **kwargs)
        return answer

    return choose


_patterns, _app_name, _namespace = api.urls
urls = ([_guarded(pattern) for pattern in _patterns if isinstance(pattern, URLPattern)], _app_name, _namespace)
