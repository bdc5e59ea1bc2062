"""Dead letters: the list and one row's page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import shown
from console.access.reads import rights_of
from console.forms import DeadFilter
from console.middleware import actor_of
from console.models import AuditEntry
from console.paging import neighbour, order_links, query_of, without
from console.permissions import REPLAY, VIEW, requires
from console.places import suggested_namespaces
from console.viewed import note_dead
from integration.authority import reads, service
from integration.authority.values import Ref
from integration.batches.rights import bulk_reach
from integration.batches.selection import read_now
from integration.errors import InvalidInput
from integration.exports.service import largest
from integration.scopes import Scope
from integration.values import plain

PAGE_ROWS = 50
#: The two halves of the list that an operator switches between most.
TABS = (("All", ""), ("Not replayed", "no"), ("Replayed", "yes"))


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List dead rows of both owners, newest first; a fragment is the rows alone."""
    form = DeadFilter(request.GET)
    context: dict[str, Any] = {
        "section": "dlq",
        "form": form,
        "read_at": timezone.now(),
    }
    if not form.is_valid():
        return render(request, "console/dlq/page.html", context, status=400)
    filters = shown.dead_filters(form.cleaned_data)
    rights = rights_of(request.user)
    within = rights.reach(VIEW)
    bulk = bulk_reach(rights)
    oldest_first = shown.is_oldest_first(request.GET)
    cursor = request.GET.get("cursor") or None
    try:
        # Before the rows: what dies in between is seen and told as new, never the other way round.
        count = None if request.htmx else reads.count_dead(filters, cap=10_000, within=within)  # type: ignore[attr-defined]
        seen_at = ((count and count.read_at) or read_now()) if bulk else None
        page = reads.list_dead(filters, cursor, PAGE_ROWS, within=within, oldest_first=oldest_first)
    except InvalidInput as error:
        if error.data_fields.get("field") != "namespace":
            raise
        form.add_error("namespace", error.operator_message())
        context["namespaces"] = within.namespaces
        return render(request, "console/dlq/page.html", context, status=400)
    kept = _kept(request, seen_at=seen_at)
    context |= {
        "page": page,
        "replay_reach": rights.reach(REPLAY),
        "newer": neighbour(request, page.newer),
        "older": neighbour(request, page.older),
        "chips": [(label, value, without(request, name)) for name, label, value in form.chosen()],
        "clear": without(request, *form.fields),
        "tabs": [(label, value, _with_replayed(request, value)) for label, value in TABS],
        "chosen": form.cleaned_data["replayed"],
        "oldest_first": oldest_first,
        "bulk": bulk,
        "is_all_bulk": bulk == within,
        "kept": list(kept.items()),
        "bulk_query": kept.urlencode(),
    }
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "console/dlq/_rows.html", context)
    context |= {
        "count": count,
        "orders": order_links(request, oldest_first=oldest_first),
        **_around(request, within),
    }
    return render(request, "console/dlq/page.html", context)


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, ref: str) -> HttpResponse:
    """Show one dead row: may it be replayed, who owns it and why, where it came from and went."""
    parsed, actor = Ref.parse(ref), actor_of(request)
    detail = reads.get_detail(parsed, within=actor.reach(VIEW))
    original = detail.lineage.ancestors[-1] if detail.lineage.ancestors else None
    note_dead(request, detail.row)
    context = {
        "section": "dlq",
        "detail": detail,
        "made_by": AuditEntry.objects.replay_of(original.work_id or original.event_id) if original else None,
        "plan": service.plan(parsed, actor),
        "may_replay": actor.reach(REPLAY).covers(detail.row.namespace),
        "read_at": timezone.now(),
    }
    return render(request, "console/dlq/detail.html", context)


@require_safe
@requires(VIEW, scoped=True)
def download(request: HttpRequest, ref: str) -> HttpResponse:
    """Download the same sanitized facts that the page shows, as JSON."""
    parsed, actor = Ref.parse(ref), actor_of(request)
    detail = reads.get_detail(parsed, within=actor.reach(VIEW))
    note_dead(request, detail.row)
    body = {
        "read_at": timezone.now(),
        "row": plain(detail),
        "plan": plain(service.plan(parsed, actor)),
    }
    response = JsonResponse(
        body,
        encoder=DjangoJSONEncoder,
        json_dumps_params={"indent": 2, "ensure_ascii": False},
    )
    response["Content-Disposition"] = f'attachment; filename="{parsed.id}.json"'
    return response


def _around(request: HttpRequest, within: Scope) -> dict[str, Any]:
    """Return what is offered around the rows: views, exports, suggestions of namespaces."""
    return {
        "list_query": query_of(request),
        "export_to": f"{reverse('dlq-export')}?{query_of(request)}",
        "export_largest": largest(),
        "namespaces": suggested_namespaces() if within.is_everywhere else within.namespaces,
    }


def _kept(request: HttpRequest, *, seen_at: datetime | None) -> QueryDict:
    """Return what a bulk replay of this list is told: its filter, its zone, and when it was read."""
    kept = QueryDict(query_of(request), mutable=True)
    for name in ("ref", "ticked", "seen_at"):
        kept.pop(name, None)
    if seen_at is not None:
        kept["seen_at"] = seen_at.isoformat()
    return kept


def _with_replayed(request: HttpRequest, value: str) -> str:
    address = without(request, "replayed")
    if not value:
        return address
    return f"{address}{'&' if '?' in address else '?'}replayed={value}"
