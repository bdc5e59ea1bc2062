"""Replaying one dead row: the confirm page, the act, and the child's progress."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.access.reads import rights_of
from console.forms import ReplayForm
from console.middleware import actor_of
from console.models import AuditEntry
from console.permissions import REPLAY, VIEW, requires
from integration.authority import reads, service
from integration.authority.values import Ref, Replayed
from integration.states import TERMINAL_EVENT_STATUSES, TERMINAL_STATES

#: States after which a child changes no more; the Event executor has its own words.
ENDED = frozenset(str(state) for state in (*TERMINAL_STATES, *TERMINAL_EVENT_STATUSES))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(REPLAY, scoped=True)
@requires(VIEW, scoped=True)
def confirm(request: HttpRequest, ref: str) -> HttpResponse:
    """Show what a replay would do, or do it.

    A POST is answered with a redirect to the child's progress. A refusal, and a race that was lost, are 409
    with the same page and what to do next; nothing was written then.
    """
    parsed, actor = Ref.parse(ref), actor_of(request)
    form = ReplayForm(request.POST or None, initial={"idempotency_key": uuid.uuid4()})
    refusal, status = None, 200
    if request.method == "POST":
        if form.is_valid():
            outcome = service.replay(
                parsed,
                actor=actor,
                reason=form.cleaned_data["reason"],
                route=form.cleaned_data["route"],
                idempotency_key=str(form.cleaned_data["idempotency_key"]),
            )
            if isinstance(outcome, Replayed):
                return redirect(reverse("replayed", args=[ref]))
            refusal, status = outcome, outcome.http_status
        else:
            status = 422
    context: dict[str, Any] = {
        "section": "dlq",
        "ref": parsed,
        "detail": reads.get_detail(parsed, within=actor.reach(VIEW)),
        "plan": service.plan(parsed, actor),
        "form": form,
        "refusal": refusal,
        "read_at": timezone.now(),
    }
    return render(request, "console/dlq/replay.html", context, status=status)


@never_cache
@require_safe
@requires(VIEW, scoped=True)
def progress(request: HttpRequest, ref: str) -> HttpResponse:
    """Show how the child of a replay fares; a poll that finds nothing new is answered 204."""
    parsed = Ref.parse(ref)
    descendants = reads.lineage(parsed, within=rights_of(request.user).reach(VIEW)).descendants
    child = descendants[0] if descendants else None
    if request.htmx and child is not None and request.GET.get("seen") == child.state:  # type: ignore[attr-defined]
        return HttpResponse(status=204)
    context = {
        "section": "dlq",
        "ref": parsed,
        "child": child,
        "is_ended": child is not None and child.state in ENDED,
        "entry": AuditEntry.objects.replay_of(parsed.id),
        "read_at": timezone.now(),
    }
    template = "console/dlq/_progress.html" if request.htmx else "console/dlq/replayed.html"  # type: ignore[attr-defined]
    return render(request, template, context)
