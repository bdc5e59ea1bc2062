"""Who acts on accounts, and what the trail is told of it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from integration.audit.policy import AuditFact, AuditOutcome
from integration.values import Actor


def person(request: HttpRequest, user: Any) -> Actor:
    """Return an account that was proved by a request, without any right."""
    return Actor(user_id=user.pk, name=user.get_username(), remote_addr=address_of(request), via="console")


def stranger(request: HttpRequest | None) -> Actor:
    """Return whoever nothing was proved of."""
    address = None if request is None else address_of(request)
    return Actor(user_id=None, name="unknown", remote_addr=address, via="console")


def address_of(request: HttpRequest) -> str | None:
    """Return the client's address."""
    return request.META.get("REMOTE_ADDR") or None


def account_fact(verb: str, user_id: int, actor: Actor) -> AuditFact:
    """Return what the trail is told of something that was done to an account."""
    return AuditFact(
        action=f"user.{verb}", outcome=AuditOutcome.DONE, actor=actor, ref_kind="user", ref_id=str(user_id)
    )
