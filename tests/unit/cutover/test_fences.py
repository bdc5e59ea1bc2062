"""The terms of fences: scopes, times, and when a request is the same again; and what a fence stops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration import errors
from integration.cutover.fences import policy
from integration.cutover.fences.values import Fence, FenceState, Override, OverrideState
from integration.cutover.rights import CUTOVER_PERMISSION, demand_cutover
from integration.ingress.policy import EVENT_KIND, ArmedFence, find_fence, is_closed
from integration.values import Actor

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("scope", ["*", "deal.created", "a", "Deal-1_x.y", "x" * 128])
def test_scope__is_everything_or_one_event_kind(scope: str):
    assert policy.check_scope(scope) == scope


@pytest.mark.parametrize("scope", ["", "**", "deal.*", " deal", "deal\n", ".deal", "x" * 129, "\uff21", "a b"])
def test_scope__that_is_no_event_kind_is_refused_without_being_repeated(scope: str):
    with pytest.raises(errors.InvalidInput) as caught:
        policy.check_scope(scope)
    assert caught.value.data_fields == {"field": "scope", "found": f"{len(scope)} characters"}


@given(st.text(max_size=40))
def test_scope__is_what_the_materializer_calls_an_event_kind(text: str):
    if EVENT_KIND.fullmatch(text):
        assert policy.check_scope(text) == text
    elif text != "*":
        with pytest.raises(errors.InvalidInput):
            policy.check_scope(text)


@pytest.mark.parametrize(
    ("fence", "scope"), [("*", "*"), ("*", "deal.created"), ("deal.created", "*"), ("deal.created", "deal.created")]
)
def test_override__is_of_what_the_fence_stops(fence: str, scope: str):
    assert policy.check_override_scope(fence, scope) == scope


@pytest.mark.parametrize(("fence", "scope"), [("deal.created", "deal.updated"), ("*", ""), ("deal.created", "deal.*")])
def test_override__of_anything_else_is_refused(fence: str, scope: str):
    with pytest.raises(errors.InvalidInput) as caught:
        policy.check_override_scope(fence, scope)
    assert caught.value.data_fields["field"] == "scope"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("2 h", 7200), (" 1d ", 86400), ("0", 0)]
)
def test_duration__is_a_number_and_its_unit(text: str, seconds: int):
    assert policy.parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "m", "-5m", "1.5h", "5w", "1h30m", "\u0661", "99999999", "5 m m"])
def test_duration__that_cannot_be_read_is_refused(text: str):
    with pytest.raises(errors.InvalidInput) as caught:
        policy.parse_duration(text)
    assert caught.value.data_fields["field"] == "expires_in"


@pytest.mark.parametrize("seconds", [None, 1, 3600, 30 * 86400])
def test_duration__may_be_a_second_to_thirty_days_or_none(seconds: int | None):
    wanted = None if seconds is None else timedelta(seconds=seconds)
    assert policy.check_duration(wanted) == wanted


@pytest.mark.parametrize("seconds", [-1, 0, 0.5, 1.5, 30 * 86400 + 1])
def test_duration__outside_of_that_is_refused(seconds: float):
    with pytest.raises(errors.InvalidInput) as caught:
        policy.check_duration(timedelta(seconds=seconds))
    assert caught.value.data_fields == {"field": "expires_in", "found": f"{seconds:g} seconds"}


def armed(fence_id: str, scope: str, seconds: int | None = None) -> dict[str, object]:
    return {
        "FenceId": fence_id,
        "Scope": scope,
        "ArmedAt": NOW,
        "ExpiresAt": None if seconds is None else NOW + timedelta(seconds=seconds),
    }


@pytest.mark.parametrize(
    ("scope", "seconds", "found"),
    [("*", None, "a"), ("*", 60, "b"), ("*", 61, None), ("deal.created", None, None), ("deal.created", 60, "c")],
)
def test_request__is_the_same_by_its_scope_and_its_time(scope: str, seconds: int | None, found: str | None):
    rows = [armed("a", "*"), armed("b", "*", 60), armed("c", "deal.created", 60)]
    wanted = None if seconds is None else timedelta(seconds=seconds)
    assert policy.find_same_fence(rows, set(), scope, wanted, NOW) == found


@pytest.mark.parametrize(("minutes", "found"), [(0, "b"), (6, "b"), (7, None)])
def test_request__is_not_the_same_once_a_tenth_of_the_time_is_over(minutes: int, found: str | None):
    rows, now = [armed("a", "*"), armed("b", "*", 3600)], NOW + timedelta(minutes=minutes)
    assert policy.find_same_fence(rows, set(), "*", timedelta(hours=1), now) == found
    assert policy.find_same_fence(rows, set(), "*", None, now) == "a"


def test_request__is_not_the_same_as_a_fence_that_lets_something_through():
    rows = [armed("a", "*"), armed("b", "*")]
    assert policy.find_same_fence(rows, {"a"}, "*", None, NOW) == "b"
    assert policy.find_same_fence(rows, {"a", "b"}, "*", None, NOW) is None


def override(override_id: str, scope: str, state: OverrideState, seconds: int | None = None) -> Override:
    return Override(
        override_id=override_id,
        fence_id="f",
        scope=scope,
        state=state,
        expires_at=None if seconds is None else NOW + timedelta(seconds=seconds),
        granted_at=NOW,
        granted_by="ana",
        reason="x",
        lifted_at=None,
        lifted_by=None,
    )


def test_override__is_the_same_while_it_is_in_force():
    lifted, live = override("a", "k", OverrideState.LIFTED), override("b", "k", OverrideState.LIVE)
    hour = override("c", "k", OverrideState.LIVE, 3600)
    assert policy.find_same_override([lifted, live, hour], "k", None) is live
    assert policy.find_same_override([lifted, live, hour], "k", timedelta(hours=1)) is hour
    assert policy.find_same_override([lifted], "k", None) is None
    assert policy.find_same_override([live], "*", None) is None


@pytest.mark.parametrize(
    ("fences", "closed"),
    [
        ([], False),
        ([ArmedFence(fence_id="f", scope="*")], True),
        ([ArmedFence(fence_id="f", scope="k")], False),
        ([ArmedFence(fence_id="f", scope="*", overrides=frozenset({"k"}))], False),
        ([ArmedFence(fence_id="f", scope="*", overrides=frozenset({"k"})), ArmedFence(fence_id="g", scope="*")], True),
    ],
)
def test_closed__means_that_no_kind_whatever_passes(fences: list[ArmedFence], closed: bool):
    assert is_closed(fences) == closed
    if closed:
        assert find_fence(fences, "k") is not None


@pytest.mark.parametrize(
    ("state", "expires", "lifted", "ended"),
    [
        (FenceState.ARMED, None, None, None),
        (FenceState.ARMED, NOW, None, None),
        (FenceState.EXPIRED, NOW, None, NOW),
        (FenceState.LIFTED, NOW + timedelta(hours=1), NOW, NOW),
    ],
)
def test_fence__says_since_when_it_is_over(
    state: FenceState, expires: datetime | None, lifted: datetime | None, ended: datetime | None
):
    fence = Fence(
        fence_id="f",
        namespace="n",
        scope="*",
        state=state,
        expires_at=expires,
        armed_at=NOW,
        armed_by="ana",
        reason="x",
        lifted_at=lifted,
        lifted_by=None,
    )
    assert fence.ended_at == ended


def test_rights__are_one_permission():
    demand_cutover(Actor(user_id=1, name="ana", permissions=frozenset({CUTOVER_PERMISSION})))
    with pytest.raises(errors.NotAllowed):
        demand_cutover(Actor(user_id=1, name="ana", permissions=frozenset({"integration.view_connector_event"})))
