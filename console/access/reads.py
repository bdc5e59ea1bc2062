"""What an account may do now, and which grants there are."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import AnonymousUser, Permission
from django.db.models import CharField, Q, QuerySet, Value
from django.db.models.functions import Now

from console.access.policy import Terms, decide_rights
from console.models import ScopeGrant, User
from integration.authority.values import BULK_PERMISSION
from integration.catalog.namespaces import list_places
from integration.scopes import Rights

_KEPT: Final = "_rights_kept"
_HELD: Final = "held"


def in_force() -> QuerySet[ScopeGrant]:
    """Return the grants that count now, by the database's clock."""
    return ScopeGrant.objects.filter(
        Q(needs_second=False) | Q(confirmed_at__isnull=False),
        Q(expires_at__isnull=True) | Q(expires_at__gt=Now()),
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
        return Rights(permissions=frozenset({*user.get_all_permissions(), BULK_PERMISSION}))
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
    rows = list(held.union(granted.values_list("what", "permission", "org_id", "namespace")))
    return (
        {f"{app}.{codename}" for what, app, codename, _ in rows if what == _HELD},
        [
            Terms(permission=permission, org_id=org_id, namespace=namespace)
            for what, permission, org_id, namespace in rows
            if what != _HELD
        ],
    )
