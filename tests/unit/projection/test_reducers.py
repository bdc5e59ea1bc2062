"""Reducers are pure: the same inputs in the same order give the same payload, whatever their clocks say."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.errors import InvariantBroken
from integration.projection import reducers
from integration.projection.inputs import Input
from integration.projection.reducers import ReducerUnknown, get_reducer, reduce_last, reduce_merge, reducer
from integration.states import ReduceBy

START = datetime(2026, 1, 1, tzinfo=UTC)
BUILT_IN = [reduce_last, reduce_merge]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
payloads = st.lists(st.dictionaries(st.sampled_from("abcd"), values, max_size=4), min_size=1, max_size=6)


def as_inputs(found: list[dict[str, Any]], *, backwards: bool = False) -> list[Input]:
    """Return inputs in ordinal order; their own clock may run the other way."""
    step = -1 if backwards else 1
    return [
        Input(payload=payload, ordinal=place, occurred_at=START + timedelta(hours=place * step), event_id=f"e{place}")
        for place, payload in enumerate(found, 1)
    ]


def test_last__is_the_last_by_ordinal():
    assert reduce_last(as_inputs([{"n": 1}, {"n": 2}, {"n": 3}], backwards=True)) == {"n": 3}


def test_merge__keeps_what_each_field_was_given_last():
    found = reduce_merge(
        as_inputs(
            [
                {"contact": {"id": 7, "email": "a@example.test", "tags": ["x"]}, "event": "contact.changed"},
                {"contact": {"id": 7, "phone": "1"}},
                {"contact": {"id": 7, "email": None, "tags": ["y"]}},
            ]
        )
    )
    assert found == {
        "contact": {"id": 7, "email": None, "phone": "1", "tags": ["y"]},
        "event": "contact.changed",
    }


def test_merge__of_an_object_and_a_plain_value_is_the_later_one():
    assert reduce_merge(as_inputs([{"a": {"b": 1}}, {"a": 2}])) == {"a": 2}
    assert reduce_merge(as_inputs([{"a": 2}, {"a": {"b": 1}}])) == {"a": {"b": 1}}


def test_merge__of_a_body_nested_a_thousand_deep_is_merged():
    def nested(leaf: str) -> dict[str, Any]:
        body: dict[str, Any] = {leaf: 1}
        for _ in range(5000):
            body = {"in": body}
        return body

    merged: Any = reduce_merge(as_inputs([nested("x"), nested("y")]))
    for _ in range(5000):
        merged = merged["in"]
    assert merged == {"x": 1, "y": 1}


@pytest.mark.parametrize("reduce", BUILT_IN)
def test_reducer__of_no_input_is_an_error(reduce):
    with pytest.raises(ValueError, match="at least one input"):
        reduce([])


@pytest.mark.parametrize("reduce", BUILT_IN)
@given(found=payloads)
def test_reducer__depends_on_the_order_of_ordinals_alone_and_changes_no_input(reduce, found):
    before = copy.deepcopy(found)
    one = reduce(as_inputs(found))
    again = reduce(as_inputs(found, backwards=True))
    assert json.dumps(one, sort_keys=True) == json.dumps(again, sort_keys=True)
    assert found == before


@given(found=payloads)
def test_merge__in_two_steps_is_the_merge_in_one(found):
    whole = reduce_merge(as_inputs(found))
    first = reduce_merge(as_inputs(found[:1]))
    assert reduce_merge(as_inputs([dict(first), *found[1:]])) == whole
    assert set(whole) == {name for payload in found for name in payload}


def test_get_reducer__returns_what_the_route_declares(monkeypatch):
    monkeypatch.setattr(reducers, "_registry", {})

    @reducer("tests.count", version=2)
    def count(inputs: Iterator[Input]) -> dict[str, int]:
        return {"count": sum(1 for _ in inputs)}

    assert get_reducer(ReduceBy.LAST) is reduce_last
    assert get_reducer(ReduceBy.MERGE) is reduce_merge
    assert get_reducer(ReduceBy.CUSTOM, name="tests.count", version=2) is count
    with pytest.raises(ReducerUnknown):
        get_reducer(ReduceBy.CUSTOM, name="tests.count", version=1)
    with pytest.raises(InvariantBroken):

        @reducer("tests.count", version=2)
        def other(inputs: Iterator[Input]) -> dict[str, int]:
            return {}
