"""Replaying one dead row: the confirm page, the act, and the child's progress."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from console.forms import ReplayForm
from console.middleware import actor_of
from console.permissions import REPLAY, VIEW, requires
from integration.authority import reads, service
from integration.authority.values import parse_ref


@never_cache
@require_http_methods(["GET", "POST"])
@requires(REPLAY)
def confirm(request: HttpRequest, ref: str) -> HttpResponse:
    """Show what a replay would do, or do it.

    A POST is answered with a redirect to the child's progress. A refusal, and a race that was lost, are 409
    with the same page and what to do next; nothing was written then.
    """
    parsed = parse_ref(ref)
    form = ReplayForm(request.POST or None, initial={"idempotency_key": uuid.uuid4()})
    refusal, status = None, 200
    if request.method == "POST":
        if form.is_valid():
            outcome = service.replay(
                parsed,
                actor=actor_of(request),
                reason=form.cleaned_data["reason"],
                route=form.cleaned_data["route"],
                idempotency_key=str(form.cleaned_data["idempotency_key"]),
            )
            if isinstance(outcome, service.Replayed):
                return redirect(reverse("replayed", args=[ref]))
            refusal, status = outcome, 409
        else:
            status = 422
    context: dict[str, Any] = {
        "section": "dlq",
        "detail": reads.get_detail(parsed),
        "plan": service.plan(parsed),
        "form": form,
        "refusal": refusal,
        "read_at": timezone.now(),
    }
    return render(request, "console/dlq/replay.html", context, status=status)


@never_cache
@require_GET
@requires(VIEW)
def progress(request: HttpRequest, ref: str) -> HttpResponse:
    """Show how the child of a replay fares; a poll that finds nothing new is answered 204."""
    parsed = parse_ref(ref)
    child = reads.find_child(parsed)
    if request.htmx and child is not None and request.GET.get("seen") == child.state:  # type: ignore[attr-defined]
        return HttpResponse(status=204)
    context = {"section": "dlq", "ref": parsed, "child": child, "read_at": timezone.now()}
    template = "console/dlq/_progress.html" if request.htmx else "console/dlq/replayed.html"  # type: ignore[attr-defined]
    return render(request, template, context)
