"""Live and ended work items."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.paging import neighbour
from console.permissions import VIEW, requires
from console.viewed import note
from integration.errors import InvalidInput
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


@require_GET
@requires(VIEW)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List work items of one state or all; a fragment is the rows alone."""
    state = _state(request.GET.get("state", ""))
    page = reads.list_work(state=state, cursor=request.GET.get("cursor") or None)
    context = {
        "section": "work",
        "page": page,
        "state": state,
        "tabs": TABS,
        "newer": neighbour(request, page.newer),
        "older": neighbour(request, page.older),
        "read_at": timezone.now(),
    }
    template = "console/work/_rows.html" if request.htmx else "console/work/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_GET
@requires(VIEW)
def show(request: HttpRequest, work_id: str) -> HttpResponse:
    """Show one work item with its attempts and its place in the lineage."""
    # The column is ASCII; MariaDB refuses to compare it with anything else.
    if len(work_id) > 64 or not work_id.isascii():
        raise Http404
    item = reads.get_work(work_id)
    note(
        request,
        "work_item",
        item.row.work_id,
        org_id=item.org_id,
        namespace=item.row.namespace,
        event_kind=item.row.event_kind,
    )
    context = {
        "section": "work",
        "item": item,
        "read_at": timezone.now(),
    }
    return render(request, "console/work/detail.html", context)


def _state(wanted: str) -> WorkItemState | None:
    if not wanted:
        return None
    try:
        return WorkItemState(wanted)
    except ValueError as error:
        message = "There is no such state."
        raise InvalidInput(message) from error
