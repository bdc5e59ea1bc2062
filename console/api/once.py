"""A write that is sent again is answered as the first time, and changes nothing more."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from console.answers import say
from console.api.problems import SOON, is_for_the_log, retry_after
from console.middleware import actor_of
from integration import errors
from integration.callers import kept
from integration.callers.policy import digest_key, digest_request

HEADER: Final = "Idempotency-Key"
#: Set on an answer that was given before.
REPEATED: Final = "Idempotent-Replay"
#: Set on a request whose failure is known to have written nothing.
UNCHANGED: Final = "wrote_nothing"
_DONE: Final = range(200, 300)


def once(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Demand an `Idempotency-Key` of a write, and keep its answer for 24 hours if it changed something.

    Args:
        view: The view, of a method that writes.

    Returns:
        The view. The same key with another request gets 422; while the first one is under way, 409; afterwards the
        first answer. A refusal is not kept: it wrote nothing, and the same key may come again.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = request.headers.get(HEADER)
        if not key:
            sentence = f"A write needs an {HEADER} header; nothing was changed."
            return say(request, 400, code="idempotency_key_required", sentence=sentence)
        try:
            asked = digest_request(str(request.method), request.path, request.body)
            begun = kept.begin(digest_key(actor_of(request), key), asked)
        except errors.IntegrationError as error:
            return _refuse(request, error)
        if isinstance(begun, kept.Answer):
            response = HttpResponse(begun.body, status=begun.status, content_type="application/json; charset=utf-8")
            response[REPEATED] = "true"
            return response
        return _work(request, begun, lambda: view(request, *args, **kwargs))

    return guarded


def _work(request: HttpRequest, claim: kept.Claim, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Answer, and keep the answer or let the key go.

    After an error of the server nobody knows whether something was changed: the key stays bound to this request,
    which may come again a minute later and meets what the service made of it.
    """
    response = answer()
    if isinstance(response, HttpResponse) and response.status_code in _DONE:
        kept.keep(claim, kept.Answer(status=response.status_code, body=response.content.decode()))
    elif response.status_code < 500 or getattr(request, UNCHANGED, False):
        kept.let_go(claim)
    return response


def _refuse(request: HttpRequest, error: errors.IntegrationError) -> HttpResponse:
    if is_for_the_log(error):
        raise error
    response = say(request, error.http_status, code=error.code, sentence=error.operator_message())
    # Whoever works on the same request ends soon.
    wait = SOON if error.http_status == errors.Refused.http_status else retry_after(error)
    if wait is not None:
        response["Retry-After"] = wait
    return response
