"""What is asked of an OpenID Connect provider, and what of its answer is believed.

Authlib writes the requests and reads the answers: authorization code flow with PKCE, state and nonce. The keys that a
token may be signed with come from the provider's own description; which algorithms, to whom and by whom, is held
against this installation's settings and not against anything that was sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import httpx
import structlog
from authlib.integrations.django_client import OAuth, OAuthError
from django.utils.crypto import constant_time_compare
from joserfc.errors import JoseError
from requests import RequestException

from console.oidc_settings import OidcSettings
from integration import errors

log = structlog.get_logger(__name__)

#: Of one answer of the provider, in seconds; a thread of the web server waits for it.
PATIENCE: Final = 3.0
#: How far the two clocks may be apart, in seconds.
LEEWAY: Final = 60
#: What is signed with a key that the provider alone has: not `none`, and nothing with a shared secret.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
#: What the standards let a provider answer instead of yes; anything else is its own text, and not repeated.
_NO: Final = frozenset({"access_denied", "invalid_client", "invalid_grant", "invalid_request", "unauthorized_client"})
#: How the two libraries below say that nobody answered.
_AWAY: Final[tuple[type[Exception], ...]] = (httpx.HTTPError, RequestException)
#: Longest subject that the standard allows.
_SUBJECT_CHARACTERS: Final = 255


class ProviderAway(errors.IntegrationError):
    """The provider cannot be reached, or does not answer as one; nothing was changed."""

    code = "provider_unavailable"
    http_status = 503
    retryable = True


class NotProved(errors.IntegrationError):
    """What came back does not prove who it is; nothing was changed. `why` is a fixed word."""

    code = "not_proved"
    http_status = 403


def begin(provider: OidcSettings, back: str) -> tuple[str, dict[str, str]]:
    """Return where to send a browser, and what its coming back is held against.

    Args:
        provider: The provider.
        back: The address that it sends the browser back to.

    Returns:
        The provider's address, and `state`, `nonce` and `code_verifier`, all of this one sign-in.

    Raises:
        ProviderAway: Its description cannot be had.
    """
    with _answering():
        made = _client(provider).create_authorization_url(back)
    return made["url"], {name: made[name] for name in ("state", "nonce", "code_verifier")}


def finish(provider: OidcSettings, kept: Mapping[str, str], answer: Mapping[str, str], back: str) -> str:
    """Return who came back: the subject, which only together with the issuer names anybody.

    Args:
        provider: The provider.
        kept: What `begin` gave, from this same browser's session; good for one answer.
        answer: What the browser brought: `state` and `code`, or an error.
        back: The address that it was sent back to.

    Raises:
        NotProved: The answer belongs to no sign-in of this browser, or its token does not hold.
        ProviderAway: The provider did not answer.
    """
    if not constant_time_compare(kept["state"], answer.get("state", "")):
        raise NotProved(why="state")
    if not answer.get("code"):
        raise NotProved(why=_word(answer.get("error")))
    expected = {
        "iss": {"essential": True, "value": provider.issuer},
        "aud": {"essential": True, "value": provider.client_id},
        "sub": {"essential": True},
    }
    try:
        with _answering():
            client = _client(provider)
            token = client.fetch_access_token(
                redirect_uri=back, code=answer["code"], code_verifier=kept["code_verifier"]
            )
        with _answering(badly=()):
            claims = client.parse_id_token(token, nonce=kept["nonce"], claims_options=expected, leeway=LEEWAY)
    except OAuthError as error:
        raise NotProved(why=_word(error.error)) from error
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise NotProved(why=type(error).__name__) from error
    if not claims or len(claims["sub"]) > _SUBJECT_CHARACTERS:
        raise NotProved(why="no_subject")
    return str(claims["sub"])


def _word(said: str | None) -> str:
    return said if said in _NO else "refused"


@cache
def _client(provider: OidcSettings) -> Any:
    """Return the client of a provider, made of its own description once a process."""
    address = provider.issuer.rstrip("/") + "/.well-known/openid-configuration"
    found = httpx.get(address, timeout=PATIENCE).raise_for_status().json()
    scheme = provider.issuer.partition(":")[0] + "://"
    places = {name: str(found[name]) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    if found["issuer"] != provider.issuer or not all(place.startswith(scheme) for place in places.values()):
        raise ValueError
    return OAuth().register(
        "provider",
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        authorize_url=places["authorization_endpoint"],
        access_token_url=places["token_endpoint"],
        jwks_uri=places["jwks_uri"],
        id_token_signing_alg_values_supported=ALGORITHMS,
        client_kwargs={"scope": "openid", "code_challenge_method": "S256", "default_timeout": PATIENCE},
    )


@contextlib.contextmanager
def _answering(badly: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError)) -> Iterator[None]:
    """Tell a provider that is away, or that answers as none does, from an answer that proves nothing."""
    try:
        yield
    except _AWAY + badly as error:
        # The kind alone is logged: what an address or an answer holds is nobody's to read.
        log.warning("oidc.provider_unavailable", kind=type(error).__name__)
        raise ProviderAway from error
