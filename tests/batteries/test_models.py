"""The replay protocol's model says what the program does, by the program's own names; and spin finds nothing in it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from batteries.__main__ import BROKEN
from batteries.r7_models import GUARDS, MODEL, SHORTEST_GUARDS
from integration.authority import locked, making, service
from integration.authority.values import Ref, Replayed
from integration.states import TRANSITIONS, EventStatus, ExecutionClass, WorkItemState
from integration.storage.sql import replays
from integration.storage.statements import Statement, all_statements
from tests.support import servers
from tests.support.authority import MARIA, World
from tests.support.processes import start_python
from tests.support.servers import ROOT

TEXT = MODEL.read_text(encoding="ascii")
NAMES = {constant for _, constant, _ in all_statements()} | {statement.name for _, _, statement in all_statements()}
MOVES = re.findall(r"\bMOVE\([^,()]+, (\w+), (\w+), (\w+)\)", TEXT.split("#define FAILPOINT", 1)[1])
STEPS = re.findall(r"\b(STATEMENT|FAILPOINT)\(([\w.]+)\)", TEXT.split("#define LOCK", 1)[1])
DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "TerminalAt": "2026-01-01"}
#: Kind of original -> how it comes about, and its execution class.
KINDS: dict[str, tuple[Callable[[World], Ref], str]] = {
    "owned": (lambda world: world.work(), "per_event"),
    "waiting mirror": (lambda world: world.work("pending", Attempt=0, event=DEAD_EVENT), "per_event"),
    "dead mirror": (lambda world: world.work("dead", Attempt=0, event=DEAD_EVENT), "per_event"),
    "Event only": (lambda world: world.legacy(), "per_event"),
    "projection": (lambda world: world.generation("dead"), "source_projection"),
    "projection's mirror": (lambda world: world.generation("retry", Attempt=0, event=DEAD_EVENT), "source_projection"),
}
once = pytest.mark.skipif(servers.engine() == "tidb", reason="it asks no database, and ran with the other one's tests")


def replayer_steps() -> list[str]:
    """Return what the model's replayer does from its first lock on, in order, by the program's names."""
    body = TEXT.split("proctype Replayer", 1)[1].split("\n}\n", 1)[0]
    found = [name for _, name in re.findall(r"\b(STATEMENT|FAILPOINT)\(([\w.]+)\)", body)]
    return found[found.index("LOCK_PACKS") :]


def failpoints_of(folder: Path) -> set[str]:
    """Return the names of the failpoints in a folder's modules."""
    return {
        call.args[0].value
        for path in folder.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "failpoint"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the names of what the replay sends and passes from its first lock on."""
    names = {statement.text: constant for _, constant, statement in all_statements()}
    steps: list[str] = []
    known = set(replayer_steps())

    def see(name: str) -> None:
        if name in known and (steps or name == "LOCK_PACKS"):
            steps.append(name)

    def send(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        see(names.get(sql, ""))
        return execute(sql, params, many, context)

    with monkeypatch.context() as patch, connections["default"].execute_wrapper(send):
        for module in (locked, making, service):
            patch.setattr(module, "failpoint", see)
        yield steps


def is_in_order(steps: list[str], order: list[str]) -> bool:
    """Whether the steps follow each other in an order that has more of them."""
    rest = iter(order)
    return all(step in rest for step in steps)


def test_model__makes_only_moves_of_the_transition_table():
    known = {(move.name, move.source.value, move.target.value) for move in TRANSITIONS}
    assert len(MOVES) >= 8
    assert {tuple(move) for move in MOVES} - known == set()


def test_model__names_states_and_classes_as_the_program_does():
    states, classes, *_ = re.findall(r"mtype = \{ ([\w, ]+) \};", TEXT)
    assert set(states.split(", ")) <= {*map(str, WorkItemState), *map(str, EventStatus)}
    assert set(classes.split(", ")) == {*map(str, ExecutionClass)}


def test_model__names_statements_and_failpoints_of_the_program():
    assert {name for kind, name in STEPS if kind == "STATEMENT"} - NAMES == set()
    assert {name for kind, name in STEPS if kind == "FAILPOINT"} - failpoints_of(ROOT / "integration") == set()


def test_model__passes_every_failpoint_and_every_write_of_a_replay():
    steps = set(replayer_steps())
    # What stands in the authority's other modules belongs to other operations.
    assert {name for name in failpoints_of(ROOT / "integration" / "authority") if name.startswith("replay.")} <= steps
    written = {
        value.name
        for value in vars(replays).values()
        if isinstance(value, Statement) and (value.locks or value.holds) and not value.name.endswith("_OF_OLD_SCHEMA")
    }
    assert written <= steps


@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("A-25")
def test_model__takes_the_steps_of_real_replays_in_their_order(monkeypatch: pytest.MonkeyPatch):
    taken: set[str] = set()
    order = replayer_steps()
    for number, (make, execution) in enumerate(KINDS.values()):
        world = World(namespace=f"kind-{number}", execution=execution)
        ref = make(world)
        with recorded(monkeypatch) as steps:
            assert isinstance(service.replay(ref, actor=MARIA, reason="model"), Replayed)
        assert is_in_order(steps, order), (steps, order)
        taken |= set(steps)
    assert taken == set(order)


def run_battery(folder: Path, *arguments: str, name: str = "r7") -> tuple[int, str, dict[str, Any]]:
    """Run the shortest form in a process of its own; return its code, what it said and what it stored."""
    # It must not need what the address names.
    started = start_python(
        ["-m", "batteries", name, "--form", "shortest", *arguments],
        "mysql://nowhere/none",
        LOCKHOUSE_BATTERY_RESULTS=str(folder),
    )
    code = started.wait(600)
    stored = folder / f"{name}.jsonl"
    assert stored.exists(), started.output
    line: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
    return code, started.output, line


@once
@pytest.mark.timeout(700)
def test_spin__finds_nothing_and_misses_every_guard(tmp_path: Path):
    code, output, line = run_battery(tmp_path)
    assert code == 0, output
    figures = line["figures"]
    assert figures["states_in_all"] > 50_000
    assert (figures["violations"], figures["traces_found"]) == (0, figures["guards_removed"])
    assert figures["guards_removed"] == len(SHORTEST_GUARDS) < len(GUARDS)


@once
@pytest.mark.timeout(700)
def test_spin__breaks_without_the_second_look(tmp_path: Path):
    code, output, line = run_battery(tmp_path, "--mutant")
    assert code == BROKEN, output
    assert "BROKEN  no interleaving breaks a rule or ends in a deadlock" in output
    assert line["figures"]["violations"] > 0
