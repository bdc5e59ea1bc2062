"""The cutover's model says what the program does, by the program's own names; and spin finds nothing in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from batteries.__main__ import BROKEN
from batteries.r7_cutovers import GUARDS, MODEL, SHORTEST_GUARDS
from integration.states import TRANSITIONS, EventStatus, WorkItemState
from integration.storage.sql import rollback_fences
from tests.batteries.test_models import NAMES, failpoints_of, once, run_battery
from tests.support.servers import ROOT

TEXT = MODEL.read_text(encoding="ascii")
BODY = TEXT.split("#define LOCK(row)", 1)[1]
STATEMENTS = set(re.findall(r"\bSTATEMENT\((\w+)\)", BODY))
FAILPOINTS = set(re.findall(r"\bFAILPOINT\(([\w.]+)\)", BODY))
MOVES = set(re.findall(r"\bMOVE\(\w+, (\w+), (\w+), (\w+)\)", BODY))


def test_cutover_model__makes_only_moves_of_the_transition_table_and_all_of_a_rollback():
    known = {(move.name, move.source.value, move.target.value): move.made_by.value for move in TRANSITIONS}
    assert set(known) >= MOVES
    assert {move for move, maker in known.items() if maker in {"cutover", "projector"}} <= MOVES


def test_cutover_model__names_states_as_the_program_does():
    states, fences = (set(found.split(", ")) for found in re.findall(r"mtype = \{ ([\w, ]+) \};", TEXT))
    assert states <= {*map(str, WorkItemState), *map(str, EventStatus)}
    assert fences == {"none", rollback_fences.OPEN, rollback_fences.SEALED, rollback_fences.CLOSED}


def test_cutover_model__names_statements_of_the_program():
    assert STATEMENTS >= {"FENCE_WORK_ITEMS", "RETURN_EVENTS", "SEAL_ROLLBACK_FENCE", "SEIZE_SCHEDULER_LEASES"}
    assert STATEMENTS - NAMES == set()


def test_cutover_model__can_be_killed_wherever_the_cutover_and_the_executor_can():
    inbound = ROOT / "integration" / "cutover" / "inbound"
    assert failpoints_of(inbound) | failpoints_of(ROOT / "integration" / "legacy") <= FAILPOINTS
    assert FAILPOINTS - failpoints_of(ROOT / "integration") == set()


def test_cutover_model__has_every_guard_that_is_taken_away():
    removable = set(re.findall(r"\bNO_(\w+)", TEXT.split("*/", 1)[1]))
    taken = {word for words in GUARDS.values() for word in words if "=" not in word}
    assert taken == removable


@once
@pytest.mark.timeout(700)
def test_spin_cutover__finds_nothing_and_misses_every_guard(tmp_path: Path):
    code, output, line = run_battery(tmp_path, name="r7-cutover")
    assert code == 0, output
    figures = line["figures"]
    assert figures["states_in_all"] > 50_000
    assert (figures["violations"], figures["traces_found"]) == (0, figures["guards_removed"])
    assert figures["guards_removed"] == len(SHORTEST_GUARDS) < len(GUARDS)


@once
@pytest.mark.timeout(700)
def test_spin_cutover__breaks_when_nobody_is_evicted(tmp_path: Path):
    code, output, line = run_battery(tmp_path, "--mutant", name="r7-cutover")
    assert code == BROKEN, output
    assert "BROKEN  no interleaving breaks a rule or leaves a work that nobody will ever end" in output
    assert line["figures"]["violations"] > 0
