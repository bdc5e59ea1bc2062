"""How the databases read the dead-letter list: one range of the dead index, the rest by key."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from integration.authority import dead_statements, reads
from integration.authority.cursors import START, Place
from integration.authority.listing import DeadFilters
from integration.storage.db import _adapt
from integration.storage.sql import dead_counts, dead_letters
from integration.storage.statements import Statement
from tests.support.authority import World

pytestmark = pytest.mark.django_db
STATEMENTS = vars(dead_letters) | vars(dead_counts)
PAGED = [
    value
    for name, value in sorted(STATEMENTS.items())
    if isinstance(value, Statement) and name.startswith(("LIST_DEAD_", "LIST_EVENT_DEAD_", "COUNT_"))
    if not name.endswith("_OF_EVENTS") and "UNDATED" not in name
]
UNDATED = [value for name, value in sorted(STATEMENTS.items()) if isinstance(value, Statement) and "_UNDATED" in name]
DEAD_INDEXES = {"IX_WorkItem_Dead", "IX_WorkItem_DeadByNamespace", "IX_Event_Dead", "IX_Event_DeadByNamespace"}
TERMINAL_AT_BYTES = 9  # of an index key that reaches TerminalAt: 8 and its null flag


@pytest.fixture
def world() -> World:
    world = World()
    for number in range(60):
        world.work(TerminalAt=world.now - timedelta(seconds=number))
        world.legacy(TerminalAt=world.now - timedelta(seconds=number))
    return world


def params(world: World, place: Place | None = None) -> dict[str, Any]:
    values = dead_statements.filter_params(DeadFilters(namespace=world.namespace, event_kind=world.kind))
    place = place or Place(at=world.now - timedelta(seconds=30), id="01a2")
    for stream in "dle":
        values |= dead_statements.start_params(stream, place)
        values |= dead_statements.window_params(stream, 8000, 51)
    return _adapt(values)


def explain(statement: Statement, values: dict[str, Any]) -> list[dict[str, Any]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement.text}", values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def test_there_are_statements_of_every_kind():
    assert (len(PAGED), len(UNDATED)) == (18, 12)


def probed(statement: Statement) -> list[str]:
    """Return the streams that the statement looks for undated rows in, besides listing the dated ones."""
    return re.findall(r"'(\w)\.undated'", statement.text)


@pytest.mark.parametrize("statement", UNDATED, ids=lambda statement: statement.name)
def test_statement__finds_the_undated_rows_in_the_same_index(statement: Statement, world: World, engine: str):
    plan = explain(statement, params(world))
    if engine == "mariadb":
        tables = [row for row in plan if row["table"] and not str(row["table"]).startswith("<")]
        keys = [row for row in tables if row["table"] == "k"]
        assert keys
        for row in keys:
            assert (row["type"] in {"ref", "range"}, row["key"] in DEAD_INDEXES) == (True, True), row
            assert "filesort" not in row["Extra"], row
        assert "ALL" not in {row["type"] for row in tables}, plan
    else:
        access = [(row["id"].strip("├─└│ "), row["access object"]) for row in plan if row["access object"]]
        keys = [entry for entry in access if "table:k" in entry[1]]
        assert keys
        assert {operator.split("_")[0] for operator, _ in keys} == {"IndexRangeScan"}, plan
        assert not [entry for entry in access if "FullScan" in entry[0]], plan


@pytest.mark.parametrize("statement", PAGED, ids=lambda statement: statement.name)
def test_statement__reads_one_range_of_the_dead_index_and_the_rest_by_key(
    statement: Statement, world: World, engine: str
):
    plan = explain(statement, params(world))
    if engine == "mariadb":
        tables = [row for row in plan if row["table"] and not str(row["table"]).startswith("<")]
        keys = [row for row in tables if row["table"] == "k"]
        assert keys
        probes = len(probed(statement))
        assert sorted(row["type"] for row in keys) == ["range"] * (len(keys) - probes) + ["ref"] * probes
        for row in keys:
            assert row["key"] in DEAD_INDEXES, row
            assert "Using index" in row["Extra"], row
            assert "filesort" not in row["Extra"], row
        # A filtered count goes from a window's keys to the rows themselves.
        windows = [row for row in tables if row["table"] == "w" and row["key"] in DEAD_INDEXES]
        assert len(windows) == statement.text.count("AS IsMatch")
        for row in windows:
            assert (row["type"], "filesort" in row["Extra"]) == ("range", False), row
        by_key = [row for row in tables if row["table"] != "k" and row not in windows]
        assert {row["type"] for row in by_key} <= {"eq_ref", "ref", "const", "index_subquery"}, plan
    else:
        access = [(row["id"].strip("├─└│ "), row["access object"]) for row in plan if row["access object"]]
        keys = [entry for entry in access if "table:k" in entry[1]]
        assert keys
        for operator, where in keys:
            assert operator.startswith("IndexRangeScan"), plan
            assert re.search(r"index:(\w+)", where).group(1) in DEAD_INDEXES
        windows = [entry for entry in access if entry[0].startswith("IndexRangeScan") and "table:w" in entry[1]]
        assert len(windows) == statement.text.count("AS IsMatch"), plan
        for _, where in windows:
            assert re.search(r"index:(\w+)", where).group(1) in DEAD_INDEXES
        assert not [entry for entry in access if "FullScan" in entry[0]], plan


@pytest.mark.parametrize(
    "statement", [dead_letters.LIST_DEAD_OLDER, dead_letters.LIST_DEAD_NEWER], ids=lambda statement: statement.name
)
def test_statement__reads_from_its_cursor_and_in_index_order(statement: Statement, world: World, engine: str):
    plan = explain(statement, params(world))
    if engine == "mariadb":
        key_lengths = {row["key"]: int(row["key_len"]) for row in plan if row["table"] == "k"}
        # The state alone would be 34 and 18 bytes: the range reaches the terminal time.
        assert key_lengths == {
            "IX_WorkItem_Dead": 34 + TERMINAL_AT_BYTES,
            "IX_Event_Dead": 18 + TERMINAL_AT_BYTES,
        }
    else:
        scans = [row for row in plan if "table:k" in row["access object"]]
        # A page of each stream, where each window ended, and whether there are undated rows.
        assert len(scans) == 6 + len(probed(statement))
        for row in scans:
            ranges = re.search(r"range:(.*?), keep", row["operator info"]).group(1)
            if "NULL" in ranges:
                continue
            assert "keep order:true" in row["operator info"]
            assert ranges.count("[") + ranges.count("(") == 1, ranges
            assert str(world.now.year) in ranges


def test_a_page__takes_few_statements(world: World):
    statements: list[str] = []

    def note(execute, text, values, many, context):
        statements.append(text)
        return execute(text, values, many, context)

    reads.list_dead(DeadFilters())
    with connections["default"].execute_wrapper(note):
        page = reads.list_dead(DeadFilters())
        assert len(page.rows) == 50
        assert len(statements) == 2, statements
        statements.clear()
        reads.count_dead(DeadFilters())
        assert len(statements) == 2, statements


def test_the_first_page_starts_at_the_top():
    assert params(World(), START.place)["d_upper_at"].year == 9999
