"""Live and ended work items, and the cancelling of one."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.access.reads import rights_of
from console.forms import ReasonForm
from console.middleware import actor_of
from console.models import AuditEntry
from console.paging import neighbour
from console.permissions import REPLAY, VIEW, requires
from console.places import look_of
from console.viewed import note
from integration.authority.cancellation import CANCELLABLE_STATES, CancelRefused, cancel
from integration.authority.values import Ref
from integration.errors import InvalidInput, NotAllowed
from integration.states import WorkItemState
from integration.work import reads

#: Tabs of the list; the legacy states join when a rollback can make them.
TABS = (
    WorkItemState.PENDING,
    WorkItemState.PROCESSING,
    WorkItemState.RETRY,
    WorkItemState.BLOCKED,
    WorkItemState.SUCCEEDED,
    WorkItemState.SKIPPED,
    WorkItemState.DEAD,
    WorkItemState.CANCELLED,
)


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List work items of one state, or of all where nothing narrows the list; a fragment is the rows alone."""
    look, state = look_of(request), _state(request.GET.get("state", ""))
    if state is None and look.is_narrowed:
        state = TABS[0]
    page = reads.list_work(
        state=state, cursor=request.GET.get("cursor") or None, within=look.within, namespace=look.namespace
    )
    context = {
        "section": "work",
        "page": page,
        "state": state,
        "tabs": TABS,
        "look": look,
        "all": not look.is_narrowed,
        "newer": neighbour(request, page.newer),
        "older": neighbour(request, page.older),
        "read_at": timezone.now(),
    }
    template = "console/work/_rows.html" if request.htmx else "console/work/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, work_id: str) -> HttpResponse:
    """Show one work item with its attempts and its place in the lineage."""
    # The column is ASCII; MariaDB refuses to compare it with anything else.
    if len(work_id) > 64 or not work_id.isascii():
        raise Http404
    rights = rights_of(request.user)
    item = reads.get_work(work_id, within=rights.reach(VIEW))
    note(
        request,
        "work_item",
        item.row.work_id,
        org_id=item.org_id,
        namespace=item.row.namespace,
        event_kind=item.row.event_kind,
    )
    original = item.row.replay_of_work_id
    context = {
        "section": "work",
        "item": item,
        "made_by": AuditEntry.objects.replay_of(original) if original else None,
        "is_cancellable": item.row.state in CANCELLABLE_STATES,
        "may_cancel": rights.reach(REPLAY).covers(item.row.namespace),
        "read_at": timezone.now(),
    }
    return render(request, "console/work/detail.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(REPLAY, scoped=True)
@requires(VIEW, scoped=True)
def cancel_item(request: HttpRequest, work_id: str) -> HttpResponse:
    """Show what a cancellation does, or do it; what ended meanwhile is a conflict that changes nothing."""
    ref, actor = Ref.parse(work_id), actor_of(request)
    form, refusal, status = ReasonForm(request.POST or None), None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                cancel(ref, actor=actor, reason=form.cleaned_data["reason"])
            except CancelRefused as error:
                refusal, status = error, error.http_status
            else:
                return redirect(reverse("work-item", args=[work_id]))
    item = reads.get_work(ref.id, within=actor.reach(VIEW))
    if not actor.reach(REPLAY).covers(item.row.namespace):
        raise NotAllowed
    context = {
        "section": "work",
        "item": item,
        "is_cancellable": item.row.state in CANCELLABLE_STATES,
        "form": form,
        "refusal": refusal,
        "read_at": timezone.now(),
    }
    return render(request, "console/work/cancel.html", context, status=status)


def _state(wanted: str) -> WorkItemState | None:
    if not wanted:
        return None
    try:
        return WorkItemState(wanted)
    except ValueError as error:
        message = "There is no such state."
        raise InvalidInput(message) from error
