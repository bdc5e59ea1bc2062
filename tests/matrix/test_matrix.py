"""Plan and replay against the table, on the suite's cells; and that a rule which is missing or misplaced is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from django.db import connections

from integration.authority import making, policy, service
from integration.authority.original_rules import (
    decide_dead,
    decide_event_fence,
    decide_found,
    decide_mirror,
    decide_not_reconciled,
    decide_not_replayed,
    decide_owner_is_clear,
    decide_permission,
    decide_schema,
)
from integration.authority.policy import Rule
from integration.authority.target_rules import (
    decide_admission,
    decide_binding,
    decide_catalog,
    decide_event_only_successor,
    decide_execution_class,
    decide_materialization,
    decide_pack,
    decide_route,
    decide_scope,
    decide_snapshot,
)
from integration.storage.sql import events
from tests.matrix import runs
from tests.matrix.cells import Cell, all_cells
from tests.matrix.rows import EVENTS
from tests.matrix.runs import Tally
from tests.matrix.subset import suite_cells
from tests.matrix.table import LINES, REPLAYED, breaks_a_key, count_answers, decide, refusals_for

EVIDENCE = sorted({name for line in LINES for name in line.evidence})
#: The rules that the matrix asks about, in the program's order, each with its code.
ASKED: dict[Rule, str] = {
    decide_not_reconciled: "legacy_reconciled",
    decide_dead: "not_dead",
    decide_not_replayed: "already_replayed",
    decide_event_fence: "event_replay_fence",
    decide_mirror: "mirror_conflict",
    decide_route: "route_not_live",
    decide_snapshot: "route_snapshot_unavailable",
    decide_execution_class: "execution_class_changed",
    decide_scope: "active_generation_in_scope",
    decide_event_only_successor: "event_only_successor",
}
#: No value of a dimension makes these refuse; docs/replay-matrix.md says which tests do.
UNASKED = {
    decide_permission,
    decide_found,
    decide_schema,
    decide_owner_is_clear,
    decide_pack,
    decide_admission,
    decide_catalog,
    decide_binding,
    decide_materialization,
}
#: Rules next to each other that no cell breaks together: of two owners, or of two values of one dimension.
APART = {
    (decide_event_fence, decide_mirror),
    (decide_route, decide_snapshot),
    (decide_snapshot, decide_execution_class),
    (decide_scope, decide_event_only_successor),
}
NEIGHBOURS = list(zip(ASKED, list(ASKED)[1:], strict=False))
_FEW = 2


@pytest.mark.evidence(*EVIDENCE)
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_plan_and_replay__answer_as_the_table_says() -> None:
    cells = suite_cells()
    tally = runs.run(cells)
    assert tally.findings == []
    assert tally.answers == count_answers(cells)
    assert (tally.cells, tally.impossible) == (len(cells), sum(map(breaks_a_key, cells)))
    assert tally.rows > 5 * len(cells)


def test_rules__are_each_in_the_matrix_or_accounted_for() -> None:
    assert set(policy.RULES) == ASKED.keys() | UNASKED
    assert [rule for rule in policy.RULES if rule in ASKED] == list(ASKED)
    assert set(ASKED.values()) == {line.answer for line in LINES if line.is_refusal}


def answering(answer: str, *, count: int = _FEW) -> list[Cell]:
    """Return some of the suite's cells with an answer: at least one of each line, those first that nothing else refuses."""
    of_lines: dict[str, list[Cell]] = {}
    for cell in sorted(suite_cells(), key=lambda cell: len(refusals_for(cell))):
        if decide(cell).answer == answer:
            of_lines.setdefault(decide(cell).name, []).append(cell)
    firsts = [cells[0] for cells in of_lines.values()]
    others = [cell for cells in of_lines.values() for cell in cells[1:]]
    return [*firsts, *others][: max(count, len(firsts))]


def unfound(cells: list[Cell], tally: Tally) -> list[Cell]:
    """Return the cells of which nothing was found."""
    return [cell for cell in cells if not any(found.startswith(f"{cell}: ") for found in tally.findings)]


