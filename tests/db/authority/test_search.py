"""Finding dead rows by the beginning of an id: short ranges of three indexes, a bound that is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections

from integration.authority import reads, search
from integration.authority.listing import DeadFilters
from integration.storage.db import _adapt
from integration.storage.sql import dead_letters
from tests.support.authority import World, rows_of

# Committed, as in service: TiDB joins a window of an index with uncommitted rows for ever.
pytestmark = pytest.mark.django_db(transaction=True)
FIRST = "0192a5b3-1111-7000-8000-0000000000a1"
SECOND = "0192a5b3-2222-7000-8000-0000000000b2"


@pytest.fixture
def world() -> World:
    return World()


def found(text: str, **filters: str) -> list[str]:
    page = reads.list_dead(DeadFilters(search=text, **filters))
    assert reads.count_dead(DeadFilters(search=text, **filters)).count == len(page.rows)
    return sorted(row.ref.id for row in page.rows)


def test_search__finds_rows_by_the_beginning_of_a_work_id(world: World):
    for work_id in (FIRST, SECOND):
        world.work(WorkId=work_id)
    world.work()
    assert found("0192a5b3") == [FIRST, SECOND]
    assert found("0192A5B3-1") == [FIRST]
    assert found("0192a5b3-3") == []
    assert found("0192a5b3", namespace="nobody") == []


@pytest.mark.parametrize("text", ["0192a5b3…00b2", "0192a5b3...00b2"])
def test_search__finds_a_row_by_the_form_in_which_lists_shorten_its_id(world: World, text: str):
    for work_id in (FIRST, SECOND):
        world.work(WorkId=work_id)
    assert found(text) == [SECOND]


def test_search__finds_rows_of_both_owners_by_the_beginning_of_an_event_id(world: World):
    work, legacy = world.work(), world.legacy()
    (row,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", work.id)
    assert work.id in found(row["EventId"][:13])
    assert legacy.id in found(legacy.id[:13])


@pytest.mark.parametrize("text", ["0192a5b", "0192a5bg", "0192a5b%", "________", "0192a5b3…zz", "%%%%%%%%"])
def test_search__takes_nothing_else_for_the_beginning_of_an_id(world: World, text: str):
    world.work(WorkId=FIRST)
    assert found(text) == []


def test_search__still_finds_a_key_that_looks_like_the_beginning_of_an_id(world: World):
    ref = world.work(event={"IdempotencyKey": "0192a5b3"})
    assert found("0192a5b3") == [ref.id]


def test_search__tells_that_more_ids_begin_so_than_were_looked_at(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "PREFIX_WINDOW", 2)
    world.work(WorkId=FIRST)
    assert not reads.list_dead(DeadFilters(search="0192a5b3")).is_search_cut
    world.work(WorkId=SECOND)
    assert reads.list_dead(DeadFilters(search="0192a5b3")).is_search_cut
    assert reads.count_dead(DeadFilters(search="0192a5b3")).is_capped


@pytest.mark.parametrize("name", ["FIND_DEAD_BY_PREFIX", "FIND_EVENT_DEAD_BY_PREFIX"])
def test_search__reads_ranges_of_the_indexes_that_it_names(world: World, engine: str, name: str):
    for number in range(60):
        world.work(TerminalAt=world.now - timedelta(seconds=number))
    values = {"first_id": "0192a5b3", "last_id": "0192a5b3~", "ending": "%", "window": 5000, "last": 4999, "limit": 50}
    values["namespace"] = "acme-sales"
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN {getattr(dead_letters, name).text}", _adapt(values))
        names = [column[0] for column in cursor.description]
        plan = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if engine == "mariadb":
        reads_of = [(row["type"], row["key"]) for row in plan if str(row["table"]) == "k"]
        assert reads_of
        assert {kind for kind, _ in reads_of} == {"range"}
        assert {key for _, key in reads_of} <= {"PRIMARY", "UX_WorkItem_Event"}
    else:
        steps = [str(row["id"]).strip("│├└─ ").rpartition("_")[0] for row in plan]
        assert not [step for step in steps if "FullScan" in step or "Sort" in step]
