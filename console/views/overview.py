"""The overview: what waits, what died, what is held up, what moves."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.charts import death_chart, hour_chart
from console.models import AuditEntry
from console.permissions import VIEW, requires
from console.places import look_of
from integration.authority import reads
from integration.authority.listing import DeadFilters
from integration.cutover import reads as cutovers
from integration.cutover.fences.reads import list_armed
from integration.scopes import names_to_read
from integration.states import ReceiptState, WorkItemState
from integration.work import figures, lanes
from integration.work.pressure import LONG_SECONDS, Caps, read_pressure

#: The states worth a line of their own, in the order in which an operator meets them.
QUEUE_STATES = (
    WorkItemState.PENDING,
    WorkItemState.PROCESSING,
    WorkItemState.RETRY,
    WorkItemState.BLOCKED,
)
#: How many of the rows that died last are asked whether somebody replayed them.
DEAD_WINDOW = 2_000
#: The page is read again every few seconds by everybody who has it open: it looks at less than a list's own page.
SAMPLE = 250
CAPS = Caps(covered=2_000, looked_up=500)
SHOWN = 5
PACKS = 20


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest) -> HttpResponse:
    """Show the state of the whole installation, or of the account's places; a fragment refreshes the figures alone."""
    if not request.user.has_perm(VIEW):
        return _of_places(request)
    now = timezone.now()
    hours = figures.hours(timezone.localtime(now))
    context = {
        "section": "overview",
        "figures": "console/overview/_figures.html",
        "waiting": figures.waiting_for_operators(cap=DEAD_WINDOW, window=DEAD_WINDOW).dead,
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
        "deaths": death_chart(hours),
        "lanes": lanes.read_lanes(sample=SAMPLE, shown=SHOWN),
        "pressure": read_pressure(CAPS),
        "pressure_minutes": LONG_SECONDS // 60,
        "packs": cutovers.list_active(PACKS),
        "replays": AuditEntry.objects.filter(action="work_item.replayed", outcome="done").order_by("-at", "-id")[:6],
        "read_at": now,
    }
    template = "console/overview/_figures.html" if request.htmx else "console/overview/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


def _of_places(request: HttpRequest) -> HttpResponse:
    """Show what waits, died and is held up where the account may look; workers and pressure are everybody's."""
    look = look_of(request)
    names = names_to_read(look.within, look.namespace) or ()
    counts = figures.count_states(names)
    fences = list_armed(look.namespace, within=look.within) if names else ()
    context = {
        "section": "overview",
        "figures": "console/overview/_places.html",
        "look": look,
        "names": names,
        "waiting": reads.count_dead(
            DeadFilters(namespace=look.namespace, replayed=False), cap=DEAD_WINDOW, within=look.within
        ),
        "dead": reads.count_dead(DeadFilters(namespace=look.namespace), cap=DEAD_WINDOW, within=look.within),
        "queue": [(state, counts[state]) for state in QUEUE_STATES],
        "received": counts[ReceiptState.RECEIVED],
        "quarantined": counts[ReceiptState.QUARANTINED],
        "fences": fences[:SHOWN],
        "lanes": lanes.read_lanes(
            lanes.LaneFilters(namespace=look.namespace), within=look.within, sample=SAMPLE, shown=SHOWN
        ),
        "read_at": timezone.now(),
    }
    template = "console/overview/_places.html" if request.htmx else "console/overview/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)
