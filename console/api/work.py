"""`/api/v1/`: work items, receipts, fences, packs, cutovers and the trail, each the same query as its page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from console import shown
from console.access.reads import rights_of
from console.api.queries import refuse_unknown
from console.api.shapes import (
    AdmissionFenceOut,
    AuditPageOut,
    AuditQuery,
    CutoversOut,
    FencePageOut,
    PackPageOut,
    PackQuery,
    PageQuery,
    ReceiptDetailOut,
    ReceiptPageOut,
    ReceiptQuery,
    WorkOut,
    WorkPageOut,
    WorkQuery,
)
from console.forms import AuditFilter
from console.permissions import AUDIT, VIEW
from integration.audit import reads as audit
from integration.cutover import reads as packs
from integration.cutover.fences import reads as fences
from integration.cutover.inbound.verify import verify
from integration.errors import InvalidInput, NotFound
from integration.ingress import receipt_reads
from integration.scopes import Scope
from integration.values import plain
from integration.work import reads as work

router = Router()


def _within(request: HttpRequest) -> Scope:
    """Return where the caller may look."""
    return rights_of(request.user).reach(VIEW)


def ascii_id(text: str) -> str:
    """Return an id that an ASCII column can be compared with.

    Raises:
        NotFound: It is none.
    """
    if len(text) > 64 or not text.isascii():
        raise NotFound
    return text


@router.get("work-items", response=WorkPageOut, url_name="work-items")
def list_work(request: HttpRequest, query: Query[WorkQuery]) -> Any:
    """List WorkItems: of an ended state by its end, newest first; of a waiting one in the order of their claims.

    A list of one namespace, or of those that the caller may look into, is of one state, waiting ones as they came.
    """
    refuse_unknown(request, WorkQuery)
    page = work.list_work(
        state=query.state,
        cursor=query.cursor,
        limit=query.limit,
        within=_within(request),
        namespace=query.namespace,
    )
    return {"items": plain(page.rows), "newer": page.newer, "older": page.older}


@router.get("work-items/{str:work_id}", response=WorkOut, url_name="work-item")
def get_work(request: HttpRequest, work_id: str) -> Any:
    """Return one WorkItem with its attempts."""
    return plain(work.get_work(ascii_id(work_id), within=_within(request)))


@router.get("receipts", response=ReceiptPageOut, url_name="receipts")
def list_receipts(request: HttpRequest, query: Query[ReceiptQuery]) -> Any:
    """List stored webhooks."""
    refuse_unknown(request, ReceiptQuery)
    page = receipt_reads.list_receipts(
        state=query.state,
        cursor=query.cursor,
        limit=query.limit,
        within=_within(request),
        namespace=query.namespace,
    )
    return {"items": plain(page.rows), "older": page.older}


@router.get("receipts/{str:receipt_id}", response=ReceiptDetailOut, url_name="receipt")
def get_receipt(request: HttpRequest, receipt_id: str) -> Any:
    """Return one stored webhook's facts; never its body."""
    return plain(receipt_reads.get_receipt(ascii_id(receipt_id), within=_within(request)))


@router.get("fences", response=FencePageOut, url_name="fences")
def list_fences(request: HttpRequest, query: Query[PageQuery]) -> Any:
    """List the admission fences: all that are armed, and a page of those that are over."""
    refuse_unknown(request, PageQuery)
    within = _within(request)
    page = fences.list_past(query.cursor, query.limit, within=within)
    return {"armed": plain(fences.list_armed(within=within)), "items": plain(page.fences), "older": page.older}


@router.get("fences/{str:fence_id}", response=AdmissionFenceOut, url_name="fence")
def get_fence(request: HttpRequest, fence_id: str) -> Any:
    """Return one admission fence with its overrides."""
    return plain(fences.get_fence(fence_id, within=_within(request)))


@router.get("packs", response=PackPageOut, url_name="packs")
def list_packs(request: HttpRequest, query: Query[PackQuery]) -> Any:
    """List the incarnations of packs, with who executes their work."""
    refuse_unknown(request, PackQuery)
    filters = packs.IncarnationFilters(namespace=query.namespace or None)
    page = packs.list_incarnations(filters, query.cursor, query.limit, within=_within(request))
    return {"items": [{**plain(pack), "is_forward": pack.is_forward} for pack in page.rows], "older": page.older}


@router.get("cutovers/{str:pack_install_id}", response=CutoversOut, url_name="cutovers")
def get_cutovers(request: HttpRequest, pack_install_id: str) -> Any:
    """Return who owned a pack's work when, and whether the receipts of it still hold."""
    pack = packs.get_incarnation(pack_install_id, within=_within(request))
    found = verify(pack.pack_install_id)
    return {**plain(found), "holds": found.holds}


@router.get("audit", response=AuditPageOut, url_name="audit")
def list_audit(request: HttpRequest, query: Query[AuditQuery]) -> Any:
    """List the trail, newest first."""
    refuse_unknown(request, AuditQuery)
    form = AuditFilter({name: value or "" for name, value in query.model_dump(exclude={"cursor"}).items()})
    if not form.is_valid():
        raise InvalidInput("The filter is not valid.", field=next(iter(form.errors)))
    page = audit.list_entries(
        shown.audit_filters(form.cleaned_data), query.cursor, within=rights_of(request.user).reach(AUDIT)
    )
    return {"items": plain(page.entries), "newer": page.newer, "older": page.older}
