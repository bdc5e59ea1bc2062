"""States as they are stored, and the table of moves between them."""

from __future__ import annotations

import pytest

from integration.errors import UnknownState
from integration.states import NONTERMINAL_STATES, TERMINAL_STATES, TRANSITIONS, WorkItemState, stored


def test_stored__returns_the_member():
    assert stored(WorkItemState, "dead") is WorkItemState.DEAD


def test_stored__refuses_what_another_build_wrote_by_name():
    with pytest.raises(UnknownState, match="a WorkItemState that this build does not know") as caught:
        stored(WorkItemState, "paused")
    assert caught.value.data_fields == {"kind": "WorkItemState", "value": "paused"}


def test_transitions__leave_no_terminal_state():
    assert [move for move in TRANSITIONS if move.source in TERMINAL_STATES] == []


def test_transitions__reach_every_state_but_the_first():
    assert {move.target for move in TRANSITIONS} | {WorkItemState.PENDING} == TERMINAL_STATES | NONTERMINAL_STATES


def test_transitions__name_each_move_once():
    pairs = [(move.name, move.source) for move in TRANSITIONS]
    assert len(pairs) == len(set(pairs))
