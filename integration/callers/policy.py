"""What a token is, what it may be given, and what makes two requests the same. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from integration import errors
from integration.audit.policy import check_printable
from integration.values import Actor, digest_parts, digest_text

#: How every token begins, so that one that leaked is recognized where it should not be.
PREFIX: Final = "lockhouse_"
_SECRET_BYTES: Final = 32
NAME_CHARACTERS: Final = 80
LONGEST_DAYS: Final = 365
KEY_CHARACTERS: Final = 200
#: How long an answer is kept for a repetition of its request.
KEPT_SECONDS: Final = 24 * 3600
#: How long a request is taken to be under way: longer than it waits for the database, all its tries included.
UNDER_WAY_SECONDS: Final = 60

#: What a token can be given, and what that means.
SCOPES: Final[Mapping[str, str]] = {
    "integration.view_connector_event": "see work, receipts, fences and cutovers",
    "integration.replay_connector_event": "replay, row by row",
    "integration.replay_in_bulk": "replay in bulk",
    "integration.repair_effect": "repair effects",
    "integration.run_cutover": "arm fences and run cutovers",
    "integration.manage_access": "give and take rights",
    "integration.view_audit": "read the audit trail",
}


class TokenInvalid(errors.IntegrationError):
    """There is no such token, or it was revoked, ran out, or its account is closed."""

    code = "token_invalid"
    http_status = 401


class TokenNotFound(errors.NotFound):
    """There is no such token of this account."""


class TooManyRequests(errors.IntegrationError):
    """The token asked more often than it may; nothing was changed."""

    code = "too_many_requests"
    http_status = 429


class KeyReused(errors.IntegrationError):
    """This Idempotency-Key came with another request before; nothing was changed."""

    code = "idempotency_key_reused"
    http_status = 422


class RequestUnderWay(errors.Refused):
    """The same request is being worked on; ask again for its answer."""

    code = "request_under_way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as its owner sees it; its secret is kept nowhere.

    Attributes:
        token_id: Its id; later ones sort after earlier ones.
        owner_id: Whose account it acts for.
        name: What the owner calls it.
        scopes: Permission keys, sorted: it may do what its owner may and these name.
        last_used_on: The last day of use, UTC.
        is_live: Neither revoked nor run out, by the database's clock.
    """

    token_id: str
    owner_id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    last_used_on: date | None
    is_live: bool


def new_secret() -> str:
    """Return a new token's text: 256 random bits behind the prefix."""
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_secret(secret: str) -> str:
    """Return what is stored of a token: SHA-256. A random secret of 256 bits needs no slow hash."""
    return digest_text(secret)


def check_terms(*, actor: Actor, name: str, scopes: Iterable[str], days: int) -> tuple[str, tuple[str, ...]]:
    """Return a token's name and scopes as they are stored.

    Args:
        actor: The owner, who can give no right that he has not.
        name: What the owner calls it.
        scopes: Permission keys.
        days: Until it runs out.

    Returns:
        The name without the space around it, the scopes sorted.

    Raises:
        InvalidInput: A value is not valid.
    """
    name = name.strip()
    if not 1 <= len(name) <= NAME_CHARACTERS:
        message = f"A token's name has 1 to {NAME_CHARACTERS} characters."
        raise errors.InvalidInput(message, field="name", found=f"{len(name)} characters")
    check_printable("name", name)
    wanted = tuple(sorted(set(scopes)))
    if not wanted or not set(wanted) <= SCOPES.keys():
        raise errors.InvalidInput("Choose one scope at least, of those that there are.", field="scopes")
    if not all(actor.reach(scope) for scope in wanted):
        raise errors.InvalidInput("A token can be given no right that its owner does not hold.", field="scopes")
    if not 1 <= days <= LONGEST_DAYS:
        raise errors.InvalidInput(f"A token runs out after 1 to {LONGEST_DAYS} days.", field="days", found=str(days))
    return name, wanted


def digest_key(actor: Actor, idempotency_key: str) -> str:
    """Return what a request's key is stored as; another account's same key is another one.

    Raises:
        InvalidInput: The key is empty, too long, or holds a control character.
    """
    if not 1 <= len(idempotency_key) <= KEY_CHARACTERS:
        message = f"An idempotency key has 1 to {KEY_CHARACTERS} characters."
        raise errors.InvalidInput(message, field="idempotency_key", found=f"{len(idempotency_key)} characters")
    check_printable("idempotency_key", idempotency_key)
    return digest_parts("request", str(actor.user_id), idempotency_key)


def digest_request(method: str, path: str, body: bytes) -> str:
    """Return what makes two requests the same: what is asked for, where, with which bytes."""
    return digest_parts(method, path, digest_text(body.hex()))
