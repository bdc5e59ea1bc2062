"""Who owns the work of every incarnation, the receipts that prove it, and what stands in the way of a next cutover."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.access.reads import rights_of
from console.paging import neighbour
from console.permissions import CUTOVER, VIEW, requires
from console.places import look_of
from integration.cutover import reads
from integration.cutover.inbound import verify as inbound
from integration.cutover.projection import service as projection
from integration.cutover.projection.patience import Patience, TimeIsUp
from integration.errors import NotAllowed

#: A page waits for so long; a history that takes longer is for the command.
DRY_RUN: Final = timedelta(seconds=20)


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List the incarnations, who executes their work, their projection protocol; a fragment is the rows alone."""
    cursor = request.GET.get("cursor") or None
    look = look_of(request)
    page = reads.list_incarnations(reads.IncarnationFilters(namespace=look.namespace), cursor, within=look.within)
    context = {
        "section": "cutovers",
        "page": page,
        "look": look,
        "is_further": cursor is not None,
        "older": neighbour(request, page.older),
        "read_at": timezone.now(),
    }
    template = "console/cutovers/_rows.html" if request.htmx else "console/cutovers/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, pack_install_id: str) -> HttpResponse:
    """Show one incarnation: its owner, its checkpoint, and every receipt with what is wrong with it."""
    return render(request, "console/cutovers/detail.html", _about(request, pack_install_id))


@require_safe
@requires(VIEW, scoped=True)
def show_receipt(request: HttpRequest, cutover_receipt_id: str) -> HttpResponse:
    """Show one receipt with its whole proof, as it prints."""
    pack, receipt = reads.get_receipt(cutover_receipt_id, within=rights_of(request.user).reach(VIEW))
    context = {"section": "cutovers", "pack": pack, "receipt": receipt, "read_at": timezone.now()}
    return render(request, "console/cutovers/receipt.html", context)


@require_safe
@requires(VIEW, scoped=True)
def download_proof(request: HttpRequest, cutover_receipt_id: str) -> HttpResponse:
    """Download the text that the digest is of, byte for byte."""
    _, receipt = reads.get_receipt(cutover_receipt_id, within=rights_of(request.user).reach(VIEW))
    response = HttpResponse(receipt.proof_text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="receipt-{receipt.head.receipt_id}.json"'
    return response


@never_cache
@require_safe
@requires(VIEW, scoped=True)
def verify(request: HttpRequest, pack_install_id: str) -> HttpResponse:
    """Recompute every digest and link of an incarnation's receipts, and hold the newest against today's rows."""
    context = _about(request, pack_install_id)
    if context["receipts"]:
        context["verification"] = inbound.verify(pack_install_id)
    return render(request, "console/cutovers/verify.html", context)


@never_cache
@require_safe
@requires(VIEW, scoped=True)
def obstacles(request: HttpRequest, pack_install_id: str) -> HttpResponse:
    """Show what stands in the way of an incarnation's forward cutover."""
    context = _about(request, pack_install_id) | {"status": inbound.read_status(pack_install_id)}
    return render(request, "console/cutovers/obstacles.html", context)


@never_cache
@require_safe
@requires(CUTOVER, scoped=True)
@requires(VIEW, scoped=True)
def dry_run(request: HttpRequest, pack_install_id: str) -> HttpResponse:
    """Audit an incarnation's projection history and show every row that would refuse its cutover; writes nothing."""
    context = _about(request, pack_install_id)
    if not context["may_audit"]:
        raise NotAllowed
    try:
        context["preview"] = projection.preview(pack_install_id, patience=Patience(timeout=DRY_RUN))
    except TimeIsUp:
        context["seconds"] = int(DRY_RUN.total_seconds())
    return render(request, "console/cutovers/dry_run.html", context)


def _about(request: HttpRequest, pack_install_id: str) -> dict[str, Any]:
    """Return what every page of an incarnation shows of it."""
    rights = rights_of(request.user)
    pack = reads.get_incarnation(pack_install_id, within=rights.reach(VIEW))
    return {
        "section": "cutovers",
        "pack": pack,
        "receipts": reads.list_receipts(pack_install_id),
        "may_audit": rights.reach(CUTOVER).covers(pack.namespace),
        "read_at": timezone.now(),
    }
