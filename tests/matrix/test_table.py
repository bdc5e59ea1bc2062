"""The table itself: complete, independent of the program, and what its page says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from integration.states import NONTERMINAL_STATES, EventStatus, ExecutionClass, WorkItemState
from tests.matrix import cells, document, table
from tests.matrix.cells import DIMENSIONS, all_cells, is_possible
from tests.matrix.decisions import DECISIONS, Decision, agrees
from tests.matrix.pairs import cover, pairs_of
from tests.matrix.subset import meetings, suite_cells, wanted_of
from tests.matrix.table import LINES, REPLAYED, breaks_a_key, count_answers, decide
from tests.support.servers import ROOT

PAGE = ROOT / "docs" / "replay-matrix.md"
_RUN = re.compile(r"^\| (?P<database>mariadb|tidb) \|.*$", re.MULTILINE)


def test_cells__are_every_combination_once() -> None:
    found = all_cells()
    assert len(found) == 6 * 11 * 2 * 2 * 2 * 2 * 4 * 4 + 6 * 2 * 2 * 4 * 4
    assert len({cell.number for cell in found}) == len(found)
    assert all(is_possible(cell.values()) for cell in found)


def test_cells__know_the_programs_states() -> None:
    assert set(EventStatus) == set(cells.EVENT_STATUSES)
    assert set(WorkItemState) == set(cells.ITEM_STATES)
    assert set(NONTERMINAL_STATES) == set(cells.UNENDED_STATES)
    assert set(ExecutionClass) == set(DIMENSIONS["execution"])


@pytest.mark.parametrize("module", [cells, table], ids=["cells", "table"])
def test_table__asks_nothing_of_the_program(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not [name for name in imported if name and name.startswith(("integration", "console"))]


def test_lines__each_decide_a_cell_and_name_known_values() -> None:
    assert {decide(cell).name for cell in all_cells()} == {line.name for line in LINES}
    for line in LINES:
        assert set(line.when) <= set(DIMENSIONS)
        for name, values in line.when.items():
            assert {value.removeprefix("not ") for value in values} <= set(DIMENSIONS[name]), line.name
        assert line.source
        assert line.says


def test_cover__chooses_what_adds_the_most_until_nothing_is_left() -> None:
    offers = {"a": {1}, "b": {1, 2, 3}, "c": {3, 4}, "d": {4, 5}, "e": set()}
    assert cover(offers, offers.__getitem__) == ["b", "d"]


def test_suite__has_every_pair_of_values_and_every_meeting_of_two_lines() -> None:
    chosen = suite_cells()
    assert set().union(*map(wanted_of, chosen)) == set().union(*map(wanted_of, all_cells()))
    assert pairs_of(chosen[0].values()) | meetings(chosen[0]) <= wanted_of(chosen[0])
    assert sum(map(breaks_a_key, chosen)) > 0
    assert len(chosen) < 200


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.question)
def test_decision__is_the_tables_and_one_of_its_cells_is_in_the_suite(decision: Decision) -> None:
    concerned = [cell for cell in all_cells() if decision.cells(cell)]
    assert concerned
    assert [cell for cell in concerned if not agrees(decision, cell)] == []
    assert {decide(cell).answer.partition(":")[0] for cell in concerned} == set(decision.answers)
    assert any(decision.cells(cell) for cell in suite_cells())


def test_page__holds_the_tables() -> None:
    assert document.tables() in PAGE.read_text(encoding="utf-8"), (
        "docs/replay-matrix.md is not what the table says: put the output of `python -m tests.matrix --tables` there"
    )


def test_page__records_whole_runs_with_the_tables_counts() -> None:
    runs = {match["database"]: match.group(0) for match in _RUN.finditer(PAGE.read_text(encoding="utf-8"))}
    assert "mariadb" in runs
    everything = all_cells()
    answers = count_answers(everything)
    replayed = sum(count for answer, count in answers.items() if answer.startswith(REPLAYED))
    counts = (len(everything), sum(map(breaks_a_key, everything)), replayed, len(everything) - replayed, 0)
    for line in runs.values():
        columns = [column.strip() for column in line.strip("|").split("|")]
        assert tuple(int(column.replace(",", "")) for column in columns[2:7]) == counts, line
