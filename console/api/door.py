"""How a request comes in by an API token instead of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from console.answers import say
from console.api.problems import SOON, is_api
from console.models import User
from integration import errors
from integration.callers.policy import TokenInvalid, TooManyRequests
from integration.callers.tokens import admit

SCHEME: Final = "Bearer"
CHALLENGE: Final = f'{SCHEME} realm="lockhouse"'


class TokenDoor:
    """Let a request to the API in by `Authorization: Bearer TOKEN`, with the owner's rights of now, narrowed.

    A token that is not good is refused even beside a good session: the caller meant the token. No browser sends the
    header by itself, so that a write by token needs no form token.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or refuse with 401, 429 or 503."""
        given = request.headers.get("Authorization")
        if given is None or not is_api(request):
            return self.get_response(request)
        try:
            request.user = _user_of(given)
        except TooManyRequests as error:
            response = _refuse(request, error, next_step="Ask again when the time in Retry-After is over.")
            response["Retry-After"] = str(error.data_fields["retry_after"])
            return response
        except TokenInvalid as error:
            response = _refuse(request, error, next_step="Make a new token on your account's page.")
            response["WWW-Authenticate"] = CHALLENGE
            return response
        except (errors.Busy, errors.CommitUnknown, OperationalError, InterfaceError):
            response = say(request, 503, code=errors.DatabaseUnavailable.code)
            response["Retry-After"] = SOON
            return response
        request.csrf_processing_done = True  # type: ignore[attr-defined]
        return self.get_response(request)


def _user_of(header: str) -> User:
    scheme, _, secret = header.partition(" ")
    if scheme != SCHEME or not secret.isascii():
        raise TokenInvalid
    token = admit(secret, per_minute=settings.LOCKHOUSE_API_PER_MINUTE, at_once=settings.LOCKHOUSE_API_AT_ONCE)
    user = User.objects.filter(pk=token.owner_id, is_active=True).first()
    if user is None:
        raise TokenInvalid
    user.token_scopes = frozenset(token.scopes)
    return user


def _refuse(request: HttpRequest, error: errors.IntegrationError, *, next_step: str) -> HttpResponse:
    return say(request, error.http_status, code=error.code, sentence=error.operator_message(), next_step=next_step)
