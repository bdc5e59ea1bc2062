"""What browsers report of the content security policy: counted, and never kept."""

from __future__ import annotations

import json
from typing import Final

import structlog
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from prometheus_client import Counter

#: A longer report is counted as unreadable, unread.
LARGEST_BYTES: Final = 8_192
#: What a report may name; anything else in it is a stranger's text.
DIRECTIVES: Final = frozenset(
    {
        "base-uri",
        "connect-src",
        "default-src",
        "font-src",
        "form-action",
        "frame-ancestors",
        "img-src",
        "object-src",
        "script-src",
        "script-src-attr",
        "script-src-elem",
        "style-src",
        "style-src-attr",
        "style-src-elem",
    }
)
REPORTS = Counter("lockhouse_csp_reports_total", "Reports of the content security policy, by directive.", ["directive"])
log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Count a report by its directive and answer 204, whatever it says.

    Anybody may send one: it reads no row, writes none, and neither log nor metric takes a word from it.
    """
    directive = _directive(request)
    REPORTS.labels(directive).inc()
    log.info("csp.reported", directive=directive)
    return HttpResponse(status=204)


def _directive(request: HttpRequest) -> str:
    try:
        text = request.read(LARGEST_BYTES + 1)
        # What was cut off no longer parses.
        report = json.loads(text[:LARGEST_BYTES])["csp-report"]
        named = str(report.get("effective-directive") or report.get("violated-directive", "")).split(" ", 1)[0]
    except (UnreadablePostError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "unreadable"
    return named if named in DIRECTIVES else "other"
