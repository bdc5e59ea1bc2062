"""Stored webhooks: those that could not become work, and what the others became."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.access.reads import rights_of
from console.paging import neighbour
from console.permissions import VIEW, requires
from console.places import look_of
from console.viewed import note
from integration.errors import InvalidInput
from integration.ingress import receipt_reads as reads
from integration.states import ReceiptState


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List receipts of one state or all; a fragment is the rows alone."""
    try:
        wanted = request.GET.get("state")
        state = ReceiptState(wanted) if wanted else None
    except ValueError as error:
        message = "There is no such state."
        raise InvalidInput(message) from error
    look, cursor = look_of(request), request.GET.get("cursor") or None
    page = reads.list_receipts(state=state, cursor=cursor, within=look.within, namespace=look.namespace)
    context = {
        "section": "receipts",
        "page": page,
        "state": state,
        "tabs": tuple(ReceiptState),
        "look": look,
        "is_further": cursor is not None,
        "older": neighbour(request, page.older),
        "read_at": timezone.now(),
    }
    template = "console/receipts/_rows.html" if request.htmx else "console/receipts/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, receipt_id: str) -> HttpResponse:
    """Show one receipt's facts; never its body."""
    # The column is ASCII; MariaDB refuses to compare it with anything else.
    if len(receipt_id) > 64 or not receipt_id.isascii():
        raise Http404
    receipt = reads.get_receipt(receipt_id, within=rights_of(request.user).reach(VIEW))
    note(request, "receipt", receipt.row.receipt_id, namespace=receipt.row.namespace)
    context = {
        "section": "receipts",
        "receipt": receipt,
        "read_at": timezone.now(),
    }
    return render(request, "console/receipts/detail.html", context)
