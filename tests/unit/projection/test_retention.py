"""No statement of the program deletes an input or a generation, or lowers the counter of ordinals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from integration.storage.statements import all_statements

pytestmark = pytest.mark.evidence("P-25")

ROOT = Path(__file__).resolve().parents[3]
#: What a live range consists of, and what gives its ordinals.
KEPT = {"_System_ConnectorEvent", "_System_ConnectorWorkItem", "_System_ConnectorPackInstall"}
#: The only statement that may write the counter.
COUNTER = "ADVANCE_LANE_ORDINAL"
#: The only statements that may write an ordinal of a generation or an Event that is there already.
BOUNDS = {"EXTEND_GENERATION"}


def faults(name: str, text: str) -> list[str]:
    sql = re.sub(
        r"%\(\w+\)s", "'x'", re.sub(r"IN\s+%\(\w+\)s", "IN ('x')", re.sub(r"LIMIT\s+%\(\w+\)s", "LIMIT 1", text))
    )
    tree = sqlglot.parse_one(sql.replace("%%", "%"), read="mysql")
    found = []
    tables = {table.name for table in tree.find_all(exp.Table)}
    if isinstance(tree, exp.Delete | exp.TruncateTable | exp.Drop) and tables & KEPT:
        found.append("deletes")
    if re.match(r"\s*REPLACE\b", text, re.IGNORECASE):
        found.append("replaces")
    if isinstance(tree, exp.Update):
        written = {item.this.name for item in tree.expressions if isinstance(item, exp.EQ)}
        if "NextLaneOrdinal" in written and name != COUNTER:
            found.append("moves the counter")
        if written & {"InputStartOrdinal"}:
            found.append("moves a lower bound")
        if "LaneOrdinal" in written and name not in BOUNDS:
            found.append("moves an upper bound")
    if isinstance(tree, exp.Insert) and "NextLaneOrdinal" in text:
        found.append("starts the counter elsewhere than at its default")
    return found


@pytest.mark.parametrize(
    ("name", "text"), [(name, statement.text) for _, name, statement in all_statements()], ids=lambda value: value[:40]
)
def test_statement__keeps_inputs_generations_and_the_counter(name: str, text: str):
    assert faults(name, text) == []


def test_counter__is_advanced_from_what_was_read_and_only_upwards():
    (text,) = [statement.text for _, name, statement in all_statements() if name == COUNTER]
    assert "NextLaneOrdinal = %(expected_lane_ordinal)s" in text
    assert "%(next_lane_ordinal)s > NextLaneOrdinal" in text


def test_extension__only_moves_a_bound_up():
    (text,) = [statement.text for _, name, statement in all_statements() if name == "EXTEND_GENERATION"]
    assert "LaneOrdinal < %(lane_ordinal)s" in text


@pytest.mark.parametrize("area", ["integration", "console"])
def test_program__has_no_other_delete_of_them(area: str):
    """The statements are the only way to these tables; this looks for one that is written beside them."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / area).rglob("*.py")}
    assert sources
    pattern = re.compile(
        r"(DELETE\s+FROM|TRUNCATE(\s+TABLE)?|REPLACE\s+INTO)\s+`?_System_Connector(Event|WorkItem|PackInstall)\b"
    )
    assert [str(path) for path, text in sources.items() if pattern.search(text)] == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("X", "DELETE FROM _System_ConnectorEvent WHERE EventId = %(a)s", "deletes"),
        ("X", "DELETE FROM _System_ConnectorWorkItem WHERE WorkId = %(a)s", "deletes"),
        ("X", "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = 1 WHERE PackInstallId = %(a)s", "counter"),
        ("X", "UPDATE _System_ConnectorWorkItem SET InputStartOrdinal = 1 WHERE WorkId = %(a)s", "lower bound"),
        ("X", "UPDATE _System_ConnectorEvent SET LaneOrdinal = 1 WHERE EventId = %(a)s", "upper bound"),
    ],
)
def test_check__catches_what_it_is_for(name: str, text: str, fault: str):
    assert any(fault in found for found in faults(name, text))
