"""What a process remembers of the claims that it holds."""

from __future__ import annotations

from types import SimpleNamespace

from integration.work.inflight import InFlight


def test_cancellation__is_remembered_until_the_claim_ends():
    now = [0.0]
    live = InFlight(2, clock=lambda: now[0])
    first, second = (SimpleNamespace(work_id=name) for name in ("a", "b"))
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
