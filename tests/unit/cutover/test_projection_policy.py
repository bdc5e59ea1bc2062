"""What a projection cutover decides, held against a plain reading of the same facts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration import errors
from integration.cutover.projection.history import SHOWN, FoundRow, Rows, Tally, findings_of
from integration.cutover.projection.patience import Patience, Stopped, TimeIsUp, parse_timeout
from integration.cutover.projection.policy import (
    Conditions,
    FenceFacts,
    Input,
    Owners,
    Reason,
    decide_conditions,
    decide_unchanged,
)
from integration.states import EventStatus, ExecutionOwner, PackStatus

SOON = datetime(2030, 1, 1, tzinfo=UTC)


def fence(**over: Any) -> FenceFacts:
    return FenceFacts(**{"fence_id": "f", "scope": "*", "expires_at": None, "is_overridden": False, **over})


def conditions(**over: Any) -> Conditions:
    values = {
        "status": PackStatus.ACTIVE,
        "direction": "forward",
        "fences": (fence(),),
        "next_ordinal": 8,
        "highest_ordinal": 7,
        **over,
    }
    return Conditions(**values)


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize(
    ("over", "reasons"),
    [
        ({}, []),
        ({"highest_ordinal": 0, "next_ordinal": 1}, []),
        ({"status": PackStatus.RETIRED}, [Reason.PACK_NOT_ACTIVE]),
        ({"status": PackStatus.INSTALLED}, [Reason.PACK_NOT_ACTIVE]),
        ({"direction": None}, [Reason.HANDOFF_MISSING]),
        ({"direction": "rollback"}, [Reason.HANDOFF_MISSING]),
        ({"fences": ()}, [Reason.FENCE_MISSING]),
        ({"fences": (fence(scope="deal.changed"),)}, [Reason.FENCE_MISSING]),
        ({"fences": (fence(expires_at=SOON),)}, [Reason.FENCE_EXPIRES]),
        ({"fences": (fence(is_overridden=True),)}, [Reason.FENCE_OVERRIDDEN]),
        ({"fences": (fence(expires_at=SOON), fence(is_overridden=True))}, [Reason.FENCE_OVERRIDDEN]),
        ({"fences": (fence(expires_at=SOON, is_overridden=True),)}, [Reason.FENCE_EXPIRES]),
        # Another one that holds stops what the first lets through.
        ({"fences": (fence(is_overridden=True), fence(fence_id="g"))}, []),
        ({"highest_ordinal": 8}, [Reason.ORDINALS_BEHIND]),
        ({"direction": None, "fences": ()}, [Reason.HANDOFF_MISSING, Reason.FENCE_MISSING]),
    ],
)
def test_conditions__refuse_by_each_reason(over: dict[str, Any], reasons: list[Reason]):
    assert list(decide_conditions(conditions(**over))) == reasons


def test_cutoff__is_the_last_ordinal_that_was_given():
    assert (conditions().cutoff, conditions(next_ordinal=1).cutoff) == (7, 0)


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({}, None),
        ({"fences": (fence(), fence(fence_id="g"))}, None),
        ({"fences": (fence(fence_id="g"),)}, Reason.HISTORY_CHANGED),
        ({"next_ordinal": 9, "highest_ordinal": 8}, Reason.HISTORY_CHANGED),
        ({"next_ordinal": 7}, Reason.HISTORY_CHANGED),
    ],
)
def test_audit__counts_only_while_fence_and_counter_are_the_same(over: dict[str, Any], reason: Reason | None):
    assert decide_unchanged(conditions(), conditions(**over)) == reason


def test_reasons__all_say_what_to_do():
    assert all(reason.sentence.endswith(".") and len(reason.next_step) > 20 for reason in Reason)


# The history, against a plain reading


@dataclass(frozen=True)
class Task:
    """A WorkItem of a projection: where it stands, whether it has ended, whether its Event is retained there."""

    ordinal: int
    has_ended: bool
    is_retained: bool = True


@dataclass(frozen=True)
class Lane:
    """One lane's projections, by number: their inputs, and their WorkItems."""

    inputs: tuple[tuple[int, Input], ...]
    tasks: dict[int, tuple[Task, ...]]


@st.composite
def lanes(draw: st.DrawFn) -> Lane:
    ordinals = sorted(draw(st.lists(st.integers(-6, 14), max_size=9, unique=True)))
    inputs = []
    for place, ordinal in enumerate(ordinals):
        found = Input(
            event_id=f"e{place}",
            event_kind="k",
            # Of those without an ordinal there may be many.
            ordinal=max(ordinal, 0),
            owner=draw(st.sampled_from(ExecutionOwner)),
            status=draw(st.sampled_from(EventStatus)),
            task_count=draw(st.sampled_from([0, 0, 0, 1, 1, 2])),
        )
        inputs.append((draw(st.integers(0, 1)), found))
    tasks = st.builds(Task, ordinal=st.integers(0, 14), has_ended=st.booleans(), is_retained=st.booleans())
    return Lane(
        inputs=tuple(inputs),
        tasks={number: tuple(draw(st.lists(tasks, max_size=3))) for number in (0, 1)},
    )


