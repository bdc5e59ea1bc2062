"""R8 in its shortest form, its mutant, and the parts that decide which orders are run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from batteries.__main__ import BROKEN
from batteries.r8_interleavings import pairs
from batteries.stepper import Step
from tests.support.processes import start_python

READ_ITEMS = Step("read", reads=frozenset({"items"}))
READ_EVENTS = Step("read", reads=frozenset({"events"}))
LOCK_ITEMS = Step("lock", locks=frozenset({"items"}))
COMMIT_ITEMS = Step("COMMIT", shows=frozenset({"items"}))
ALONE = Step("update", reads=frozenset({"items"}), locks=frozenset({"items"}), shows=frozenset({"items"}))


@pytest.mark.parametrize(
    ("one", "other", "is_independent"),
    [
        (READ_ITEMS, READ_ITEMS, True),
        # What is not committed is not seen.
        (READ_ITEMS, LOCK_ITEMS, True),
        (READ_ITEMS, COMMIT_ITEMS, False),
        (READ_EVENTS, COMMIT_ITEMS, True),
        (LOCK_ITEMS, LOCK_ITEMS, False),
        (LOCK_ITEMS, COMMIT_ITEMS, False),
        (READ_ITEMS, ALONE, False),
        (ALONE, ALONE, False),
    ],
)
def test_step__tells_which_orders_make_a_difference(one: Step, other: Step, is_independent: bool):
    assert one.is_independent_of(other) is is_independent
    assert other.is_independent_of(one) is is_independent


def test_pairs__are_each_replay_with_everything_and_each_other_kind_and_the_others_with_each_other():
    found = list(pairs())
    assert len(found) == len(set(found)) == 53
    assert {kind for kind, first, _ in found if first == "replay"} == {
        "owned",
        "mirror",
        "event_only",
        "projection",
        "projection_mirror",
    }
    assert ("work", "claim", "rotation") in found
    assert ("owned", "replay", "replay of projection_mirror") in found


def run_battery(folder: Path, database_url: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Run the shortest form on this worker's database; return its code, what it said and what it stored."""
    started = start_python(
        ["-m", "batteries", "r8", "--form", "shortest", "--database-url", database_url, *arguments],
        database_url,
        LOCKHOUSE_BATTERY_RESULTS=str(folder),
    )
    code = started.wait(900)
    stored = folder / "r8.jsonl"
    assert stored.exists(), started.output
    line: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
    return code, started.output, line


@pytest.mark.timeout(1000)
@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("A-24", "A-25", "A-26")
def test_interleavings__break_nothing(tmp_path: Path, database_url: str):
    code, output, line = run_battery(tmp_path, database_url)
    assert code == 0, output
    figures = line["figures"]
    assert figures["schedules"] + figures["sampled"] >= 20
    assert (figures["breaks"], figures["deadlocks"]) == (0, {})
    assert figures["waits_seen_by_the_database"] > 0


@pytest.mark.timeout(1000)
@pytest.mark.django_db(transaction=True)
def test_interleavings__break_without_the_packs_lock(tmp_path: Path, database_url: str):
    code, output, line = run_battery(tmp_path, database_url, "--mutant")
    assert code == BROKEN, output
    assert "BROKEN  every invariant holds after every schedule" in output
    # The sweep's COMMIT has a place before and after everything that looks at the route or the pack.
    assert line["figures"]["breaks"] > 0
    assert line["figures"]["schedules"] >= 8
