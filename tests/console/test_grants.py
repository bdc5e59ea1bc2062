"""Grants: given, confirmed, revoked, run out; each counts from the account's next request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from console.access import service
from console.access.policy import BULK, Terms
from console.models import ScopeGrant, User
from console.permissions import ACCESS, CUTOVER, REPLAY, VIEW
from integration import errors
from integration.batches.accounts import actor_of
from integration.management.operators import find_operator
from integration.scopes import EVERYWHERE, NOWHERE, Place, Scope
from tests.support.access import account, acting, fresh, granted, let_expire
from tests.support.authority import audit_entries
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("A-32")]
DAY = timedelta(days=1)


@pytest.fixture
def colleague() -> User:
    return account("carla")


def here(installation: Installation) -> Scope:
    return Scope.of([Place(org_id=installation.org_id, namespace=installation.namespace)])


def entries() -> list[tuple[str, str, str]]:
    return [
        (row["actor_name"], row["action"], row["outcome"])
        for row in audit_entries()
        if row["action"].startswith("scope_grant")
    ]


def test_grant__holds_in_its_namespace_from_the_next_request(colleague: User, installation: Installation):
    Installation(namespace="elsewhere", kind="other.kind")
    made = granted(colleague, VIEW, namespace=installation.namespace, expires_in=DAY)
    rights = fresh(colleague).rights()
    assert (frozenset(), {VIEW: here(installation)}) == (rights.permissions, dict(rights.scopes))
    assert not fresh(colleague).has_perm(VIEW)
    assert DAY == made.expires_at - made.granted_at
    assert [("agnes", "scope_grant.granted", "done")] == entries()


def test_grant__of_an_org_holds_in_its_namespaces_as_they_come(colleague: User, installation: Installation):
    granted(colleague, VIEW, org_id=installation.org_id)
    assert fresh(colleague).rights().reach(VIEW) == here(installation)
    later = Installation(namespace="later", kind="other.kind", org_id=installation.org_id)
    assert fresh(colleague).rights().reach(VIEW).namespaces == tuple(sorted([installation.namespace, later.namespace]))


def test_grant__without_a_place_is_a_permission_everywhere(colleague: User):
    granted(colleague, VIEW)
    assert fresh(colleague).has_perm(VIEW)
    assert fresh(colleague).rights().reach(VIEW) == EVERYWHERE


def test_rights__and_grants_without_a_place_come_in_one_query(
    colleague: User, django_assert_num_queries: Any, installation: Installation
):
    granted(colleague, VIEW)
    user = fresh(colleague)
    with django_assert_num_queries(1):
        assert user.has_perm(VIEW)
        assert not user.has_perm(REPLAY)
        assert user.rights().reach(REPLAY) == NOWHERE
    granted(colleague, REPLAY, namespace=installation.namespace)
    user = fresh(colleague)
    with django_assert_num_queries(2):
        assert user.rights().reach(REPLAY) == here(installation)


def test_rights__of_a_closed_account_are_none(colleague: User, installation: Installation):
    granted(colleague, VIEW)
    granted(colleague, REPLAY, namespace=installation.namespace)
    User.objects.filter(pk=colleague.pk).update(is_active=False)
    assert fresh(colleague).rights().reach(VIEW) == NOWHERE == fresh(colleague).rights().reach(REPLAY)


def test_rights__of_a_command_and_of_a_batch_are_those_of_the_account(colleague: User, installation: Installation):
    granted(colleague, BULK, namespace=installation.namespace)
    for actor in (find_operator("carla"), actor_of(colleague.pk, "carla")):
        assert actor.reach(BULK) == actor.reach(REPLAY) == actor.reach(VIEW) == here(installation)
        assert not actor.may(VIEW)


def test_grant__ends_by_itself(colleague: User, installation: Installation):
    made = granted(colleague, VIEW, namespace=installation.namespace, expires_in=DAY)
    let_expire(made)
    assert fresh(colleague).rights().reach(VIEW) == NOWHERE


def test_revoke__counts_from_the_next_request_and_only_once(colleague: User, installation: Installation):
    made = granted(colleague, VIEW, namespace=installation.namespace)
    manager = acting(account("bruno", "Admin"))
    revoked = service.revoke(made.id, reason="The day is over", actor=manager)
    assert "bruno" == revoked.revoked_by_name
    assert fresh(colleague).rights().reach(VIEW) == NOWHERE
    with pytest.raises(service.GrantOver):
        service.revoke(made.id, reason="Again", actor=manager)
    assert [
        ("agnes", "scope_grant.granted", "done"),
        ("bruno", "scope_grant.revoked", "done"),
        ("bruno", "scope_grant.revoked", "refused"),
    ] == entries()


def test_grant__that_needs_a_second_person_counts_for_nothing_before(colleague: User, installation: Installation):
    agnes, bruno = acting(account("agnes", "Admin")), acting(account("bruno", "Admin"))
    terms = Terms(permission=CUTOVER, namespace=installation.namespace)
    made = service.grant(colleague.pk, terms, expires_in=None, reason="Cutover on Friday", actor=agnes)
    assert fresh(colleague).rights().reach(CUTOVER) == NOWHERE == fresh(colleague).rights().reach(VIEW)
    with pytest.raises(service.SamePerson):
        service.confirm(made.id, actor=agnes)
    assert fresh(colleague).rights().reach(CUTOVER) == NOWHERE
    service.confirm(made.id, actor=bruno)
    assert fresh(colleague).rights().reach(CUTOVER) == here(installation)
    with pytest.raises(service.GrantOver):
        service.confirm(made.id, actor=bruno)
    assert [
        ("agnes", "scope_grant.proposed", "done"),
        ("agnes", "scope_grant.confirmed", "refused"),
        ("bruno", "scope_grant.confirmed", "done"),
        ("bruno", "scope_grant.confirmed", "refused"),
    ] == entries()


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_confirm__of_a_proposal_that_is_over_is_refused(how: str, colleague: User, installation: Installation):
    agnes, bruno = acting(account("agnes", "Admin")), acting(account("bruno", "Admin"))
    terms = Terms(permission=BULK, namespace=installation.namespace)
    made = service.grant(colleague.pk, terms, expires_in=DAY, reason="Many rows", actor=agnes)
    if how == "revoked":
        service.revoke(made.id, reason="Not so", actor=agnes)
    else:
        let_expire(made)
    with pytest.raises(service.GrantOver):
        service.confirm(made.id, actor=bruno)
    assert fresh(colleague).rights().reach(BULK) == NOWHERE


def test_grant__to_oneself_is_refused_and_told(installation: Installation):
    agnes = account("agnes", "Admin")
    with pytest.raises(service.SelfGrant):
        service.grant(agnes.pk, Terms(permission=VIEW), expires_in=None, reason="For me", actor=acting(agnes))
    assert [("agnes", "scope_grant.granted", "refused")] == entries()
    assert 0 == ScopeGrant.objects.count()


def test_confirm__of_ones_own_is_refused(installation: Installation):
    agnes, bruno = account("agnes", "Admin"), account("bruno", "Admin")
    made = service.grant(
        bruno.pk,
        Terms(permission=BULK, namespace=installation.namespace),
        expires_in=None,
        reason="x",
        actor=acting(agnes),
    )
    with pytest.raises(service.SelfGrant):
        service.confirm(made.id, actor=acting(bruno))
    assert fresh(bruno).scope_grants.get().confirmed_at is None


@pytest.mark.parametrize("groups", [(), ("Replayer",), ("Auditor",)])
def test_access__is_managed_by_those_alone_who_hold_it(groups: tuple[str, ...], colleague: User):
    made = granted(colleague, VIEW)
    stranger = acting(account("sven", *groups))
    with pytest.raises(errors.NotAllowed):
        service.grant(colleague.pk, Terms(permission=VIEW), expires_in=None, reason="x", actor=stranger)
    with pytest.raises(errors.NotAllowed):
        service.confirm(made.id, actor=stranger)
    with pytest.raises(errors.NotAllowed):
        service.revoke(made.id, reason="x", actor=stranger)
    assert 3 == entries().count(("sven", "scope_grant.granted", "refused")) + entries().count(
        ("sven", "scope_grant.confirmed", "refused")
    ) + entries().count(("sven", "scope_grant.revoked", "refused"))
    assert fresh(colleague).has_perm(VIEW)


def test_access__cannot_be_granted(colleague: User):
    with pytest.raises(errors.InvalidInput):
        granted(colleague, ACCESS)


@pytest.mark.parametrize(
    "place",
    [{"namespace": "nowhere"}, {"org_id": "0" * 36}, {"org_id": "\u00e9"}, {"org_id": "0" * 36, "namespace": "acme"}],
)
def test_grant__of_a_place_that_is_not_there_is_refused(place: dict[str, str], colleague: User):
    Installation(namespace="acme")
    with pytest.raises(errors.InvalidInput):
        granted(colleague, VIEW, **place)
    assert 0 == ScopeGrant.objects.count()


def test_grant__asked_for_twice_is_made_once(colleague: User):
    agnes = acting(account("agnes", "Admin"))
    asked = {"expires_in": DAY, "reason": "x", "actor": agnes, "grant_id": "0190a000-0000-7000-8000-000000000001"}
    first = service.grant(colleague.pk, Terms(permission=VIEW), **asked)
    assert first == service.grant(colleague.pk, Terms(permission=VIEW), **asked)
    assert 1 == ScopeGrant.objects.count() == len(entries())
    with pytest.raises(errors.InvalidInput):
        service.grant(colleague.pk, Terms(permission=REPLAY), **asked)


def test_session__gets_a_new_key_with_the_rights(viewer: Any):
    assert 200 == viewer.get("/dlq/").status_code
    before = viewer.session.session_key
    assert 200 == viewer.get("/dlq/").status_code
    assert before == viewer.session.session_key
    granted(User.objects.get(username="vera"), VIEW)
    assert 200 == viewer.get("/dlq/").status_code
    assert before != viewer.session.session_key
