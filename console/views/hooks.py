"""The door for providers' webhooks: the only anonymous POST.

The order is size, signature, receipt, answer. Nothing from the body, the headers or the signature reaches a
log, a metric or the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.request import UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import Counter, Histogram

from integration import errors
from integration.catalog.reads import WebhookBinding, find_webhook
from integration.ingress import service
from integration.ingress.secrets import SecretUnavailable, resolve_secrets
from integration.ingress.verify import SignatureVerdict, SignedRequest, verify
from integration.storage import db

#: Of `/hooks/<namespace>/<route>`, with the empty part before the first slash.
_ADDRESS_PARTS: Final = 4
_STALE_SECONDS: Final = 0.5
_MAX_SAFE_HEADER_CHARACTERS: Final = 200
#: What is kept of a request's headers, by WSGI name; everything else is forgotten.
_SAFE_HEADERS: Final = (("content-type", "CONTENT_TYPE"), ("user-agent", "HTTP_USER_AGENT"))
log = structlog.get_logger(__name__)

REJECTED = Counter(
    "lockhouse_ingress_rejected_total",
    "Webhook requests that were answered without a receipt; every one of them is worth an alert.",
    ["reason"],
)
SECONDS = Histogram(
    "lockhouse_ingress_seconds",
    "From the first byte of a webhook's handling to its answer.",
    ["outcome"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 5, 8),
)


class Rejection(StrEnum):
    """Why there is no receipt."""

    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_ROUTE = "unknown_route"
    TOO_LARGE = "too_large"
    BODY_INCOMPLETE = "body_incomplete"
    SIGNATURE = "signature"
    SECRET_UNAVAILABLE = "secret_unavailable"  # noqa: S105 - a reason
    NOT_STORED = "not_stored"
    LATE = "late"


# A series that begins with its first count has no increase that an alert could see.
for _reason in Rejection:
    REJECTED.labels(_reason.value)


_STATUS: Final = {
    Rejection.METHOD_NOT_ALLOWED: 405,
    Rejection.UNKNOWN_ROUTE: 404,
    Rejection.TOO_LARGE: 413,
    Rejection.BODY_INCOMPLETE: 400,
    Rejection.SIGNATURE: 401,
    Rejection.SECRET_UNAVAILABLE: 503,
    Rejection.NOT_STORED: 503,
    Rejection.LATE: 503,
}


class _Rejected(Exception):
    def __init__(self, reason: Rejection, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


class WebhookDoor:
    """Answer webhooks before the layers that only a person's session needs.

    Sessions, CSRF, accounts and page zones cost a webhook more than its own work does, and decide nothing about
    it: its signature does. Everything else goes on through all layers.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Keep the next layer; stay out where this process serves no webhooks."""
        if "ingress" not in settings.LOCKHOUSE_SURFACES:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a webhook's address here, any other one further in."""
        parts = request.path_info.split("/")
        if len(parts) == _ADDRESS_PARTS and parts[1] == "hooks" and parts[2] and parts[3]:
            return receive(request, parts[2], parts[3])
        return self.get_response(request)


@csrf_exempt
def receive(request: HttpRequest, namespace: str, route_key: str) -> HttpResponse:
    """Store a signed webhook and answer once it is durable.

    Args:
        request: The request; its body is read here, within the webhook's limit.
        namespace: The namespace in the address.
        route_key: The webhook's key in the address.

    Returns:
        The webhook's own status for a stored delivery and for a repeated one; 405, 404, 413, 400 or 401 for
        what is not accepted; 503 only when the receipt could not be stored in time.

    Rule: O-01, O-02, O-11.
    """
    started = time.monotonic()
    try:
        outcome, status = _receive(request, namespace, route_key, started)
    except _Rejected as rejected:
        outcome, status = "rejected", _STATUS[rejected.reason]
        REJECTED.labels(rejected.reason.value).inc()
        # The address may be a stranger's text, so that not even it is logged.
        log.info("ingress.rejected", reason=rejected.reason.value, detail=rejected.detail)
    response = HttpResponse(status=status)
    response["Cache-Control"] = "no-store"
    if status == _STATUS[Rejection.METHOD_NOT_ALLOWED]:
        response["Allow"] = "POST"
    # Django would log the path of every answer from 400 on.
    response._has_been_logged = True  # type: ignore[attr-defined]
    SECONDS.labels(outcome).observe(time.monotonic() - started)
    return response


