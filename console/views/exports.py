"""Lists as files to download: the dead letters and the audit trail, as their pages filter them."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from console import shown
from console.forms import AuditFilter, DeadFilter
from console.middleware import actor_of
from console.permissions import AUDIT, VIEW, requires
from integration.errors import InvalidInput
from integration.exports import service
from integration.exports.policy import Format

_CONTENT_TYPES = {Format.CSV: "text/csv", Format.JSON: "application/json"}


@require_POST
@requires(VIEW, scoped=True)
def dead(request: HttpRequest) -> StreamingHttpResponse:
    """Download the dead rows that the address's filter matches; the trail tells of it, so it is sent by a form."""
    chosen, form = DeadFilter(request.GET).demand(), _format(request)
    parts = service.export_dead(
        shown.dead_filters(chosen),
        actor=actor_of(request),
        form=form,
        oldest_first=shown.is_oldest_first(request.GET),
    )
    return _download(parts, "dead-letters", form)


@require_POST
@requires(AUDIT, scoped=True)
def audit(request: HttpRequest) -> StreamingHttpResponse:
    """Download the entries of the trail that the address's filter matches."""
    chosen, form = AuditFilter(request.GET).demand(), _format(request)
    parts = service.export_audit(
        shown.audit_filters(chosen),
        actor=actor_of(request),
        form=form,
        oldest_first=shown.is_oldest_first(request.GET),
    )
    return _download(parts, "audit", form)


def _format(request: HttpRequest) -> Format:
    try:
        return Format(request.POST.get("format", ""))
    except ValueError:
        message = f"A file is {' or '.join(Format)}."
        raise InvalidInput(message, field="format") from None


def _download(parts: Iterator[str], name: str, form: Format) -> StreamingHttpResponse:
    response = StreamingHttpResponse(parts, content_type=f"{_CONTENT_TYPES[form]}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}-{timezone.now():%Y%m%dT%H%M%SZ}.{form}"'
    response["Cache-Control"] = "no-store"
    return response
