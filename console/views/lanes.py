"""Source lanes that are held up, and the head that each of them waits for."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.permissions import VIEW, requires
from console.places import look_of
from integration.work import lanes


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List the lanes that are held up, those that need somebody first; a fragment is the rows alone."""
    look = look_of(request)
    context = {
        "section": "lanes",
        "report": lanes.read_lanes(lanes.LaneFilters(namespace=look.namespace), within=look.within),
        "sample": lanes.SAMPLE,
        "look": look,
        "read_at": timezone.now(),
    }
    template = "console/lanes/_rows.html" if request.htmx else "console/lanes/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)