@pytest.mark.django_db
@pytest.mark.parametrize("rule", ASKED, ids=lambda rule: rule.__name__)
def test_mutant__without_a_rule_is_found(rule: Rule) -> None:
    cells = answering(ASKED[rule])
    without = tuple(other for other in policy.RULES if other is not rule)
    with mock.patch.object(policy, "RULES", without):
        tally = runs.run(cells)
    assert unfound(cells, tally) == []
    assert runs.run(cells).findings == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in NEIGHBOURS if pair not in APART],
    ids=lambda rule: rule.__name__,
)
def test_mutant__that_asks_two_rules_the_other_way_round_is_found(first: Rule, second: Rule) -> None:
    cells = both_broken(ASKED[first], ASKED[second], suite_cells())[:_FEW]
    assert cells
    rules = list(policy.RULES)
    rules.remove(first)
    rules.insert(rules.index(second) + 1, first)
    with mock.patch.object(policy, "RULES", tuple(rules)):
        tally = runs.run(cells)
    assert unfound(cells, tally) == []


def test_rules__that_no_cell_breaks_together_are_these() -> None:
    assert {pair for pair in NEIGHBOURS if not both_broken(ASKED[pair[0]], ASKED[pair[1]], all_cells())} == APART


def both_broken(first: str, second: str, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that are refused with one code and, were it not for that, with another."""
    found = [cell for cell in cells if decide(cell).answer == first]
    return [cell for cell in found if second in refusals_for(cell)]


@pytest.mark.django_db
def test_mutant__whose_plan_asks_less_than_its_replay_is_found() -> None:
    cell = next(cell for cell in suite_cells() if refusals_for(cell) == ("route_not_live",))
    rules = tuple(rule for rule in policy.RULES if rule is not decide_route)
    with mock.patch.object(policy, "judge", lambda facts: tuple(rule(facts) for rule in rules)):
        findings = runs.run([cell]).findings
    assert f"{cell}: the plan answers {REPLAYED} and the replay route_not_live" in findings


@contextmanager
def refusal_that_writes() -> Iterator[str]:
    """Touch the locked Event before the rules are asked."""
    real = service._replay_locked

    def writing(tx: Any, *arguments: Any) -> Any:
        answer = real(tx, *arguments)
        with connections["default"].cursor() as cursor:
            tx._statement = events.INSERT_REPLAY_EVENT
            cursor.execute(f"UPDATE {EVENTS} SET RetryCount = RetryCount + 1")
        return answer

    with mock.patch.object(service, "_replay_locked", writing):
        yield "refused with mirror_conflict, and changed"


@contextmanager
def plan_that_writes() -> Iterator[str]:
    """Mark the Event while the plan is made."""
    real = service.plan

    def writing(*arguments: Any) -> Any:
        with connections["default"].cursor() as cursor:
            cursor.execute(f"UPDATE {EVENTS} SET RetryCount = RetryCount + 1")
        return real(*arguments)

    with mock.patch.object(service, "plan", writing):
        yield "planning changed"


@pytest.mark.django_db
@pytest.mark.parametrize("mutant", [refusal_that_writes, plan_that_writes], ids=lambda mutant: mutant.__name__)
def test_mutant__that_writes_what_it_must_not_is_found(mutant: Callable[[], Any]) -> None:
    with mutant() as words:
        findings = runs.run(answering("mirror_conflict", count=1)).findings
    assert any(words in finding for finding in findings), findings


@pytest.mark.django_db
@pytest.mark.parametrize("owner", ["work_item", "mirror", "event_only"])
def test_mutant__that_leaves_the_mark_out_is_found(owner: str) -> None:
    (cell,) = answering(f"{REPLAYED}: {owner}", count=1)
    with mock.patch.object(making, "_reserve"):
        findings = runs.run([cell]).findings
    assert any("instead of" in finding for finding in findings), findings
