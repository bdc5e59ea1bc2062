"""What the Event executor decides on the rows that it read."""

from __future__ import annotations

from typing import Any

import pytest

from integration.legacy.policy import (
    End,
    HeldBack,
    convergence_of,
    decide_end,
    decide_hold,
    is_left_behind,
)
from integration.states import EventStatus, FailureClass, WorkItemState
from integration.work.finish import SUMMARIES, Ended


def mirror(state: WorkItemState = WorkItemState.PENDING, **over: Any) -> dict[str, Any]:
    return {
        "State": state.value,
        "Attempt": 0,
        "LeaseToken": None,
        "ProjectionKey": None,
        "ProjectionActiveKey": None,
        **over,
    }


@pytest.mark.parametrize(
    ("mirrors", "expected"),
    [
        ([], None),
        ([mirror()], None),
        ([mirror(ProjectionKey="k", ProjectionActiveKey="k")], None),
        ([mirror(ProjectionKey="k")], HeldBack.QUEUED),
        ([mirror(), mirror()], HeldBack.AMBIGUOUS),
        ([mirror(Attempt=1)], HeldBack.MIRROR),
        ([mirror(LeaseToken="t")], HeldBack.MIRROR),
        ([mirror(WorkItemState.BLOCKED)], HeldBack.BLOCKED),
        *[
            ([mirror(state)], HeldBack.MIRROR)
            for state in WorkItemState
            if state not in {WorkItemState.PENDING, WorkItemState.BLOCKED}
        ],
    ],
)
def test_decide_hold__lets_only_a_waiting_mirror_or_none_be_executed(mirrors, expected):
    assert decide_hold(mirrors) is expected


@pytest.mark.parametrize(
    ("ended", "failure", "attempt", "status", "kept"),
    [
        (Ended.COMPLETE, None, 1, EventStatus.PROCESSED, None),
        (Ended.SKIP, None, 1, EventStatus.SKIPPED, None),
        (Ended.BURY, FailureClass.FLOW_REJECTED, 1, EventStatus.DEAD, FailureClass.FLOW_REJECTED),
        (Ended.BURY, None, 1, EventStatus.DEAD, FailureClass.FLOW_ERROR),
        (Ended.RETRY, FailureClass.FLOW_RETRY, 2, EventStatus.FAILED, FailureClass.FLOW_RETRY),
        (Ended.RETRY, None, 3, EventStatus.DEAD, FailureClass.FLOW_ERROR),
        (Ended.ACKNOWLEDGE_CANCEL, None, 1, EventStatus.FAILED, FailureClass.FLOW_ERROR),
    ],
)
def test_decide_end__gives_an_event_the_verdicts_end(ended, failure, attempt, status, kept):
    end = decide_end(ended, failure, attempt=attempt, max_attempts=3)
    assert end == End(status=status, failure=kept)
    assert end.last_error == (None if kept is None else SUMMARIES[kept])


@pytest.mark.parametrize("status", [EventStatus.PROCESSED, EventStatus.SKIPPED, EventStatus.DEAD])
def test_convergence_of__writes_an_outcome_only_where_it_can_be_held(status):
    assert "Outcome" in convergence_of(status, has_outcome=True).text
    assert "Outcome" not in convergence_of(status, has_outcome=False).text


@pytest.mark.parametrize("state", list(WorkItemState))
def test_is_left_behind__is_what_was_never_claimed_and_has_not_ended(state):
    waits = {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED}
    assert is_left_behind(mirror(state)) is (state in waits)
    assert is_left_behind(mirror(state, Attempt=1)) is False
    assert is_left_behind(mirror(state, LeaseToken="t")) is False
