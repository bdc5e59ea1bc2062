"""The audit trail: who did, tried or lost what, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.forms import AuditFilter
from console.models import AuditEntry
from console.paging import neighbour, without
from console.permissions import AUDIT, requires
from integration.errors import InvalidInput

PAGE_ROWS = 50


@require_safe
@requires(AUDIT)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List audit entries, newest first; a fragment is the rows alone."""
    form = AuditFilter(request.GET)
    if not form.is_valid():
        return render(
            request,
            "console/audit/page.html",
            {"section": "audit", "form": form, "entries": []},
            status=400,
        )
    entries, newer, older = page_of(form, request.GET.get("cursor"))
    for entry in entries:
        entry.shown_facts = facts_of(entry.facts)  # type: ignore[attr-defined]
    context = {
        "section": "audit",
        "form": form,
        "entries": entries,
        "chips": [(label, value, without(request, name)) for name, label, value in form.chosen()],
        "clear": without(request, *form.fields),
        "newer": neighbour(request, newer),
        "older": neighbour(request, older),
        "read_at": timezone.now(),
    }
    template = "console/audit/_rows.html" if request.htmx else "console/audit/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


def page_of(form: AuditFilter, cursor: str | None) -> tuple[list[AuditEntry], str | None, str | None]:
    """Return one page of entries, newest first, and the cursors of its neighbours.

    Args:
        form: A checked filter.
        cursor: A neighbour's cursor of an earlier page; None for the first page.

    Raises:
        InvalidInput: The cursor is not one of this list.
    """
    backwards = bool(cursor) and cursor[0] == "<"  # type: ignore[index]
    entries = AuditEntry.objects.filter(**form.conditions())
    if cursor:
        moment, entry_id = _parse(cursor)
        entries = entries.filter(
            Q(at__gte=moment) & (Q(at__gt=moment) | Q(at=moment, id__gt=entry_id))
            if backwards
            else Q(at__lte=moment) & (Q(at__lt=moment) | Q(at=moment, id__lt=entry_id))
        )
    order = ("at", "id") if backwards else ("-at", "-id")
    found = list(entries.order_by(*order)[: PAGE_ROWS + 1])
    more = len(found) > PAGE_ROWS
    found = found[:PAGE_ROWS]
    if backwards:
        found.reverse()
    if not found:
        return [], None, None
    has_newer = more if backwards else bool(cursor)
    has_older = True if backwards else more
    return (
        found,
        f"<{found[0].at.isoformat()}~{found[0].id}" if has_newer else None,
        f">{found[-1].at.isoformat()}~{found[-1].id}" if has_older else None,
    )


def _parse(cursor: str) -> tuple[datetime, str]:
    try:
        moment, entry_id = cursor[1:].split("~")
        at = datetime.fromisoformat(moment)
        if cursor[0] not in "<>" or at.tzinfo is None or len(entry_id) > 36:
            raise ValueError(cursor)  # noqa: TRY301 - one message for every fault of a cursor
        at = at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = "The page's cursor is not one of this list."
        raise InvalidInput(message) from error
    return at, entry_id


def facts_of(text: str) -> list[tuple[str, Any]]:
    """Return an entry's facts by name; none where they cannot be read."""
    try:
        facts: Any = json.loads(text or "{}")
    except ValueError:
        return []
    return sorted(facts.items()) if isinstance(facts, dict) else []
