"""Which account somebody is whom the provider knows: by issuer and subject, and by nothing that a person can choose.

Of the pair only a digest is kept, which is all that it takes to find it again: it compares letter for letter in every
collation, and no page, log or backup tells who somebody is at the provider.
"""

from __future__ import annotations

from typing import Final

from django.contrib.auth.hashers import make_password

from console.models import User
from console.people import account_fact
from console.sign_in_models import ProviderIdentity
from integration import errors
from integration.audit.service import record_in, run_recording
from integration.storage.db import Tx
from integration.values import SYSTEM_ACTOR, Actor, digest_parts

#: How the name of an account begins that was made for somebody; a keeper of accounts may choose a better one.
MADE: Final = "oidc-"


class LinkedElsewhere(errors.Refused):
    """Another account is linked to this subject already; nothing was changed."""

    code = "linked_elsewhere"


def account_of(issuer: str, subject: str, *, creates: bool) -> User | None:
    """Return whose account it is, closed ones too; None when it is nobody's.

    Args:
        issuer: The provider.
        subject: Whom it proved.
        creates: Make an account without any right, and without a password, for somebody unknown. Two at once make one.
    """
    key = _key(issuer, subject)

    def unit(tx: Tx) -> int:
        known = _owner(key)
        return _make(tx, key) if known is None else known

    account_id = run_recording(unit, name="identities.account_of") if creates else _owner(key)
    return None if account_id is None else User.objects.filter(pk=account_id).first()


def link(user: User, issuer: str, subject: str, *, actor: Actor) -> bool:
    """Let a subject of the provider sign in to an account; False if it could already.

    Raises:
        InvalidInput: The subject is empty or too long.
        LinkedElsewhere: It signs in to another one.
    """
    if not 1 <= len(subject) <= 255:
        raise errors.InvalidInput("A subject has 1 to 255 characters.", field="subject")
    key = _key(issuer, subject)

    def unit(tx: Tx) -> bool:
        known = _owner(key)
        if known not in {None, user.pk}:
            raise LinkedElsewhere
        if known is None:
            _add(tx, key, user.pk, actor)
        return known is None

    return run_recording(unit, name="identities.link")


def unlink(user: User, *, actor: Actor) -> bool:
    """Let nobody of the provider sign in to an account any more; False if nobody could."""

    def unit(tx: Tx) -> bool:
        removed, _ = ProviderIdentity.objects.filter(user_id=user.pk).delete()
        if removed:
            record_in(tx, account_fact("identity_unlinked", user.pk, actor))
        return bool(removed)

    return run_recording(unit, name="identities.unlink")


def _owner(key: str) -> int | None:
    return ProviderIdentity.objects.filter(pk=key).values_list("user_id", flat=True).first()


def _make(tx: Tx, key: str) -> int:
    name = MADE + key[:16]
    # Saved by itself, it would be told of in another transaction, which cannot begin within this one.
    User.objects.bulk_create([User(username=name, password=make_password(None))])
    made = User.objects.get(username=name)
    record_in(tx, account_fact("created", made.pk, SYSTEM_ACTOR))
    _add(tx, key, made.pk, SYSTEM_ACTOR)
    return int(made.pk)


def _add(tx: Tx, key: str, user_id: int, actor: Actor) -> None:
    ProviderIdentity.objects.create(pk=key, user_id=user_id)
    record_in(tx, account_fact("identity_linked", user_id, actor))


def _key(issuer: str, subject: str) -> str:
    return digest_parts("oidc", issuer, subject)
