"""Managers of access, and accounts that hold grants, for tests."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group

from console.access import service
from console.access.policy import Terms
from console.models import ScopeGrant, User
from integration.values import Actor
from tests.support.authority import change


def account(name: str, *groups: str) -> User:
    """Return an account in some groups, made if it is not there."""
    user, _ = User.objects.get_or_create(username=name)
    user.groups.set(Group.objects.filter(name__in=groups))
    return fresh(user)


def fresh(user: User) -> User:
    """Return an account as another request reads it."""
    return User.objects.get(pk=user.pk)


def acting(user: User) -> Actor:
    """Return who an account acts as now."""
    rights = fresh(user).rights()
    return Actor(user_id=user.pk, name=user.username, permissions=rights.permissions, scopes=rights.scopes)


def granted(
    user: User,
    permission: str,
    *,
    org_id: str | None = None,
    namespace: str | None = None,
    expires_in: timedelta | None = None,
) -> ScopeGrant:
    """Grant something by one manager and have it confirmed by another if it needs to be."""
    made = proposal(user, permission, org_id=org_id, namespace=namespace, expires_in=expires_in)
    return service.confirm(made.id, actor=acting(account("bruno", "Admin"))) if made.needs_second else made


def proposal(
    user: User,
    permission: str,
    *,
    org_id: str | None = None,
    namespace: str | None = None,
    expires_in: timedelta | None = None,
) -> ScopeGrant:
    """Grant something by one manager; what needs a second person waits for one."""
    terms = Terms(permission=permission, org_id=org_id, namespace=namespace)
    manager = acting(account("agnes", "Admin"))
    return service.grant(user.pk, terms, expires_in=expires_in, reason="A colleague helps", actor=manager)


def let_expire(grant: ScopeGrant) -> None:
    """Have a grant's time run out."""
    change("UPDATE console_scopegrant SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = %s", grant.id)
