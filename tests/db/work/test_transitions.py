"""Every state against every statement of the kernel: what the machine permits is made, all else changes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from integration.states import TERMINAL_STATES, TRANSITIONS, WorkItemState
from integration.storage import db
from integration.storage.sql import work_items
from integration.storage.statements import Statement, all_statements
from tests.support.work import change, event_row, item_row

pytestmark = pytest.mark.django_db

TOKEN, EPOCH = "token-of-the-claim", 7
FAILURE = {"failure_class": "flow_error", "failure_summary": "The flow raised an error."}
OWN = {"lease_token": TOKEN, "epoch": EPOCH}
LEASE = {"process_id": "p" * 36, "lease_token": "new", "lease_seconds": 60}


@dataclass(frozen=True)
class Case:
    """A statement, the transition it makes, and everything but the state in its favour."""

    statement: Statement
    transition: str | None
    params: dict[str, Any]
    columns: str = "LeaseToken = 'token-of-the-claim', LeaseOwner = 'p', Attempt = 1"
    matched: int = 1
    #: A claim takes only one of the two sources of its transition.
    source: WorkItemState | None = None

    def allowed(self) -> dict[WorkItemState, WorkItemState]:
        if self.transition is None:
            return {WorkItemState.PROCESSING: WorkItemState.PROCESSING}
        return {
            move.source: move.target
            for move in TRANSITIONS
            if move.name == self.transition and self.source in {None, move.source}
        }


CASES = {
    "first_claim": Case(
        work_items.FIRST_CLAIM,
        "claim",
        {**LEASE, "epoch": EPOCH},
        columns="LeaseToken = NULL, LeaseUntil = NULL, Attempt = 0",
        matched=2,
        source=WorkItemState.PENDING,
    ),
    "later_claim": Case(
        work_items.LATER_CLAIM,
        "claim",
        {**LEASE, "epoch": EPOCH, "attempt": 1},
        columns="LeaseToken = NULL, LeaseUntil = NULL, Attempt = 1",
        source=WorkItemState.RETRY,
    ),
    "renew": Case(work_items.RENEW_LEASE, None, {**OWN, "lease_seconds": 60}),
    "complete": Case(work_items.COMPLETE_WORK_ITEM, "complete", OWN),
    "skip": Case(work_items.SKIP_WORK_ITEM, "skip", OWN),
    "retry": Case(work_items.RETRY_WORK_ITEM, "retry", {**OWN, **FAILURE, "delay_microseconds": 1_000}),
    "bury": Case(work_items.BURY_WORK_ITEM, "bury", {**OWN, **FAILURE}),
    "acknowledge_cancel": Case(
        work_items.ACKNOWLEDGE_CANCEL,
        "acknowledge_cancel",
        OWN,
        columns="LeaseToken = 'token-of-the-claim', Attempt = 1, CancelRequestedAt = UTC_TIMESTAMP(6)",
    ),
    "reap": Case(work_items.REAP_WORK_ITEM, "reap", {**OWN, "slack_seconds": 5, "failure_summary": "x"}),
    "reap_exhausted": Case(
        work_items.REAP_EXHAUSTED_WORK_ITEM,
        "reap_exhausted",
        {**OWN, "slack_seconds": 5, "failure_summary": "x"},
        columns="LeaseToken = 'token-of-the-claim', Attempt = 3",
    ),
}
KERNEL = {"claimant", "reaper"}


def test_cases__cover_every_transition_that_the_kernel_makes():
    assert {case.transition for case in CASES.values()} - {None} == {
        move.name for move in TRANSITIONS if move.made_by in KERNEL
    }
    claims = {case.source for case in CASES.values() if case.transition == "claim"}
    assert claims == {move.source for move in TRANSITIONS if move.name == "claim"}


def test_cases__are_all_statements_that_move_a_work_item():
    moving = {
        statement.name
        for _, _, statement in all_statements()
        if re.search(r"UPDATE _System_Connector(WorkItem|Event e)\b", statement.text)
        and re.search(r"\bSET\b.*?\bState = .*?\bWHERE\b", statement.text, re.DOTALL)
    }
    assert moving == {case.statement.name for case in CASES.values() if case.transition is not None}


@pytest.mark.evidence("K-09")
def test_transitions__none_leaves_a_terminal_state():
    assert [move for move in TRANSITIONS if move.source in TERMINAL_STATES] == []


@pytest.mark.evidence("K-09")
@pytest.mark.parametrize("state", list(WorkItemState))
@pytest.mark.parametrize("name", CASES)
def test_statement__makes_the_transitions_of_the_table_and_no_other(pack, name, state):
    case = CASES[name]
    (work_id,) = pack.admit()
    change(
        "UPDATE _System_ConnectorWorkItem SET State = %s, OwnershipEpoch = %s,"
        f" LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, {case.columns} WHERE WorkId = %s",
        state,
        EPOCH,
        work_id,
    )
    before = item_row(work_id)
    event_before = event_row(before["EventId"])

    ids = {"work_id": work_id, "work_ids": (work_id,), "event_ids": (before["EventId"],)}
    matched = db.execute_alone(case.statement, {**case.params, **ids})

    after = item_row(work_id)
    target = case.allowed().get(state)
    if target is None:
        assert (matched, after, event_row(before["EventId"])) == (0, before, event_before)
    else:
        assert (matched, after["State"]) == (case.matched, target)
        assert after["OwnershipEpoch"] == EPOCH + (1 if case.transition == "claim" else 0)
        assert (after["TerminalAt"] is not None) == (target in TERMINAL_STATES)
        assert (after["LeaseToken"] is not None) == (target is WorkItemState.PROCESSING)


@pytest.mark.parametrize("wrong", [{"lease_token": "another"}, {"epoch": EPOCH - 1}, {"epoch": EPOCH + 1}])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.params.get("lease_token") == TOKEN])
def test_statement__with_another_token_or_epoch_changes_nothing(pack, name, wrong):
    case = CASES[name]
    (work_id,) = pack.admit()
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'processing', OwnershipEpoch = %s,"
        f" LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, {case.columns} WHERE WorkId = %s",
        EPOCH,
        work_id,
    )
    before = item_row(work_id)

    assert db.execute_alone(case.statement, {**case.params, "work_id": work_id, **wrong}) == 0
    assert item_row(work_id) == before
    assert db.execute_alone(case.statement, {**case.params, "work_id": work_id}) == 1