def _receive(request: HttpRequest, namespace: str, route_key: str, started: float) -> tuple[str, int]:
    if request.method != "POST":
        raise _Rejected(Rejection.METHOD_NOT_ALLOWED, "method")
    binding = _find(namespace, route_key, started)
    body = _read_body(request, binding.rule.max_body_bytes)
    _check_signature(request, binding, body)
    header = binding.rule.delivery_id_header
    deadline = started + service.DEADLINE_SECONDS
    if time.monotonic() > deadline:
        raise _Rejected(Rejection.LATE, "before_store")
    try:
        stored = service.store_receipt(
            binding,
            body=body,
            delivery_id=None if header is None else _header(request, header),
            safe_headers=_safe_headers(request),
            deadline=deadline,
            using=settings.LOCKHOUSE_INGRESS_DATABASE,
        )
    except errors.IntegrationError as error:
        raise _Rejected(Rejection.NOT_STORED, error.code) from None
    except (DatabaseError, InterfaceError) as error:
        raise _Rejected(Rejection.NOT_STORED, type(error).__name__) from None
    return stored.outcome.value, binding.rule.response_status


def _find(namespace: str, route_key: str, started: float) -> WebhookBinding:
    using = settings.LOCKHOUSE_INGRESS_DATABASE
    try:
        try:
            binding = find_webhook(namespace, route_key, using=using)
        except (DatabaseError, InterfaceError):
            # A connection that went stale fails at once; one that stands still has used the time up.
            if time.monotonic() - started > _STALE_SECONDS:
                raise
            db.forget_connection(using)
            binding = find_webhook(namespace, route_key, using=using)
    except (DatabaseError, InterfaceError) as error:
        raise _Rejected(Rejection.NOT_STORED, type(error).__name__) from None
    if binding is None:
        raise _Rejected(Rejection.UNKNOWN_ROUTE, "route")
    return binding


def _read_body(request: HttpRequest, limit_bytes: int) -> bytes:
    """Read the raw body, never more than one byte beyond the limit, chunked or not."""
    environ = request.META
    is_chunked = "chunked" in str(environ.get("HTTP_TRANSFER_ENCODING", "")).lower()
    declared = None if is_chunked else _content_length(environ.get("CONTENT_LENGTH"))
    if declared is not None and declared > limit_bytes:
        raise _Rejected(Rejection.TOO_LARGE, "declared")
    wanted = limit_bytes + 1 if declared is None else declared
    # Django gives a chunked request an empty body; the server's own stream ends where the chunks end.
    stream = environ["wsgi.input"] if is_chunked else request
    parts: list[bytes] = []
    try:
        while wanted > 0 and (part := stream.read(wanted)):
            parts.append(part)
            wanted -= len(part)
    except (OSError, UnreadablePostError):
        raise _Rejected(Rejection.BODY_INCOMPLETE, "read") from None
    except Exception:  # noqa: BLE001 - the server has errors of its own for what are no chunks
        raise _Rejected(Rejection.BODY_INCOMPLETE, "chunks") from None
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(body) > limit_bytes:
        raise _Rejected(Rejection.TOO_LARGE, "read")
    if declared is not None and len(body) < declared:
        raise _Rejected(Rejection.BODY_INCOMPLETE, "short")
    return body


def _content_length(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _check_signature(request: HttpRequest, binding: WebhookBinding, body: bytes) -> None:
    try:
        secrets = resolve_secrets(binding.secret_references)
    except SecretUnavailable:
        raise _Rejected(Rejection.SECRET_UNAVAILABLE, "secret") from None
    verdict = verify(
        binding.rule.verifier,
        secrets,
        SignedRequest(
            body=body,
            method=request.method or "",
            uri=request.build_absolute_uri,
            header=lambda name: _header(request, name),
        ),
        now_seconds=time.time(),
    )
    if verdict is not SignatureVerdict.VALID:
        raise _Rejected(Rejection.SIGNATURE, verdict.value)


def _header(request: HttpRequest, name: str) -> str | None:
    value = request.META.get("HTTP_" + name.upper().replace("-", "_"))
    return value if isinstance(value, str) else None


def _safe_headers(request: HttpRequest) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, wsgi_name in _SAFE_HEADERS:
        value = request.META.get(wsgi_name)
        if isinstance(value, str) and value and value.isascii() and value.isprintable():
            kept[name] = value[:_MAX_SAFE_HEADER_CHARACTERS]
    return kept
