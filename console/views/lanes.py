"""Source lanes that are held up, and the head that each of them waits for."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.forms import NamespaceFilter
from console.permissions import VIEW, requires
from integration.work import lanes


@require_safe
@requires(VIEW)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List the lanes that are held up, those that need somebody first; a fragment is the rows alone."""
    filters = lanes.LaneFilters(namespace=NamespaceFilter(request.GET).namespace_or_none())
    context = {
        "section": "lanes",
        "report": lanes.read_lanes(filters),
        "sample": lanes.SAMPLE,
        "namespace": filters.namespace,
        "read_at": timezone.now(),
    }
    template = "console/lanes/_rows.html" if request.htmx else "console/lanes/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)
