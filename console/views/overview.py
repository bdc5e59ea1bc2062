"""The overview: what waits, what died, what moves."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.charts import hour_chart
from console.models import AuditEntry
from console.permissions import VIEW, requires
from integration.states import ReceiptState, WorkItemState
from integration.work import figures

#: The states worth a line of their own, in the order in which an operator meets them.
QUEUE_STATES = (
    WorkItemState.PENDING,
    WorkItemState.PROCESSING,
    WorkItemState.RETRY,
    WorkItemState.BLOCKED,
)


@require_GET
@requires(VIEW, scoped=True)
def show(request: HttpRequest) -> HttpResponse:
    """Show the state of the whole installation; a fragment refreshes the figures alone.

    Who may look into some places only is led to the dead letters: these figures are everybody's.
    """
    if not request.user.has_perm(VIEW):
        return redirect("dlq")
    now = timezone.now()
    hours = figures.hours(now)
    context = {
        "section": "overview",
        "dead": figures.count_in_state(WorkItemState.DEAD),
        "oldest_dead_at": figures.oldest_dead_at(),
        "queue": [(state, figures.count_in_state(state)) for state in QUEUE_STATES],
        "oldest_due_at": figures.oldest_due_at(),
        "workers": figures.workers_alive(now),
        "received": figures.count_receipts(ReceiptState.RECEIVED),
        "quarantined": figures.count_receipts(ReceiptState.QUARANTINED),
        "fences": figures.armed_fences(),
        "hours": hours,
        "hour_cap": figures.HOUR_CAP,
        "chart": hour_chart(hours),
        "replays": AuditEntry.objects.filter(action="work_item.replayed", outcome="done").order_by("-at", "-id")[:6],
        "read_at": now,
    }
    template = "console/overview/_figures.html" if request.htmx else "console/overview/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)
