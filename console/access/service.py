"""Grant, confirm and revoke: each act is in the trail, refused ones too, and counts from the account's next request.

Rows are written by guarded statements: what was confirmed or revoked once is not again, whoever asks at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from console.access.policy import Terms, check_terms, needs_second_person
from console.access.reads import proposed
from console.models import ScopeGrant, User
from console.permissions import ACCESS
from integration import errors
from integration.audit.policy import AuditFact, AuditOutcome, check_reason
from integration.audit.service import record_alone, record_in, run_recording
from integration.catalog.namespaces import find_place, list_places
from integration.storage.db import Reader, Tx
from integration.values import Actor, new_id


class GrantNotFound(errors.NotFound):
    """There is no such grant."""


class SelfGrant(errors.Refused):
    """Nobody grants, confirms or widens his own rights; ask another manager of access."""

    code = "self_grant"


class SamePerson(errors.Refused):
    """This grant needs a second person: whoever proposed it does not confirm it."""

    code = "second_person"


class GrantOver(errors.Refused):
    """The grant is not in a state in which this can be done; nothing was changed."""

    code = "grant_over"


def grant(
    user_id: int,
    terms: Terms,
    *,
    expires_in: timedelta | None,
    reason: str,
    actor: Actor,
    grant_id: str | None = None,
) -> ScopeGrant:
    """Give an account a permission in a place; what needs a second person waits for one.

    Args:
        user_id: The account.
        terms: What, and where.
        expires_in: After which time it ends by itself, 5 minutes to 366 days; None for when somebody revokes it.
        reason: Why, 1 to 500 characters on one line.
        actor: Who grants it.
        grant_id: Names this request: the same one again gets the first grant.

    Returns:
        The grant.

    Raises:
        NotAllowed: The actor does not manage access.
        SelfGrant: It is his own account.
        InvalidInput: A term is not valid, or names an account or a place that is not there.
        Busy: The database is busy; nothing was changed.

    Locks: none; the row is new.
    """
    grant_id = grant_id or new_id()
    shown = {"user_id": user_id, **_shown(terms)}
    _demand(actor, "granted", grant_id, shown)
    reason = check_reason(reason)
    check_terms(terms, expires_in)
    _check_place(terms)
    if actor.user_id == user_id:
        _refuse(SelfGrant(), _fact("granted", grant_id, actor, shown, reason=reason))
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        message = "There is no open account of this name."
        raise errors.InvalidInput(message, field="user")
    second = needs_second_person(terms)
    facts = {
        **shown,
        "user": user.get_username(),
        "seconds": None if expires_in is None else int(expires_in.total_seconds()),
        "needs_second": second,
    }
    fact = _fact("proposed" if second else "granted", grant_id, actor, facts, reason=reason, terms=terms)

    def unit(tx: Tx) -> bool:
        if ScopeGrant.objects.filter(pk=grant_id).exists():
            return False
        ScopeGrant.objects.create(
            id=grant_id,
            user=user,
            permission=terms.permission,
            org_id=terms.org_id,
            namespace=terms.namespace,
            expires_at=None if expires_in is None else _from_now(expires_in),
            reason=reason,
            granted_at=Now(),
            granted_by_id=actor.user_id,
            granted_by_name=actor.name,
            needs_second=second,
        )
        if not second:
            renew_sessions(User.objects.filter(pk=user_id))
        record_in(tx, fact)
        return True

    run_recording(unit, name="access.grant", settle=lambda _: ScopeGrant.objects.filter(pk=grant_id).exists() or None)
    found = get_grant(grant_id)
    if (found.user_id, found.permission, found.org_id, found.namespace) != (
        user_id,
        terms.permission,
        terms.org_id,
        terms.namespace,
    ):
        message = "Another grant was made with this request's name; nothing was changed."
        raise errors.InvalidInput(message, field="grant_id")
    return found


def confirm(grant_id: str, *, actor: Actor) -> ScopeGrant:
    """Confirm, as the second person, a grant that waits for one; it counts from now on, and its time began before.

    Args:
        grant_id: The grant.
        actor: Who confirms it: neither who proposed it nor whose it is.

    Returns:
        The grant.

    Raises:
        NotAllowed: The actor does not manage access.
        GrantNotFound: There is none.
        SelfGrant: It is his own.
        SamePerson: He proposed it.
        GrantOver: It does not wait: it was confirmed or revoked, or has run out.
        Busy: The database is busy; nothing was changed.

    Locks: the grant's row, by a guarded write.
    """
    _demand(actor, "confirmed", grant_id, {})
    before = get_grant(grant_id)
    terms = _terms(before)
    shown = {"user_id": before.user_id, **_shown(terms), "proposed_by": before.granted_by_name}
    fact = _fact("confirmed", grant_id, actor, shown, terms=terms)
    if actor.user_id == before.user_id:
        _refuse(SelfGrant(), fact)
    if actor.user_id == before.granted_by_id:
        _refuse(SamePerson(), fact)

    values = {"confirmed_at": Now(), "confirmed_by_id": actor.user_id, "confirmed_by_name": actor.name}

    def settle(_: Reader) -> bool | None:
        now = get_grant(grant_id)
        return True if before.confirmed_at is None and now.confirmed_by_id == actor.user_id else None

    return _change(before, proposed().filter(pk=grant_id), values, fact, name="access.confirm", settle=settle)


def revoke(grant_id: str, *, reason: str, actor: Actor) -> ScopeGrant:
    """Take a grant back, in force or proposed; the account's next request has it no more.

    Args:
        grant_id: The grant.
        reason: Why, 1 to 500 characters on one line.
        actor: Who takes it back; his own too.

    Returns:
        The grant.

    Raises:
        NotAllowed: The actor does not manage access.
        InvalidInput: The reason is not valid.
        GrantNotFound: There is none.
        GrantOver: It was revoked before.
        Busy: The database is busy; nothing was changed.

    Locks: the grant's row, by a guarded write.
    """
    _demand(actor, "revoked", grant_id, {})
    reason = check_reason(reason)
    before = get_grant(grant_id)
    terms = _terms(before)
    shown = {"user_id": before.user_id, **_shown(terms), "granted_by": before.granted_by_name}
    fact = _fact("revoked", grant_id, actor, shown, reason=reason, terms=terms)

    left = ScopeGrant.objects.filter(pk=grant_id, revoked_at__isnull=True)
    values = {"revoked_at": Now(), "revoked_by_name": actor.name}

    def settle(_: Reader) -> bool | None:
        now = get_grant(grant_id)
        return True if before.revoked_at is None and now.revoked_by_name == actor.name else None

    return _change(before, left, values, fact, name="access.revoke", settle=settle)


def _change(
    before: ScopeGrant,
    still: QuerySet[ScopeGrant],
    values: Mapping[str, Any],
    fact: AuditFact,
    *,
    name: str,
    settle: Callable[[Reader], bool | None],
) -> ScopeGrant:
    """Change a grant where it still is as it must be, with its entry in the trail; or record that it is over."""

    def unit(tx: Tx) -> bool:
        if still.update(**values) != 1:
            return False
        renew_sessions(User.objects.filter(pk=before.user_id))
        record_in(tx, fact)
        return True

    if not run_recording(unit, name=name, settle=settle):
        _refuse(GrantOver(), fact)
    return get_grant(before.pk)


def get_grant(grant_id: str) -> ScopeGrant:
    """Return one grant with its account.

    Raises:
        GrantNotFound: There is none.
    """
    found = ScopeGrant.objects.select_related("user").filter(pk=grant_id).first()
    if found is None:
        raise GrantNotFound
    return found


def _demand(actor: Actor, verb: str, grant_id: str, facts: Mapping[str, Any]) -> None:
    """Demand the right to manage access, everywhere: it is not one that has a place."""
    if not actor.may(ACCESS):
        _refuse(errors.NotAllowed(), _fact(verb, grant_id, actor, facts))


def _check_place(terms: Terms) -> None:
    """Refuse a place that does not exist: a grant there would count as soon as somebody makes it."""
    place = None if terms.namespace is None else find_place(terms.namespace)
    if terms.namespace is not None and place is None:
        message = "There is no such namespace."
        raise errors.InvalidInput(message, field="namespace")
    if place is not None and terms.org_id not in {None, place.org_id}:
        message = "The namespace is not one of this org."
        raise errors.InvalidInput(message, field="namespace")
    if terms.org_id is not None and not list_places((terms.org_id,), (), limit=1):
        message = "No namespace belongs to such an org."
        raise errors.InvalidInput(message, field="org_id")


def _from_now(time: timedelta) -> Combinable:
    return ExpressionWrapper(Now() + Value(time, output_field=DurationField()), output_field=DateTimeField())


def renew_sessions(accounts: QuerySet[User]) -> None:
    """Have each session of some accounts get a new key with its next request; their rights changed."""
    accounts.update(rights_version=F("rights_version") + 1)


def _terms(grant: ScopeGrant) -> Terms:
    return Terms(permission=grant.permission, org_id=grant.org_id, namespace=grant.namespace)


def _shown(terms: Terms) -> dict[str, Any]:
    return {"permission": terms.permission, "org_id": terms.org_id, "namespace": terms.namespace}


def _refuse(error: errors.IntegrationError, fact: AuditFact) -> NoReturn:
    record_alone(replace(fact, outcome=AuditOutcome.REFUSED, facts={**fact.facts, "code": error.code}))
    raise error


def _fact(
    verb: str,
    grant_id: str,
    actor: Actor,
    facts: Mapping[str, Any],
    *,
    reason: str = "",
    terms: Terms | None = None,
) -> AuditFact:
    return AuditFact(
        action=f"scope_grant.{verb}",
        outcome=AuditOutcome.DONE,
        actor=actor,
        ref_kind="scope_grant",
        ref_id=grant_id[:64],
        org_id=None if terms is None else terms.org_id,
        namespace=None if terms is None else terms.namespace,
        reason=reason,
        facts=facts,
    )
