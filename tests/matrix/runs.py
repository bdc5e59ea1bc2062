"""Cells in the database: each planned and replayed, and held against the table.

A batch's cells are stored together, every one under a namespace of its own. All system tables are read in full before
the plans, after them, after the replays, and after the replays of what was replayed: a row that changed without a
replay of its namespace to account for it is a finding, whichever table it is in.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from integration.authority import service
from integration.authority.values import Refused, Replayed
from tests.matrix import effects, rows, snapshots
from tests.matrix.cells import Cell
from tests.matrix.rows import ITEMS, Case
from tests.matrix.snapshots import Change, Row, Snapshot
from tests.matrix.table import REPLAYED, Line, breaks_a_key, decide
from tests.support.authority import MARIA
from tests.support.cleaning import empty_database

BATCH: Final = 256
_AGAIN: Final = "already_replayed"


@dataclass(kw_only=True)
class Tally:
    """What a run met.

    Attributes:
        cells: Cells that were run, stand-ins among them.
        impossible: Cells that the database refused to store; each was run with a stand-in for its successor.
        answers: What the replays answered, by code or by owner.
        findings: What is not as the table says, one sentence each.
        rows: Rows that were read and compared.
    """

    cells: int = 0
    impossible: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    rows: int = 0


def run(
    cells: Iterable[Cell],
    *,
    batch: int = BATCH,
    expect: Callable[[Cell], Line] = decide,
    after_batch: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run cells, and empty the database after each batch of them.

    Args:
        cells: The cells, each once.
        batch: How many are stored at a time.
        expect: The table.
        after_batch: Told how far the run is.

    Returns:
        The counts, and what was found.
    """
    tally = Tally()
    remaining = iter(cells)
    while chosen := list(itertools.islice(remaining, batch)):
        _run_batch(chosen, tally, expect)
        empty_database()
        after_batch(tally)
    return tally


def _run_batch(cells: Sequence[Cell], tally: Tally, expect: Callable[[Cell], Line]) -> None:
    for cell in filter(breaks_a_key, cells):
        tally.impossible += 1
        if not rows.is_refused_by_the_key(cell):
            tally.findings.append(f"{cell}: the key does not refuse it")
    cases = [rows.make_case(cell) for cell in cells]
    rows.store(cases)
    before = snapshots.take()
    planned = {case.namespace: _plan(case) for case in cases}
    _report_changes(tally, "planning", snapshots.changes(before, snapshots.take()))
    answers = {case.namespace: _replay(case) for case in cases}
    after = snapshots.take()
    changed = _by_namespace(snapshots.changes(before, after))
    for case in cases:
        answer, line = answers[case.namespace], expect(case.cell)
        found = _Found(case=case, line=line, planned=planned[case.namespace], answer=answer)
        tally.findings += _compare(found, changed.pop(case.namespace, []), before)
        tally.answers[found.told] += 1
    _report_changes(tally, "replaying", itertools.chain.from_iterable(changed.values()))
    replayed = [case for case in cases if isinstance(answers[case.namespace], Replayed)]
    _replay_again(replayed, after, tally)
    _check_trail(tally, done=len(replayed), asked=len(cases) + len(replayed))
    tally.cells += len(cells)
    tally.rows += sum(map(len, before.values()))


def _replay_again(cases: Sequence[Case], after: Snapshot, tally: Tally) -> None:
    """One original has one child: asked once more, each is refused and nothing changes."""
    for case in cases:
        told = (_plan(case), _name(_replay(case)))
        if told != (_AGAIN, _AGAIN):
            tally.findings.append(f"{case.cell}: asked again, plan and replay say {told[0]} and {told[1]}")
    _report_changes(tally, "replaying again", snapshots.changes(after, snapshots.take()))


def _check_trail(tally: Tally, *, done: int, asked: int) -> None:
    trail = snapshots.count_audited()
    if (trail.get("done", 0), sum(trail.values())) != (done, asked):
        tally.findings.append(f"the trail holds {trail} of {asked} replays, {done} of them done")


def _plan(case: Case) -> str:
    refusal = service.plan(case.ref, MARIA).refusal
    return REPLAYED if refusal is None else refusal.code


def _replay(case: Case) -> Replayed | Refused | Exception:
    try:
        return service.replay(case.ref, actor=MARIA, reason="the matrix")
    except Exception as error:
        # An answer as well, and never the expected one.
        return error


def _name(answer: Replayed | Refused | Exception) -> str:
    match answer:
        case Replayed():
            return REPLAYED
        case Refused():
            return answer.code
        case _:
            return type(answer).__name__


@dataclass(kw_only=True)
class _Found:
    """What plan and replay said of a case."""

    case: Case
    line: Line
    planned: str
    answer: Replayed | Refused | Exception

    @property
    def told(self) -> str:
        """The answer, with the owner of what was replayed."""
        if not isinstance(self.answer, Replayed):
            return _name(self.answer)
        if self.answer.original.kind.value == "work_item":
            return f"{REPLAYED}: work_item"
        return f"{REPLAYED}: {'mirror' if self.case.work_id else 'event_only'}"


def _compare(found: _Found, changed: list[Change], before: Snapshot) -> list[str]:
    case, line = found.case, found.line
    at = f"{case.cell}: "
    wanted = line.answer
    findings = []
    if found.told != wanted:
        findings.append(f"{at}the replay answers {found.told}, line '{line.name}' says {wanted}")
    if found.planned != wanted.partition(":")[0]:
        findings.append(f"{at}the plan answers {found.planned}, line '{line.name}' says {wanted}")
    if found.planned != _name(found.answer):
        findings.append(f"{at}the plan answers {found.planned} and the replay {_name(found.answer)}")
    if isinstance(found.answer, Replayed):
        owner = found.told.partition(": ")[2]
        original: Row | None = None if case.work_id is None else before[ITEMS][case.work_id,]
        findings += [f"{at}{fault}" for fault in effects.faults(case, owner, found.answer, changed, original)]
    elif changed:
        findings.append(f"{at}refused with {found.told}, and changed {_describe(changed)}")
    return findings


def _by_namespace(changed: Iterable[Change]) -> dict[Any, list[Change]]:
    found: dict[Any, list[Change]] = defaultdict(list)
    for change in changed:
        found[change.namespace].append(change)
    return found


def _report_changes(tally: Tally, when: str, changed: Iterable[Change]) -> None:
    if listed := list(changed):
        tally.findings.append(f"{when} changed {_describe(listed)}")


def _describe(changed: Sequence[Change]) -> str:
    return "; ".join(f"{change.table} {change.columns()}" for change in changed[:5])
