"""What grants give, beside Django's permissions, and which of them need a second person."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console.access.policy import BULK, GRANTABLE, Terms, check_terms, decide_rights, needs_second_person
from console.permissions import ACCESS, AUDIT, CUTOVER, REPAIR, REPLAY, VIEW
from integration.errors import InvalidInput
from integration.scopes import EVERYWHERE, NOWHERE, Place, Scope
from integration.values import Actor

NORTH = Place(org_id="org-1", namespace="north")
SOUTH = Place(org_id="org-1", namespace="south")
OTHER = Place(org_id="org-2", namespace="other")
PLACES = (NORTH, SOUTH, OTHER)


def test_rights__of_nothing_are_nothing():
    rights = decide_rights((), (), PLACES)
    assert rights.permissions == frozenset()
    assert {NOWHERE} == {rights.reach(key) for key in (*GRANTABLE, ACCESS, "no.such_key", "")}


def test_rights__that_django_gives_hold_everywhere():
    rights = decide_rights({VIEW}, (), ())
    assert rights.reach(VIEW) == EVERYWHERE
    assert rights.reach(REPLAY) == NOWHERE


@pytest.mark.parametrize(
    ("org_id", "namespace", "covered"),
    [
        ("org-1", None, (NORTH, SOUTH)),
        (None, "south", (SOUTH,)),
        ("org-1", "south", (SOUTH,)),
        ("org-2", "south", ()),
        ("ORG-1", None, ()),
        (None, "South", ()),
        ("", "", ()),
    ],
)
def test_grant__holds_in_its_place(org_id: str | None, namespace: str | None, covered: tuple[Place, ...]):
    rights = decide_rights((), [Terms(permission=VIEW, org_id=org_id, namespace=namespace)], PLACES)
    assert rights.permissions == frozenset()
    assert rights.reach(VIEW) == Scope.of(covered)


def test_grant__without_a_place_holds_everywhere():
    rights = decide_rights((), [Terms(permission=AUDIT)], ())
    assert rights.reach(AUDIT) == EVERYWHERE


def test_grants__add_up_and_narrow_nothing():
    grants = [Terms(permission=VIEW, namespace="south"), Terms(permission=VIEW, namespace="other")]
    assert decide_rights((), grants, PLACES).reach(VIEW) == Scope.of([SOUTH, OTHER])
    assert decide_rights({VIEW}, grants, PLACES).reach(VIEW) == EVERYWHERE


@pytest.mark.parametrize(
    ("permission", "given"),
    [
        (VIEW, {VIEW}),
        (REPLAY, {REPLAY, VIEW}),
        (BULK, {BULK, REPLAY, VIEW}),
        (REPAIR, {REPAIR, VIEW}),
        (CUTOVER, {CUTOVER, VIEW}),
        (AUDIT, {AUDIT}),
    ],
)
def test_grant__gives_what_its_work_needs_and_no_more(permission: str, given: set[str]):
    rights = decide_rights((), [Terms(permission=permission, namespace="south")], PLACES)
    assert given == set(rights.scopes)


def test_bulk__is_held_by_whoever_views_and_replays_everywhere():
    assert decide_rights({VIEW, REPLAY}, (), ()).reach(BULK) == EVERYWHERE
    assert decide_rights({REPLAY}, (), ()).reach(BULK) == NOWHERE
    assert decide_rights((), [Terms(permission=REPLAY, namespace="south")], PLACES).reach(BULK) == NOWHERE


@pytest.mark.parametrize("permission", [ACCESS, "auth.change_user", "integration.no_such", ""])
def test_grant__of_another_key_gives_nothing(permission: str):
    rights = decide_rights((), [Terms(permission=permission), Terms(permission=permission, namespace="south")], PLACES)
    assert (frozenset(), {}) == (rights.permissions, rights.scopes)
    with pytest.raises(InvalidInput, match="permission"):
        check_terms(Terms(permission=permission), None)


@pytest.mark.parametrize(
    ("terms", "needed"),
    [
        (Terms(permission=VIEW), False),
        (Terms(permission=AUDIT), False),
        (Terms(permission=REPLAY, org_id="org-1"), False),
        (Terms(permission=REPLAY), True),
        (Terms(permission=BULK, org_id="org-1", namespace="south"), True),
        (Terms(permission=CUTOVER, namespace="south"), True),
    ],
)
def test_second_person__is_needed_for_what_nobody_can_look_at_row_by_row(terms: Terms, needed: bool):
    assert needed is needs_second_person(terms)


@pytest.mark.parametrize("seconds", [299, 366 * 86400 + 1, -1, 0])
def test_terms__last_neither_too_short_nor_too_long(seconds: int):
    with pytest.raises(InvalidInput, match="5 minutes to 366 days"):
        check_terms(Terms(permission=VIEW), timedelta(seconds=seconds))
    check_terms(Terms(permission=VIEW), timedelta(minutes=5))
    check_terms(Terms(permission=VIEW), None)


def test_scope__of_two_is_where_both_hold():
    both = Scope.of([NORTH, SOUTH])
    assert both.within(EVERYWHERE) == both == EVERYWHERE.within(both)
    assert both.within(Scope.of([SOUTH, OTHER])) == Scope.of([SOUTH])
    assert both.within(NOWHERE) == NOWHERE
    assert not NOWHERE
    assert both.covers("south")
    assert not both.covers("other")
    assert not both.covers(None)
    assert EVERYWHERE.covers(None)


def test_actor__holds_a_key_everywhere_in_places_or_nowhere():
    actor = Actor(user_id=1, name="x", permissions=frozenset({VIEW}), scopes={REPLAY: Scope.of([SOUTH])})
    assert actor.may(VIEW)
    assert not actor.may(REPLAY)
    assert (EVERYWHERE, Scope.of([SOUTH]), NOWHERE) == tuple(actor.reach(key) for key in (VIEW, REPLAY, CUTOVER))
