"""Who acts on accounts, what the trail is told of it, and what accounts in it are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from console.models import ApiToken, User
from integration.audit.listing import Entry
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


def named(entries: Sequence[Entry]) -> list[tuple[Entry, str]]:
    """Return entries, each with what the account or token that it is about is called today.

    One query for all accounts and one for all tokens, none where no entry is about one. The name is empty for what is
    gone, and for everything else.
    """
    users, tokens = ({entry.ref_id for entry in entries if entry.ref_kind == kind} for kind in ("user", "api_token"))
    ids = [int(ref_id) for ref_id in users if ref_id.isdecimal()]
    names: dict[tuple[str, str], str] = {}
    if ids:
        names |= {("user", str(pk)): name for pk, name in User.objects.filter(pk__in=ids).values_list("pk", "username")}
    if tokens:
        found = ApiToken.objects.filter(pk__in=tokens).values_list("pk", "name")
        names |= {("api_token", pk): name for pk, name in found}
    return [(entry, names.get((entry.ref_kind, entry.ref_id), "")) for entry in entries]
