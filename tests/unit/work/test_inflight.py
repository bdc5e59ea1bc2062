"""What a process remembers of the claims that it holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from integration.work.inflight import InFlight


def claim(work_id: str, token: str = "1") -> Any:
    return SimpleNamespace(work_id=work_id, lease_token=token)


def test_cancellation__is_remembered_until_the_claim_ends():
    now = [0.0]
    live = InFlight(2, clock=lambda: now[0])
    first, second = claim("a"), claim("b")
    live.add([first])
    now[0] = 1.0
    live.add([second])
    live.renewed(first, 1.0)
    assert live.held_for(1.0) == ["a"], "a renewal does not make it young"

    live.note_cancelled(["a", "gone"])
    live.note_cancelled([])

    assert (live.is_cancelled(first), live.is_cancelled(second)) == (True, False)
    live.remove([first])
    live.note_cancelled([])
    assert live.is_cancelled(first) is False
    assert live.held_for(0.0) == ["b"]


def test_claim__made_anew_while_the_earlier_flow_still_runs_is_not_ended_with_it():
    now = [0.0]
    live = InFlight(2, clock=lambda: now[0])
    lost, anew = claim("a", "1"), claim("a", "2")
    live.add([lost])
    now[0] = 70.0
    live.add([anew])

    live.renewed(lost, 70.0)
    live.remove([lost])

    now[0] = 100.0
    assert live.due_for_renewal(20.0) == [anew], "or its lease would run out under its flow"
    live.remove([anew, anew])
    assert (len(live), live.due_for_renewal(0.0), live.held_for(0.0)) == (0, [], [])


def test_claim__whose_lease_ran_out_while_it_waited_is_not_in_time():
    now = [0.0]
    live = InFlight(1, clock=lambda: now[0])
    waits = claim("a")
    live.add([waits])
    now[0] = 59.9
    assert live.is_in_time(waits, 60)
    now[0] = 60.0
    assert not live.is_in_time(waits, 60)
    live.renewed(waits, 60.0)
    assert live.is_in_time(waits, 60)
    live.remove([waits])
    assert not live.is_in_time(waits, 60)
