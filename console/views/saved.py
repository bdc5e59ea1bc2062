"""Saved views of the dead letters: keep the list's filter under a name, delete one's own."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import saved, shown
from console.forms import DeadFilter, SavedViewForm
from console.models import User
from console.paging import query_of
from console.permissions import VIEW, requires
from integration.errors import InvalidInput

_PAGE = "dlq"


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List one's own views and those that others share, and offer to keep the address's filter."""
    context = {
        "section": "dlq",
        "views": [
            (view, saved.address_of(view, zone=request.zone))  # type: ignore[attr-defined]
            for view in saved.list_views(cast("User", request.user), _PAGE, with_shared=request.user.has_perm(VIEW))
        ],
        "list_query": query_of(request),
    }
    return render(request, "console/dlq/views.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@requires(VIEW, scoped=True)
def create(request: HttpRequest) -> HttpResponse:
    """Ask for a name for the address's filter, or keep it."""
    filters = DeadFilter(request.GET)
    filters.demand()
    form = SavedViewForm(request.POST or None)
    sort = "oldest" if shown.is_oldest_first(request.GET) else ""
    query = saved.query_of_view(filters, sort=sort, zone=request.zone)  # type: ignore[attr-defined]
    if request.method == "POST" and form.is_valid():
        try:
            view = saved.save_view(
                cast("User", request.user),
                _PAGE,
                name=form.cleaned_data["name"],
                query=query,
                is_shared=form.cleaned_data["is_shared"],
            )
        except InvalidInput as error:
            form.add_error("name", error.operator_message())
        else:
            messages.success(request, f"Saved as {view.name}.")
            return redirect(f"{reverse(_PAGE)}?{query}")
    context: dict[str, Any] = {
        "section": "dlq",
        "form": form,
        "chosen": [(label, value) for _, label, value in filters.chosen()],
        "sort": sort,
        "query": query_of(request),
    }
    return render(request, "console/dlq/save.html", context, status=422 if form.is_bound else 200)


@require_POST
@requires(VIEW, scoped=True)
def delete(request: HttpRequest, view_id: str) -> HttpResponse:
    """Delete one's own view; anybody else's is not found."""
    page = saved.delete_view(cast("User", request.user), view_id) if len(view_id) <= 36 else None
    if page is None:
        raise Http404
    messages.success(request, "The view is deleted.")
    return redirect(page)