def plain_reading(lane: Lane) -> dict[Reason, set[str]]:
    """Read the contract's sentences literally, projection by projection, over all of its rows at once."""
    found: dict[Reason, set[str]] = defaultdict(set)
    for number in (0, 1):
        inputs = [one for projection, one in lane.inputs if projection == number]
        tasks = lane.tasks[number]
        ordinals = [one.ordinal for one in inputs] + [task.ordinal for task in tasks]
        is_mixed = 0 in ordinals and max(ordinals) > 0
        completed = [task.ordinal for task in tasks if task.has_ended and task.is_retained]
        for one in inputs:
            if one.task_count == 2:
                found[Reason.AMBIGUOUS_OWNER].add(one.event_id)
            elif one.owner == "event" and one.status == "processing":
                found[Reason.UNENDED_WORK].add(one.event_id)
            elif one.task_count == 1:
                continue
            elif one.owner == "work_item" or not completed:
                found[Reason.MISSING_OWNER].add(one.event_id)
            elif is_mixed:
                found[Reason.MIXED_HISTORY].add(one.event_id)
            elif all(ordinal < one.ordinal for ordinal in completed):
                found[Reason.BEYOND_BOUNDARY].add(one.event_id)
    return dict(found)


def owners_of(tasks: tuple[Task, ...]) -> Owners:
    """Return what the audit's statement returns of a projection's WorkItems."""
    completed = [task.ordinal for task in tasks if task.has_ended and task.is_retained]
    return Owners(
        boundary=max(completed, default=None),
        has_zero=any(task.ordinal == 0 for task in tasks),
        has_positive=any(task.ordinal > 0 for task in tasks),
    )


@pytest.mark.evidence("P-14", "P-15")
@hypothesis_settings(max_examples=400)
@given(st.lists(lanes(), min_size=1, max_size=3))
def test_history__is_judged_as_a_plain_reading_judges_it(found: list[Lane]):
    tally = Tally()
    expected: dict[Reason, set[str]] = defaultdict(set)
    for place, lane in enumerate(found):
        for number, one in lane.inputs:
            named = replace(one, event_id=f"{place}-{one.event_id}")
            tally.add((number, "connector_event", "lane"), named, owners_of(lane.tasks[number]))
        tally.end_lane()
        for reason, ids in plain_reading(lane).items():
            expected[reason] |= {f"{place}-{event_id}" for event_id in ids}
    assert {reason: rows.count for reason, rows in tally.found.items()} == {
        reason: len(ids) for reason, ids in expected.items()
    }
    for reason, rows in tally.found.items():
        shown = [row.id for row in rows.first]
        assert len(shown) == len(set(shown)) == min(rows.count, SHOWN)
        assert set(shown) <= expected[reason]
    assert tally.inputs == sum(len(lane.inputs) for lane in found)


INDIRECT = Input(
    event_id="e",
    event_kind="k",
    ordinal=3,
    owner=ExecutionOwner.EVENT,
    status=EventStatus.PENDING,
    task_count=0,
)


@pytest.mark.evidence("P-15")
@pytest.mark.parametrize("status", set(EventStatus) - {EventStatus.PROCESSING})
def test_status__of_an_event_proves_nothing(status: EventStatus):
    """Neither does a pending one that is covered refuse, nor does an ended one that is not pass."""
    for boundary, refused in ((3, 0), (2, 1), (None, 1)):
        tally = Tally()
        tally.add((1, "t", "l"), replace(INDIRECT, status=status), Owners(boundary=boundary, has_positive=True))
        tally.end_lane()
        assert sum(rows.count for rows in tally.found.values()) == refused


def test_tally__keeps_a_few_rows_of_each_reason_and_counts_all():
    tally = Tally()
    for number in range(3 * SHOWN):
        tally.add((1, "t", "l"), replace(INDIRECT, event_id=str(number), ordinal=number + 1), None)
    tally.end_lane()
    (finding,) = findings_of([], tally.found)
    assert (finding.reason, finding.count) == (Reason.MISSING_OWNER, 3 * SHOWN)
    assert [row.id for row in finding.rows] == [str(number) for number in range(SHOWN)]


def test_findings__come_in_the_order_in_which_they_are_asked():
    rows = Rows()
    rows.add(FoundRow(kind="event", id="e", event_kind="k", ordinal=1, state="pending"))
    found = findings_of(
        [Reason.FENCE_MISSING, Reason.HANDOFF_MISSING], {Reason.BEYOND_BOUNDARY: rows, Reason.UNENDED_WORK: rows}
    )
    assert [finding.reason for finding in found] == [
        Reason.HANDOFF_MISSING,
        Reason.FENCE_MISSING,
        Reason.UNENDED_WORK,
        Reason.BEYOND_BOUNDARY,
    ]


# Time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("1m30s", 90), ("2h", 7200), ("1.5m", 90), ("24h", 86400)],
)
def test_timeout__is_read_as_it_is_written(text: str, seconds: float):
    assert parse_timeout(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "0s", "0", "30", "-5s", "s", "5 s", "5s5", "1d", "25h", "1e3s", "٣s", "9" * 400 + "s", "\udcff"]
)
def test_timeout__of_anything_else_is_refused_with_what_to_write(text: str):
    with pytest.raises(errors.InvalidInput) as refused:
        parse_timeout(text)
    assert refused.value.data_fields == {"field": "timeout"}
    assert "timeout must be" in refused.value.operator_message()


def test_patience__ends_with_the_time_or_the_request():
    now = [100.0]
    patience = Patience(timeout=timedelta(seconds=2), clock=lambda: now[0])
    patience.check()
    now[0] = 101.9
    patience.check()
    now[0] = 102.0
    with pytest.raises(TimeIsUp):
        patience.check()
    patience.stop()
    with pytest.raises(Stopped):
        patience.check()
