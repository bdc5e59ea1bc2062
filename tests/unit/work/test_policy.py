from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.work.policy import RetryPolicy, as_microseconds, decide_delay, take_turns

policies = st.builds(
    lambda base, factor, more, jitter: RetryPolicy(
        base_seconds=base, factor=factor, cap_seconds=base + more, jitter=jitter
    ),
    st.floats(0.001, 1_000),
    st.floats(1, 10),
    st.floats(0, 100_000),
    st.floats(0, 1),
)
chances = st.floats(0, 1, exclude_max=True)


@given(policies, st.integers(1, 10_000), chances)
def test_decide_delay__stays_between_zero_and_the_cap(policy, attempt, chance):
    assert 0 <= decide_delay(policy, attempt, chance=chance) <= policy.cap_seconds


@given(policies, st.integers(1, 200), chances)
def test_decide_delay__never_shrinks_as_failures_add_up(policy, attempt, chance):
    assert decide_delay(policy, attempt, chance=chance) <= decide_delay(policy, attempt + 1, chance=chance) + 1e-9


@given(policies, st.integers(1, 30), chances)
def test_decide_delay__strays_from_the_power_by_no_more_than_the_jitter(policy, attempt, chance):
    exact = min(policy.base_seconds * policy.factor ** (attempt - 1), policy.cap_seconds)
    wait = decide_delay(policy, attempt, chance=chance)
    assert exact * (1 - policy.jitter) <= wait + 1e-9
    assert wait <= exact * (1 + policy.jitter) + 1e-9


def test_decide_delay__doubles():
    policy = RetryPolicy(base_seconds=1, factor=2, cap_seconds=10, jitter=0)
    assert [decide_delay(policy, attempt, chance=0.3) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(
    "values",
    [
        {"base_seconds": 0},
        {"factor": 0.9},
        {"base_seconds": 10, "cap_seconds": 5},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"base_seconds": float("nan")},
    ],
)
def test_retry_policy__refuses_waits_that_make_no_sense(values):
    with pytest.raises(ValueError, match="retry policy"):
        RetryPolicy(**values)


def test_as_microseconds__is_whole_and_never_negative():
    assert [as_microseconds(value) for value in (1.5, 0.0000004, -3)] == [1_500_000, 0, 0]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers())))
def test_take_turns__keeps_every_item_and_each_groups_order(items):
    ordered = take_turns(items, lambda item: item[0])
    assert Counter(ordered) == Counter(items)
    for group in "abc":
        assert [item for item in ordered if item[0] == group] == [item for item in items if item[0] == group]


@given(st.integers(1, 50), st.integers(1, 50))
def test_take_turns__a_backlog_delays_another_group_by_one_turn(many, few):
    items = [("a", number) for number in range(many)] + [("b", number) for number in range(few)]
    ordered = take_turns(items, lambda item: item[0])
    assert ordered.index(("b", 0)) <= 1
