"""The API's addresses, each behind the same permission keys as the pages.

A session's cookie is what lets a request in, so every write needs the form token as well.
Rule: A-32.
"""

from __future__ import annotations

from typing import Any, Final

from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache

from console.api.handlers import api
from console.permissions import REPLAY, VIEW, requires

#: What each route needs, by name; a route that is not here stops the boot.
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "openapi-json": (VIEW,),
    "connector-events": (VIEW,),
    "connector-event": (VIEW,),
    "connector-event-plan": (VIEW,),
    "connector-event-replay": (VIEW, REPLAY),
    # Only its address is used, in the OpenAPI document.
    "api-root": (VIEW,),
}


def _guarded(pattern: URLPattern) -> URLPattern:
    view: Any = pattern.callback
    for permission in NEEDS[str(pattern.name)]:
        view = requires(permission)(view)
    view = never_cache(view)
    # The library exempts every view from Django's own check of the form token.
    view.csrf_exempt = False
    guarded: URLPattern = path(str(pattern.pattern), view, name=pattern.name)
    return guarded


_patterns, _app_name, _namespace = api.urls
urls = ([_guarded(pattern) for pattern in _patterns if isinstance(pattern, URLPattern)], _app_name, _namespace)
