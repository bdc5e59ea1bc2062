"""Dead letters: the list and one row's page."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django.core.cache import cache
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from console import shown
from console.forms import DeadFilter
from console.middleware import actor_of
from console.models import User
from console.paging import neighbour, order_links, query_of, without
from console.permissions import REPLAY, VIEW, requires
from console.saved import address_of, list_views
from console.viewed import note_dead
from integration.authority import reads, service
from integration.authority.values import Ref
from integration.batches.selection import read_now
from integration.exports.service import largest
from integration.values import plain
from integration.work.figures import namespaces

PAGE_ROWS = 50
#: How long a list of suggestions may be behind.
SUGGESTIONS_SECONDS = 15
#: The two halves of the list that an operator switches between most.
TABS = (("All", ""), ("Not replayed", "no"), ("Replayed", "yes"))


@require_GET
@requires(VIEW)
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
    may_replay = request.user.has_perm(REPLAY)
    # Before the rows: what dies in between is seen and told as new, never the other way round.
    kept = _kept(request, seen_at=read_now() if may_replay else None)
    oldest_first = shown.is_oldest_first(request.GET)
    page = reads.list_dead(filters, request.GET.get("cursor") or None, PAGE_ROWS, oldest_first=oldest_first)
    context |= {
        "page": page,
        "newer": neighbour(request, page.newer),
        "older": neighbour(request, page.older),
        "chips": [(label, value, without(request, name)) for name, label, value in form.chosen()],
        "clear": without(request, *form.fields),
        "tabs": [(label, value, _with_replayed(request, value)) for label, value in TABS],
        "chosen": form.cleaned_data["replayed"],
        "oldest_first": oldest_first,
        "may_replay": may_replay,
        "kept": list(kept.items()),
        "bulk_query": kept.urlencode(),
    }
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "console/dlq/_rows.html", context)
    context |= {
        "count": reads.count_dead(filters, cap=10_000),
        "views": [
            (view, address_of(view, zone=request.zone))  # type: ignore[attr-defined]
            for view in list_views(cast("User", request.user), "dlq")
        ],
        "list_query": query_of(request),
        "orders": order_links(request, oldest_first=oldest_first),
        "export_to": f"{reverse('dlq-export')}?{query_of(request)}",
        "export_largest": largest(),
        "namespaces": cache.get_or_set("namespaces", namespaces, SUGGESTIONS_SECONDS),
    }
    return render(request, "console/dlq/page.html", context)


@require_GET
@requires(VIEW)
def show(request: HttpRequest, ref: str) -> HttpResponse:
    """Show one dead row: may it be replayed, who owns it and why, where it came from and went."""
    parsed = Ref.parse(ref)
    detail = reads.get_detail(parsed)
    note_dead(request, detail.row)
    context = {
        "section": "dlq",
        "detail": detail,
        "plan": service.plan(parsed, actor_of(request)),
        "may_replay": request.user.has_perm(REPLAY),
        "read_at": timezone.now(),
    }
    return render(request, "console/dlq/detail.html", context)


@require_GET
@requires(VIEW)
def download(request: HttpRequest, ref: str) -> HttpResponse:
    """Download the same sanitized facts that the page shows, as JSON."""
    parsed = Ref.parse(ref)
    detail = reads.get_detail(parsed)
    note_dead(request, detail.row)
    body = {
        "read_at": timezone.now(),
        "row": plain(detail),
        "plan": plain(service.plan(parsed, actor_of(request))),
    }
    response = JsonResponse(
        body,
        encoder=DjangoJSONEncoder,
        json_dumps_params={"indent": 2, "ensure_ascii": False},
    )
    response["Content-Disposition"] = f'attachment; filename="{parsed.id}.json"'
    return response


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
