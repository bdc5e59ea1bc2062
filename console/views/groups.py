"""Dead letters in groups: what fails in numbers, since when, and the way into the list and into bulk from each."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console import zones
from console.access.reads import rights_of
from console.charts import Spark, spark
from console.forms import GroupFilter
from console.permissions import VIEW, requires
from console.places import look_of
from integration.authority import groups
from integration.authority.groups import Group, GroupFilters
from integration.batches.rights import bulk_reach

#: The windows to choose from: hours, and what they are called.
WINDOWS = ((1, "1 hour"), (6, "6 hours"), (24, "24 hours"), (24 * 7, "7 days"), (24 * 30, "30 days"))
USUAL = timedelta(hours=24)


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List the groups of a window, those that wait for somebody first; a fragment is the rows alone."""
    form = GroupFilter(request.GET)
    window, look = form.window(usual=USUAL), look_of(request)
    filters = groups.window_of(timezone.now(), window, look.namespace)
    found = groups.list_groups(filters, within=look.within)
    looked_at = groups.narrowed(filters, found.back_to)
    context = {
        "section": "dlq",
        "found": found,
        "rows": [_shown(group, looked_at, filters) for group in found.rows],
        "looked_at": looked_at,
        "window": groups.WINDOW,
        "windows": WINDOWS,
        "hours": window // timedelta(hours=1),
        "look": look,
        "bulk": bulk_reach(rights_of(request.user)),
        "read_at": timezone.now(),
    }
    template = "console/groups/_rows.html" if request.htmx else "console/groups/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


def _shown(group: Group, looked_at: GroupFilters, window: GroupFilters) -> tuple[Group, Spark, str]:
    """Return a group with its course and the query of the list that holds its rows."""
    params = QueryDict(mutable=True)
    params["namespace"] = group.namespace
    if group.pack is not None:
        params["pack"] = group.pack
    params["event_kind"], params["work_type"] = group.event_kind, group.work_type
    params["died_after"], params["died_before"] = _clock(looked_at.start), _clock(looked_at.end)
    params["replayed"] = "no"
    params[zones.PARAMETER] = timezone.get_current_timezone_name()
    return group, spark(group.course, since=window.start, slot_seconds=window.slot_seconds), params.urlencode(safe="/:")


def _clock(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}"
