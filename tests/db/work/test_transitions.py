"""Every state against every statement of the kernel: what the machine permits is made, all else changes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from integration.states import TERMINAL_STATES, TRANSITIONS, Maker, WorkItemState
from integration.storage import db
from integration.storage.sql import (
    cancellations,
    dependencies,
    legacy_outcomes,
    replays,
    rollback_fences,
    work_items,
)
from integration.storage.statements import Statement, all_statements
from tests.support.work import change, event_row, item_row

pytestmark = pytest.mark.django_db

TOKEN, EPOCH = "token-of-the-claim", 7
FAILURE = {"failure_class": "flow_error", "failure_summary": "The flow raised an error."}
OWN = {"lease_token": TOKEN, "epoch": EPOCH}
FENCE = "f" * 36
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
    #: The states in which a statement that moves nothing may write.
    stays_in: tuple[WorkItemState, ...] = ()
    #: What the transition writes and the statement's vintage has no column for.
    lacks: frozenset[str] = frozenset()

    def allowed(self) -> dict[WorkItemState, WorkItemState]:
        if self.transition is None:
            return {state: state for state in self.stays_in}
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
    "renew": Case(work_items.RENEW_LEASE, None, {**OWN, "lease_seconds": 60}, stays_in=(WorkItemState.PROCESSING,)),
    "complete": Case(work_items.COMPLETE_WORK_ITEM, "complete", OWN),
    "complete_many": Case(work_items.COMPLETE_WORK_ITEMS, "complete", OWN),
    "skip": Case(work_items.SKIP_WORK_ITEM, "skip", OWN),
    "skip_many": Case(work_items.SKIP_WORK_ITEMS, "skip", OWN),
    "release": Case(work_items.RELEASE_WORK_ITEM, "release", {**OWN, **FAILURE}),
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
    "cancel": Case(
        cancellations.CANCEL_WORK_ITEM,
        "cancel",
        {"actor_name": "ana", "epoch": EPOCH},
        columns="LeaseToken = NULL, Attempt = 1, BlockedOn = 'account.created', BlockedSince = UTC_TIMESTAMP(6)",
    ),
    "request_cancel": Case(
        cancellations.REQUEST_CANCEL,
        None,
        {"actor_name": "ana", "epoch": EPOCH},
        stays_in=(WorkItemState.PROCESSING,),
    ),
    "block": Case(
        dependencies.BLOCK_WORK_ITEMS,
        "block",
        {"blocked_on": "account.created"},
        columns="LeaseToken = NULL, Attempt = 0",
    ),
    "unblock": Case(
        dependencies.UNBLOCK_WORK_ITEMS,
        "unblock",
        {"blocked_on": "account.created"},
        columns="LeaseToken = NULL, Attempt = 0, BlockedOn = 'account.created', BlockedSince = UTC_TIMESTAMP(6)",
    ),
    "end_mirror": Case(
        replays.END_MIRROR,
        "terminalize_mirror",
        {"now": datetime(2026, 1, 2, tzinfo=UTC)},
        columns="LeaseToken = 'left', Attempt = 0, BlockedOn = 'account.created', BlockedSince = UTC_TIMESTAMP(6)",
    ),
    "end_mirror_of_old_schema": Case(
        replays.END_MIRROR_OF_OLD_SCHEMA,
        "terminalize_mirror",
        {},
        columns="LeaseToken = 'left', Attempt = 0, BlockedOn = 'account.created', BlockedSince = UTC_TIMESTAMP(6)",
        lacks=frozenset({"outcome", "end", "replay mark"}),
    ),
    "fence": Case(
        rollback_fences.FENCE_WORK_ITEMS,
        "fence",
        {"fence_id": FENCE},
        columns="LeaseToken = NULL, Attempt = 1",
    ),
    "unfence": Case(
        rollback_fences.UNFENCE_WORK_ITEMS,
        "unfence",
        {"fence_id": FENCE},
        columns=f"LeaseToken = NULL, Attempt = 0, RollbackExecutionFenceId = '{FENCE}'",
    ),
    "unfence_retry": Case(
        rollback_fences.UNFENCE_RETRIES,
        "unfence_retry",
        {"fence_id": FENCE},
        columns=f"LeaseToken = NULL, Attempt = 1, RollbackExecutionFenceId = '{FENCE}'",
    ),
    "reconcile": Case(
        legacy_outcomes.RECONCILE_WORK_ITEM,
        "reconcile",
        {
            "fence_id": FENCE,
            "outcome": "succeeded",
            "receipt_version": 1,
            "digest": "0" * 64,
            "ended_at": datetime(2026, 1, 2, tzinfo=UTC),
        },
        columns=f"LeaseToken = NULL, RollbackExecutionFenceId = '{FENCE}'",
    ),
    "lose_outcome": Case(
        legacy_outcomes.LOSE_LEGACY_OUTCOME,
        "lose_outcome",
        {"fence_id": FENCE},
        columns=f"LeaseToken = NULL, RollbackExecutionFenceId = '{FENCE}'",
    ),
}
#: Whose transitions are here; the mirror's moves follow its Event's: tests/db/legacy.
MAKERS = set(Maker) - {Maker.EVENT_EXECUTOR}


def test_cases__cover_every_transition_that_the_program_makes():
    assert {case.transition for case in CASES.values()} - {None} == {
        move.name for move in TRANSITIONS if move.made_by in MAKERS
    }
    claims = {case.source for case in CASES.values() if case.transition == "claim"}
    assert claims == {move.source for move in TRANSITIONS if move.name == "claim"}


def test_cases__are_all_statements_that_move_a_work_item():
    moving = {
        statement.name
        for module, _, statement in all_statements()
        # The mirror's moves follow its Event's: tests/db/legacy.
        if module != "legacy"
        and re.search(r"UPDATE _System_Connector(WorkItem|Event e)\b", statement.text)
        and re.search(r"\bSET\b.*?\bState = .*?\bWHERE\b", statement.text, re.DOTALL)
    }
    # The statements of older schemas are these without what those lack: tests/db/work/test_vintages.py.
    current = {name for name in moving if not name.endswith(("_OF_ADDITIVE", "_OF_LEGACY", "_CLAIM_OF_OLD_SCHEMA"))}
    assert current == {case.statement.name for case in CASES.values() if case.transition is not None}


#: What each word of the table is in the statement's WHERE. None: decided before the statement, on what never changes
#: back.
GUARDS = {
    "active projection key": "ProjectionActiveKey IS NOT NULL",
    "attempt 0": "Attempt = 0",
    "attempts left": "Attempt < MaxAttempts",
    "cancellation asked for": "CancelRequestedAt IS NOT NULL",
    "claimed before": "Attempt > 0",
    "dependency met": None,
    "dependency missing": None,
    "due": "RunAfter <= UTC_TIMESTAMP(6)",
    "Event replayed in this transaction": None,
    "Event unclaimed": "e.ClaimToken IS NULL",
    "free target lane": "TargetLaneActiveKey IS NULL",
    "lease over, with slack": "LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND",
    "live epoch": "OwnershipEpoch = %(epoch)s",
    "live token": "LeaseToken = %(lease_token)s",
    "its rollback fence": "RollbackExecutionFenceId = %(fence_id)s",
    "no ambiguous attempt": None,
    "no attempts left": "Attempt >= MaxAttempts",
    "no cancellation asked for": "CancelRequestedAt IS NULL",
    "no outcome can be proved": None,
    "no rollback fence": "RollbackExecutionFenceId IS NULL",
    "no rollback receipt": None,
    "no token": "LeaseToken IS NULL",
    "outcome receipt": None,
    "read epoch": "OwnershipEpoch = %(epoch)s",
    "same dependency": "BlockedOn = %(blocked_on)s",
}
#: And in its SET.
WRITES = {
    "attempt + 1": "Attempt = Attempt + 1",
    "dependency": "BlockedOn = %(blocked_on)s",
    # The time is the database's: of the statement, or of the Event's end.
    "end": "TerminalAt = ",
    "epoch + 1": "OwnershipEpoch = OwnershipEpoch + 1",
    "Event owner": "e.ExecutionOwner = 'work_item'",
    "failure class": "FailureClass = ",
    "failure count": "FailureCount = FailureCount + 1",
    "failure times": "LastFailedAt = UTC_TIMESTAMP(6)",
    "lease end": "LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND",
    "lease owner": "LeaseOwner = %(process_id)s",
    "new token": "LeaseToken = %(lease_token)s",
    "no dependency": "BlockedOn = NULL, BlockedSince = NULL",
    "no lease": "LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL",
    "no rollback fence": "RollbackExecutionFenceId = NULL",
    "no projection key": "ProjectionActiveKey = NULL",
    "no target lane key": "TargetLaneActiveKey = NULL",
    "one attempt more": "MaxAttempts = MaxAttempts + 1",
    "outcome": "Outcome = ",
    "receipt version and digest": "LegacyOutcomeReceiptDigest = %(digest)s",
    "replay mark": "ReplayedAt = %(now)s",
    "rollback fence": "RollbackExecutionFenceId = %(fence_id)s",
    "run after": "RunAfter = UTC_TIMESTAMP(6)",
    "since when": "BlockedSince = UTC_TIMESTAMP(6)",
    "target lane key": "TargetLaneActiveKey = SHA2(",
    "who asked": "CancelRequestedBy = COALESCE(CancelRequestedBy, %(actor_name)s)",
}


@pytest.mark.evidence("K-09")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.transition is not None])
def test_statement__has_every_guard_of_the_table_and_writes_what_it_says(name):
    case = CASES[name]
    moves = [move for move in TRANSITIONS if move.name == case.transition and case.source in {None, move.source}]
    text = " ".join(re.sub(r"\bw\.", "", case.statement.text).split())
    assigned, _, where = text.partition(" WHERE ")
    for move in moves:
        guards = {word: GUARDS[word] for word in move.guard}
        assert [word for word, sql in guards.items() if sql is not None and sql not in where] == []
        # A batch leaves out what has a projection, whose end hands the key on.
        written = set(move.writes) - case.lacks - ({"no projection key"} if "ProjectionKey IS NULL" in where else set())
        assert sorted(word for word in written if WRITES[word] not in assigned) == []
        assert f"'{move.source}'" in where


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

    event_id = before["EventId"]
    ids = {"work_id": work_id, "work_ids": (work_id,), "event_id": event_id, "event_ids": (event_id,)}
    matched = db.execute_alone(case.statement, {**case.params, **ids})

    after = item_row(work_id)
    target = case.allowed().get(state)
    if target is None:
        assert (matched, after, event_row(before["EventId"])) == (0, before, event_before)
    else:
        assert (matched, after["State"]) == (case.matched, target)
        assert after["OwnershipEpoch"] == EPOCH + (1 if case.transition == "claim" else 0)
        assert (after["TerminalAt"] is not None) == (target in TERMINAL_STATES and "end" not in case.lacks)
        assert (after["LeaseToken"] is not None) == (target is WorkItemState.PROCESSING)
        assert (after["BlockedSince"] is not None) == (target is WorkItemState.BLOCKED)


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

    params = {**case.params, "work_id": work_id, "work_ids": (work_id,)}

    assert db.execute_alone(case.statement, {**params, **wrong}) == 0
    assert item_row(work_id) == before
    assert db.execute_alone(case.statement, params) == 1
