"""What an account may do now, and which grants there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser, Permission
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.db.models.functions import Now

from console.access.policy import EVERY_KEY, IMPLIED, Terms, decide_rights, needs_second_person
from console.models import ScopeGrant, User
from console.permissions import VIEW
from integration.authority.listing import CappedCount, DeadFilters
from integration.authority.reads import count_dead
from integration.catalog.namespaces import find_place, list_places
from integration.scopes import EVERYWHERE, MOST_NAMESPACES, Place, Rights, Scope

PAGE_ROWS: Final = 50
_KEPT: Final = "_rights_kept"
_HELD: Final = "held"


class GrantState(StrEnum):
    """Where a grant stands, by the database's clock."""

    PROPOSED = "proposed"
    IN_FORCE = "in_force"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a grant would give now.

    Attributes:
        within: Where it would hold now.
        dead: Dead rows that the account could see or, where it is to replay, replay; None where they are not counted.
        is_held: The account holds the permission everywhere already: the grant would add nothing.
        needs_second: It would wait for a second person.
    """

    within: Scope
    dead: CappedCount | None
    is_held: bool
    needs_second: bool


def in_force() -> QuerySet[ScopeGrant]:
    """Return the grants that count now, by the database's clock."""
    return ScopeGrant.objects.filter(
        Q(needs_second=False) | Q(confirmed_at__isnull=False),
        Q(expires_at__isnull=True) | Q(expires_at__gt=Now()),
        revoked_at__isnull=True,
    )


def proposed() -> QuerySet[ScopeGrant]:
    """Return the grants that wait for a second person now, by the database's clock."""
    return ScopeGrant.objects.filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=Now()),
        needs_second=True,
        confirmed_at__isnull=True,
        revoked_at__isnull=True,
    )


def rights_of(user: User | AnonymousUser) -> Rights:
    """Return what an account may do now, and where.

    Args:
        user: The account; the answer is kept on it, and an account is loaded anew in every request.

    Returns:
        Everything everywhere for a superuser; nothing for an account that is closed, or that is none.

    Locks: none.
    Rule: A-32.
    """
    kept: Rights | None = getattr(user, _KEPT, None)
    if kept is None:
        kept = _read_rights(user)
        if isinstance(user, User) and user.token_scopes is not None:
            kept = kept.narrowed_to(user.token_scopes)
        setattr(user, _KEPT, kept)
    return kept


def _read_rights(user: User | AnonymousUser) -> Rights:
    if not isinstance(user, User) or not user.is_active:
        return Rights()
    if user.is_superuser:
        return Rights(permissions=EVERY_KEY)
    held, grants = _read_rows(user)
    named = [terms for terms in grants if not terms.is_everywhere]
    orgs = {terms.org_id for terms in named if terms.org_id is not None and terms.namespace is None}
    namespaces = {terms.namespace for terms in named if terms.namespace is not None}
    return decide_rights(held, grants, list_places(orgs, namespaces) if named else ())


def _read_rows(user: User) -> tuple[set[str], list[Terms]]:
    """Read what groups and the account itself hold, and its grants, in one query."""

    def text(value: Any) -> Value:
        return Value(value, output_field=CharField())

    held = (
        Permission.objects.filter(Q(user=user) | Q(group__user=user))
        .order_by()
        .annotate(what=text(_HELD), place=text(None))
        .values_list("what", "content_type__app_label", "codename", "place")
    )
    granted = in_force().filter(user=user).order_by().annotate(what=text("granted"))
    # A union that drops what is equal would do so by the collation of the connection, and lose a namespace.
    rows = list(held.union(granted.values_list("what", "permission", "org_id", "namespace"), all=True))
    return (
        {f"{app}.{codename}" for what, app, codename, _ in rows if what == _HELD},
        [
            Terms(permission=permission, org_id=org_id, namespace=namespace)
            for what, permission, org_id, namespace in rows
            if what != _HELD
        ],
    )


def list_grants(*, before: str | None = None, limit: int = PAGE_ROWS) -> tuple[list[ScopeGrant], str | None]:
    """Return a page of grants, the newest first, and the id that the next one goes on from.

    Args:
        before: `older` of another page.
        limit: Grants on the page.
    """
    found = with_state().select_related("user").order_by("-id")
    rows = list((found.filter(id__lt=before) if before else found)[: limit + 1])
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def list_proposed(limit: int = PAGE_ROWS) -> list[ScopeGrant]:
    """Return the grants that wait for a second person, the oldest first."""
    return list(with_state(proposed()).select_related("user").order_by("id")[:limit])


def find_grant(grant_id: str) -> ScopeGrant | None:
    """Return one grant with its account and its state, or None."""
    found: ScopeGrant | None = with_state().select_related("user").filter(pk=grant_id).first()
    return found


def with_state(grants: QuerySet[ScopeGrant] | None = None) -> QuerySet[Any]:
    """Return some grants or all, each with the `state` that the database's clock gives it."""
    return (ScopeGrant.objects.all() if grants is None else grants).annotate(
        state=Case(
            When(revoked_at__isnull=False, then=Value(GrantState.REVOKED.value)),
            When(expires_at__lte=Now(), then=Value(GrantState.EXPIRED.value)),
            When(needs_second=True, confirmed_at__isnull=True, then=Value(GrantState.PROPOSED.value)),
            default=Value(GrantState.IN_FORCE.value),
            output_field=CharField(),
        )
    )


def list_accounts(*, after: str = "", limit: int = PAGE_ROWS) -> tuple[list[User], str | None]:
    """Return a page of open accounts by name, with their groups, and the name that the next one goes on from."""
    found = User.objects.filter(is_active=True, username__gt=after).order_by("username")
    rows = list(found.prefetch_related("groups")[: limit + 1])
    return rows[:limit], rows[limit - 1].username if len(rows) > limit else None


def read_effect(user: User, terms: Terms) -> Effect:
    """Say what a grant would give its account now; nothing is written.

    Args:
        user: The account.
        terms: What, and where.

    Locks: none.
    """
    places = () if terms.is_everywhere else _places_at(terms)
    within = EVERYWHERE if terms.is_everywhere else Scope.of(places)
    counted: CappedCount | None = None
    if VIEW in (terms.permission, *IMPLIED.get(terms.permission, ())) and len(places) <= MOST_NAMESPACES:
        only_left = None if terms.permission == VIEW else False
        counted = count_dead(DeadFilters(replayed=only_left), within=within)
    return Effect(
        within=within,
        dead=counted,
        is_held=rights_of(user).reach(terms.permission).is_everywhere,
        needs_second=needs_second_person(terms),
    )


def _places_at(terms: Terms) -> tuple[Place, ...]:
    if terms.namespace is not None:
        found = find_place(terms.namespace)
        return (found,) if found is not None and terms.covers(found) else ()
    return list_places((terms.org_id or "",), ())
