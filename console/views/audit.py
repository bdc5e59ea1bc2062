"""The audit trail: who did, tried or lost what, and why."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import shown
from console.forms import AuditFilter
from console.paging import neighbour, order_links, query_of, without
from console.people import named
from console.permissions import AUDIT, requires
from console.places import look_of
from integration.audit import reads
from integration.exports.service import largest


@require_safe
@requires(AUDIT, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List audit entries, newest first or oldest first; a fragment is the rows alone."""
    form = AuditFilter(request.GET)
    if not form.is_valid():
        return render(
            request,
            "console/audit/page.html",
            {"section": "audit", "form": form, "page": None},
            status=400,
        )
    oldest_first, look = shown.is_oldest_first(request.GET), look_of(request, AUDIT)
    filters = replace(shown.audit_filters(form.cleaned_data), namespace=look.namespace)
    page = reads.list_entries(filters, request.GET.get("cursor") or None, within=look.within, oldest_first=oldest_first)
    context = {
        "section": "audit",
        "form": form,
        "page": page,
        "rows": named(page.entries),
        "look": look,
        "chips": [(label, value, without(request, name)) for name, label, value in form.chosen()],
        "clear": without(request, *form.fields),
        "newer": neighbour(request, page.newer),
        "older": neighbour(request, page.older),
        "oldest_first": oldest_first,
        "orders": order_links(request, oldest_first=oldest_first),
        "export_to": f"{reverse('audit-export')}?{query_of(request)}",
        "export_largest": largest(),
        "read_at": timezone.now(),
    }
    template = "console/audit/_rows.html" if request.htmx else "console/audit/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)
