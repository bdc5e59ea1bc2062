"""The accounts that manage access: there is always one.

The right has no place and no expiry, so that the accounts' own rows tell who holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import Q, QuerySet

from console.models import User
from console.permissions import ACCESS
from integration import errors


class LastManager(errors.Refused):
    """Nobody could manage access afterwards: give somebody else the right first. Nothing was changed."""

    code = "last_manager"


def managers() -> QuerySet[User]:
    """Return the open accounts that may manage access, by a group, by themselves or as superusers."""
    right = Permission.objects.filter(pk=_right().pk)
    by_right = Q(user_permissions__in=right) | Q(groups__permissions__in=right)
    return User.objects.filter(Q(is_superuser=True) | by_right, is_active=True).distinct()


@contextmanager
def keeping_a_manager() -> Iterator[None]:
    """Undo what is done inside if it would leave nobody who manages access.

    Whoever else does so at the same time waits: two managers who close each other's accounts leave one of them open.

    Raises:
        LastManager: It would; everything is rolled back.

    Locks: the permission's own row, by a write that changes nothing, until the end of the transaction.
    """
    with transaction.atomic():
        lock_right()
        had = managers().exists()
        yield
        if had and not managers().exists():
            raise LastManager


def lock_right() -> None:
    """Wait for whoever changes accounts or groups, and have others wait."""
    right = _right()
    Permission.objects.filter(pk=right.pk).update(codename=right.codename)


def _right() -> Permission:
    app, _, codename = ACCESS.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)
