"""Dead rows of the namespaces in which a reader may look: the same as everybody's, without the others'."""

from __future__ import annotations

from typing import Any

import pytest

from integration import errors
from integration.authority import reads
from integration.authority.listing import DeadFilters
from integration.scopes import EVERYWHERE, MOST_NAMESPACES, NOWHERE, Place, Scope
from tests.support.authority import World, change

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("A-01")]
NAMES = ("alpha", "beta", "gamma")


@pytest.fixture
def worlds() -> list[World]:
    """Three namespaces whose rows died in turns, of both owners, some without a time."""
    made = [World(namespace=name, kind=f"{name}.changed") for name in NAMES]
    for _ in range(4):
        for world in made:
            world.work()
            world.legacy()
    for world in made:
        undated = world.work()
        change("UPDATE `_System_ConnectorWorkItem` SET TerminalAt = NULL WHERE WorkId = %s", undated.id)
    return made


def within(*worlds: World) -> Scope:
    return Scope.of(Place(org_id=world.org_id, namespace=world.namespace) for world in worlds)


def walk(scope: Scope, limit: int) -> tuple[list[str], list[str], list[str]]:
    """Return the ids of every page going down, then those going up again, and every cursor."""
    down, up, cursors = [], [], []
    page = reads.list_dead(DeadFilters(), None, limit, within=scope)
    while True:
        down += [row.ref.id for row in page.rows]
        cursors += [cursor for cursor in (page.newer, page.older) if cursor is not None]
        if page.older is None:
            break
        page = reads.list_dead(DeadFilters(), page.older, limit, within=scope)
    up = [row.ref.id for row in page.rows]
    while page.newer is not None:
        page = reads.list_dead(DeadFilters(), page.newer, limit, within=scope)
        up = [row.ref.id for row in page.rows if row.ref.id not in up] + up
    return down, up, cursors


@pytest.mark.parametrize("limit", [2, 3, 7, 100])
def test_list__of_two_namespaces_is_everybodys_list_without_the_third(worlds: list[World], limit: int):
    everything = reads.list_dead(DeadFilters(), None, 200).rows
    wanted = [row.ref.id for row in everything if row.namespace != "beta"]
    hidden = [text for row in everything if row.namespace == "beta" for text in (row.ref.id, row.event_id)]
    down, up, cursors = walk(within(worlds[0], worlds[2]), limit)
    assert wanted == down == up
    assert [] == [text for text in hidden if any(text in cursor for cursor in cursors)]


def test_list__of_everywhere_is_what_it_was(worlds: list[World]):
    assert reads.list_dead(DeadFilters()) == reads.list_dead(DeadFilters(), within=EVERYWHERE)


@pytest.mark.parametrize(
    "filters",
    [DeadFilters(), DeadFilters(namespace="beta"), DeadFilters(namespace="no-such"), DeadFilters(owner="event")],
)
def test_list__of_nowhere_is_empty(worlds: list[World], filters: DeadFilters):
    page = reads.list_dead(filters, within=NOWHERE)
    assert ((), (), None, None, None) == (
        page.rows, page.rejected, page.newer, page.older, page.searched_back_to
    )  # fmt: skip
    assert "0" == str(reads.count_dead(filters, within=NOWHERE))


def test_count__adds_up_to_one_cap(worlds: list[World]):
    two = within(worlds[0], worlds[1])
    assert "18" == str(reads.count_dead(DeadFilters(), within=two))
    assert "10+" == str(reads.count_dead(DeadFilters(), cap=10, within=two))
    assert "18" == str(reads.count_dead(DeadFilters(), cap=18, within=two))
    assert "17+" == str(reads.count_dead(DeadFilters(), cap=17, within=two))
    assert "9" == str(reads.count_dead(DeadFilters(namespace="beta"), within=two))
    assert "0" == str(reads.count_dead(DeadFilters(namespace="gamma"), within=two))


def test_search__finds_by_id_and_key_where_one_may_look(worlds: list[World]):
    row = reads.list_dead(DeadFilters(namespace="gamma")).rows[0]
    for text in (row.ref.id, row.event_id, row.idempotency_key):
        assert 1 == len(reads.list_dead(DeadFilters(search=text), within=within(worlds[0], worlds[2])).rows)
        assert () == reads.list_dead(DeadFilters(search=text), within=within(worlds[0], worlds[1])).rows
        assert () == reads.list_dead(DeadFilters(search=text), within=NOWHERE).rows


def test_list__of_too_many_namespaces_asks_for_one():
    scope = Scope.of(Place(org_id="o", namespace=f"n{number}") for number in range(MOST_NAMESPACES + 1))
    for read in (reads.list_dead, reads.count_dead):
        with pytest.raises(errors.InvalidInput, match="name one of them"):
            read(DeadFilters(), within=scope)
        read(DeadFilters(namespace="n3"), within=scope)


def test_list__reads_one_statement_a_namespace(worlds: list[World], django_assert_max_num_queries: Any):
    with django_assert_max_num_queries(3):
        reads.list_dead(DeadFilters(), within=within(worlds[0]))
    with django_assert_max_num_queries(1 + 3 * 2):
        reads.list_dead(DeadFilters(), None, 100, within=within(*worlds))
