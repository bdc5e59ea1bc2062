"""Bulk replays: the list, one with its progress, the confirm page of a new one, go and cancel."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import shown
from console.access.reads import rights_of
from console.forms import BatchForm, DeadFilter
from console.middleware import actor_of
from console.paging import neighbour, without
from console.permissions import BULK, VIEW, requires
from integration.authority.values import Ref
from integration.batches import reads, service
from integration.batches.expected import expect
from integration.batches.rights import bulk_reach, covers, demand_bulk, in_bulk
from integration.batches.selection import read_now, select
from integration.batches.values import ENDED, BatchState
from integration.errors import InvalidInput, Refused

FIRST_ROWS = 10
#: Rows that one list page can have ticked.
MOST_TICKED = 50
#: States in which somebody has to say go.
STOPPED = frozenset({BatchState.WAITING, BatchState.HALTED})


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List bulk replays, newest first; a fragment is the rows alone."""
    page = reads.list_batches(request.GET.get("cursor") or None, within=rights_of(request.user).reach(VIEW))
    context = {
        "section": "batches",
        "page": page,
        "is_further": bool(request.GET.get("cursor")),
        "older": neighbour(request, page.older),
        "read_at": timezone.now(),
    }
    template = "console/batches/_rows.html" if request.htmx else "console/batches/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@never_cache
@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Show one bulk replay and how far it is; a poll that finds nothing new is answered 204."""
    rights = rights_of(request.user)
    bulk = bulk_reach(rights)
    batch = reads.get_batch(batch_id, within=rights.reach(VIEW))
    seen = f"{batch.state}-{batch.totals.done}"
    if request.htmx and request.GET.get("seen") == seen:  # type: ignore[attr-defined]
        return HttpResponse(status=204)
    after = _place(request.GET.get("after"))
    items = reads.list_items(batch.id, after, reads.PAGE_ROWS + 1)
    context = {
        "section": "batches",
        "batch": batch,
        "seen": seen,
        "after": after,
        "is_ended": batch.state in ENDED,
        "is_stopped": batch.state in STOPPED,
        "refusals": reads.refusals(batch.id),
        "items": items[: reads.PAGE_ROWS],
        "next_after": items[reads.PAGE_ROWS - 1].position if len(items) > reads.PAGE_ROWS else None,
        "may_replay": bulk.is_everywhere or covers(bulk, reads.list_places(batch.id)),
        "read_at": timezone.now(),
    }
    template = "console/batches/_progress.html" if request.htmx else "console/batches/detail.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(BULK, scoped=True)
@requires(VIEW, scoped=True)
def create(request: HttpRequest) -> HttpResponse:
    """Show what a bulk replay of the list's filter would take, or store it.

    What died after the list was looked at (`seen_at`) is counted and left out. A POST takes only the selection that
    the page showed; one that drifted is 409 with the new one.
    """
    filters = DeadFilter(request.GET)
    chosen = filters.demand()
    actor = actor_of(request)
    within = demand_bulk(actor)
    seen_at = _moment(request.GET.get("seen_at")) or read_now()
    ticked = _ticked(request)
    if ticked is None:
        selection = select(shown.dead_filters({**chosen, "replayed": "no"}), seen_at=seen_at, within=within)
    else:
        selection = select(refs=ticked, within=within)
    form = BatchForm(request.POST or None, initial={"idempotency_key": uuid.uuid4()})
    refusal, status = None, 200
    if request.method == "POST":
        if form.is_valid():
            try:
                batch = service.create(
                    selection,
                    actor=actor,
                    reason=form.cleaned_data["reason"],
                    canary=form.cleaned_data["canary"] or 0,
                    halt_after=form.cleaned_data["halt_after"],
                    per_minute=form.cleaned_data["per_minute"] or 0,
                    expected_digest=form.cleaned_data["digest"],
                    idempotency_key=str(form.cleaned_data["idempotency_key"]),
                )
            except Refused as error:
                refusal, status = error, error.http_status
            else:
                if selection.arrived:
                    messages.warning(request, f"{selection.arrived:,} that died after you looked are not in it.")
                return redirect(reverse("batch", args=[batch.id]))
        else:
            status = 422
    context: dict[str, Any] = {
        "section": "batches",
        "selection": selection,
        "is_ticked": ticked is not None,
        "was": form.data.get("total") if refusal else None,
        "expected": expect(selection, in_bulk(actor)),
        "first": selection.items[:FIRST_ROWS],
        "chosen": [(label, value) for name, label, value in filters.chosen() if name != "replayed"],
        "form": form,
        "refusal": refusal,
        "query": _query(request, seen_at),
        "with_arrived": without(request, "seen_at"),
        "list_query": without(request, "seen_at", "ref", "ticked").partition("?")[2],
        "read_at": timezone.now(),
    }
    return render(request, "console/batches/new.html", context, status=status)


@require_POST
@requires(BULK, scoped=True)
@requires(VIEW, scoped=True)
def go(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Let a bulk replay go on that waits or was halted."""
    service.go(batch_id, actor=actor_of(request))
    return redirect(reverse("batch", args=[batch_id]))


@require_POST
@requires(BULK, scoped=True)
@requires(VIEW, scoped=True)
def pause(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Stop a running bulk replay for a while."""
    service.pause(batch_id, actor=actor_of(request))
    return redirect(reverse("batch", args=[batch_id]))


@require_POST
@requires(BULK, scoped=True)
@requires(VIEW, scoped=True)
def resume(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Let a paused bulk replay go on where it was."""
    service.resume(batch_id, actor=actor_of(request))
    return redirect(reverse("batch", args=[batch_id]))


@require_POST
@requires(BULK, scoped=True)
@requires(VIEW, scoped=True)
def cancel(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Stop a bulk replay for good."""
    service.cancel(batch_id, actor=actor_of(request))
    return redirect(reverse("batch", args=[batch_id]))


def _ticked(request: HttpRequest) -> list[Ref] | None:
    """Return the rows that were ticked, or None where all that match are meant."""
    texts = request.GET.getlist("ref")
    if not texts and "ticked" not in request.GET:
        return None
    if len(texts) > MOST_TICKED:
        message = f"{len(texts)} rows are ticked: {MOST_TICKED} at most; use a filter for more."
        raise InvalidInput(message, field="ref")
    return [Ref.parse(text) for text in texts]


def _query(request: HttpRequest, seen_at: datetime) -> str:
    params = request.GET.copy()
    params["seen_at"] = seen_at.isoformat()
    params.pop("cursor", None)
    return params.urlencode()


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        message = "seen_at is a time like 2026-01-31T12:00:00+00:00: open the list again."
        raise InvalidInput(message, field="seen_at") from None


def _place(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        message = "The page's place is not one of this list."
        raise InvalidInput(message)
    return int(text)
