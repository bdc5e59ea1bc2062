"""The machine's short run on each database, and what it says when a guard is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from integration.projection import admission, handoff
from integration.work.candidates import CandidateQueue
from tests.model import faults, runs, world
from tests.model.moves import LEGAL

STEPS = 2000
#: Where a run ends that has not met every transition yet.
MOST_STEPS = 20_000
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def other_thread() -> Iterator[None]:
    yield
    world.close_elsewhere()


@pytest.mark.evidence("P-01", "P-02", "P-03", "P-04", "P-09", "P-24", "K-01", "K-02", "K-09")
def test_kernel__does_what_the_model_says():
    tally = runs.run(STEPS, most=MOST_STEPS)
    assert tally.steps >= STEPS
    assert tally.missing() == []
    assert set(tally.made) - {("request_cancel", "processing")} == LEGAL
    assert tally.untried() == []


@contextmanager
def extension_without_its_guards() -> Iterator[dict[str, int]]:
    """Extend whatever is the newest generation, claimed or not."""
    with (
        mock.patch.object(admission, "_is_untouched", return_value=True),
        mock.patch.object(admission, "_is_free", return_value=True),
        faults.rewritten(
            (r"SET EventId = %\(event_id\)s, LaneOrdinal", r"AND (State|Attempt|LeaseToken) (= '?\w+'?|IS NULL)", ""),
            (r"SET Status = 'skipped'", r"AND (ExecutionOwner = 'event'|Status IN \([^)]*\))", ""),
        ) as made,
    ):
        yield made


@contextmanager
def handoff_left_out() -> Iterator[dict[str, int]]:
    """End a generation and leave its successor without the key."""
    with mock.patch.object(handoff, "hand_over", return_value=None) as called:
        made: dict[str, int] = {}
        yield made
        made["called"] = called.call_count


@contextmanager
def lane_heads_unasked() -> Iterator[dict[str, int]]:
    """Claim whatever is due, wherever it stands in its lane."""
    with mock.patch.object(CandidateQueue, "_behind_another", return_value=set()) as called:
        made: dict[str, int] = {}
        yield made
        made["called"] = called.call_count


def _rewritten(*changes: tuple[str, str, str]) -> Any:
    return lambda: faults.rewritten(*changes)


#: How many short runs a mutant may survive.
_RUNS = 8
#: What is taken away -> how, and the words of what must break.
MUTANTS: dict[str, Any] = {
    "extension guard": extension_without_its_guards,
    "handoff": handoff_left_out,
    "completion token": _rewritten((r"SET State = 'succeeded'", r"AND LeaseToken = %\(lease_token\)s", "")),
    "lane heads": lane_heads_unasked,
    "target lane": _rewritten(
        (
            r"SET\s+(e\.ExecutionOwner|State = 'processing')",
            r"(w\.)?TargetLaneActiveKey = SHA2\([\s\S]*?256\),",
            r"\1TargetLaneActiveKey = SHA2(\1WorkId, 256),",
        )
    ),
    "lease end": _rewritten(
        (
            r"LeaseUntil < UTC_TIMESTAMP",
            r"AND LeaseUntil < UTC_TIMESTAMP\(6\) - INTERVAL %\(slack_seconds\)s SECOND",
            "",
        )
    ),
    "cancellation before retry": _rewritten(
        (r"SET State = 'retry',\s+RunAfter = UTC_TIMESTAMP\(6\) \+", r"AND CancelRequestedAt IS NULL", "")
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant__is_found_within_the_short_run(name: str):
    mutant: AbstractContextManager[dict[str, int]] = MUTANTS[name]()
    with mutant as made:
        assert _is_found()
    assert sum(made.values()) > 0


def _is_found() -> bool:
    """Run anew, by other choices, until what is broken is met: one short run misses a rare mutant now and then."""
    for _ in range(_RUNS):
        try:
            runs.run(STEPS, is_shrunk=False)
        except AssertionError:
            return True
    return False
