"""What a rollback hands over, item by item, and which outcome receipts prove something."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from integration.cutover.inbound.rollback_policy import (
    RollbackCode,
    decide_attestation,
    decide_in_hand,
    decide_item,
    decide_ranges,
    digest_set,
)
from integration.work.legacy_outcomes import RECEIPT_VERSION, Doubt, find_doubt, outcome_digest

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def item(**over: Any) -> dict[str, Any]:
    row = {
        "WorkId": "w",
        "State": "retry",
        "Attempt": 1,
        "FailureClass": "released",
        "IsLeased": 0,
        "IsProjection": 0,
        "IsFenced": 0,
        "IsCancelRequested": 0,
        "IsExecutable": 1,
    }
    return {**row, **over}


def attempt(number: int = 1, **over: Any) -> dict[str, Any]:
    return {"WorkId": "w", "Attempt": number, "DispatchedAt": NOW, "Outcome": None, **over}


def effect(**over: Any) -> dict[str, Any]:
    return {"WorkId": "w", "DispatchStartedAt": None, "OutcomeClass": "RETRYABLE_PRE_DISPATCH", **over}


NEVER = {"State": "pending", "Attempt": 0, "FailureClass": None}
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], RollbackCode | None]] = {
    "never claimed": (item(**NEVER), [], [], None),
    "given back before its flow was called": (item(), [attempt()], [], None),
    "given back twice": (item(Attempt=2), [attempt(1, Outcome="released"), attempt(2)], [], None),
    "failed before it was dispatched": (item(FailureClass="flow_unknown"), [attempt(DispatchedAt=None)], [], None),
    "to be cancelled": (item(IsCancelRequested=1), [attempt()], [], RollbackCode.CANCEL_REQUESTED),
    "an effect that never left": (item(), [attempt()], [effect()], None),
    "failed": (item(FailureClass="flow_error"), [attempt()], [], RollbackCode.PRIOR_DISPATCH),
    "failed before, then given back": (
        item(Attempt=2),
        [attempt(1, Outcome="retry"), attempt(2)],
        [],
        RollbackCode.PRIOR_DISPATCH,
    ),
    "taken back from a lost worker": (item(FailureClass="lease_lost"), [attempt()], [], RollbackCode.OUTCOME_AMBIGUOUS),
    "lost before, then given back": (
        item(Attempt=2),
        [attempt(1, Outcome="lost"), attempt(2)],
        [],
        RollbackCode.OUTCOME_AMBIGUOUS,
    ),
    "an earlier attempt that nobody closed": (
        item(Attempt=2),
        [attempt(1), attempt(2)],
        [],
        RollbackCode.OUTCOME_AMBIGUOUS,
    ),
    "an attempt missing": (item(Attempt=2), [attempt(2)], [], RollbackCode.HISTORY_UNVERIFIABLE),
    "no attempts at all": (item(), [], [], RollbackCode.HISTORY_UNVERIFIABLE),
    "an attempt of what was never claimed": (item(**NEVER), [attempt()], [], RollbackCode.HISTORY_UNVERIFIABLE),
    "claimed and pending again": (item(State="pending"), [attempt()], [], RollbackCode.HISTORY_UNVERIFIABLE),
    "leased": (item(**NEVER, IsLeased=1), [], [], RollbackCode.HISTORY_UNVERIFIABLE),
    "an effect that was begun": (
        item(),
        [attempt()],
        [effect(DispatchStartedAt=NOW)],
        RollbackCode.OUTCOME_AMBIGUOUS,
    ),
    "an effect without an outcome": (item(), [attempt()], [effect(OutcomeClass=None)], RollbackCode.OUTCOME_AMBIGUOUS),
    "an unknown effect": (
        item(**NEVER),
        [],
        [effect(OutcomeClass="OUTCOME_UNKNOWN")],
        RollbackCode.OUTCOME_AMBIGUOUS,
    ),
    "an Event that cannot be executed": (item(**NEVER, IsExecutable=0), [], [], RollbackCode.EVENT_CONFLICT),
    "no Event": (item(**NEVER, IsExecutable=None), [], [], RollbackCode.EVENT_CONFLICT),
    "fenced and waiting": (item(**NEVER, IsFenced=1), [], [], RollbackCode.EVENT_CONFLICT),
    "a projection": (item(**NEVER, IsProjection=1), [], [], RollbackCode.RANGES_ADMITTED),
}


@pytest.mark.evidence("C-04")
@pytest.mark.parametrize("name", CASES)
def test_item__is_handed_over_only_when_no_flow_was_ever_given_it(name: str):
    row, attempts, effects, code = CASES[name]
    found = decide_item(row, attempts, effects)
    assert (None if found is None else found.code) == code


@pytest.mark.evidence("C-03", "C-04")
@pytest.mark.parametrize(
    ("in_hand", "are_claims_stopped", "code"),
    [
        ({}, True, None),
        ({"processing": 1}, True, RollbackCode.NOT_DRAINED),
        ({"processing": 1}, False, None),
        ({"blocked": 2}, False, RollbackCode.BLOCKED_ITEM),
        ({"blocked": 2, "processing": 1}, True, RollbackCode.NOT_DRAINED),
    ],
)
def test_in_hand__counts_what_runs_once_claims_are_stopped(in_hand, are_claims_stopped, code):
    found = decide_in_hand(in_hand, are_claims_stopped=are_claims_stopped)
    assert (None if found is None else found.code) == code


@pytest.mark.evidence("C-09")
def test_ranges__above_the_cutoff_are_refused():
    assert decide_ranges(None, 7) is None
    found = decide_ranges({"EventId": "e", "LaneOrdinal": 8}, 7)
    assert found is not None
    assert (found.code, found.facts["legacy_max_ordinal"]) == (RollbackCode.RANGES_ADMITTED, 7)


def test_attestation__has_to_say_something():
    assert decide_attestation("none runs") is None
    found = decide_attestation("")
    assert found is not None
    assert found.code is RollbackCode.ATTESTATION_MISSING


def test_set__is_digested_in_order_with_a_line_feed_after_each():
    assert digest_set([]) == (0, hashlib.sha256(b"").hexdigest())
    assert digest_set(["a", "b"]) == (2, hashlib.sha256(b"a\nb\n").hexdigest())


KEY = {"event_id": "e", "work_type": "connector_event", "rollback_fence_id": "f", "outcome": "dead"}


def receipt(**over: Any) -> dict[str, Any]:
    row = {
        "EventId": "e",
        "WorkType": "connector_event",
        "RollbackFenceId": "f",
        "ReceiptVersion": RECEIPT_VERSION,
        "Outcome": "dead",
        "Digest": outcome_digest(**KEY),
        "ConflictDigest": None,
        "ConflictAt": None,
    }
    return {**row, **over}


@pytest.mark.evidence("C-07")
@pytest.mark.parametrize(
    ("over", "doubt"),
    [
        ({}, None),
        ({"ConflictDigest": "0" * 64, "ConflictAt": NOW}, Doubt.CONFLICT),
        ({"Outcome": "processed"}, Doubt.UNREADABLE),
        ({"Digest": "0" * 64}, Doubt.UNREADABLE),
        ({"ReceiptVersion": RECEIPT_VERSION + 1}, Doubt.UNREADABLE),
        ({"RollbackFenceId": "g"}, Doubt.UNREADABLE),
        ({"Outcome": "failed", "Digest": outcome_digest(**{**KEY, "outcome": "failed"})}, Doubt.UNREADABLE),
    ],
)
def test_receipt__proves_an_end_only_as_it_was_written(over, doubt):
    assert find_doubt(receipt(**over), "f") is doubt


def test_digest__tells_every_part_apart():
    digests = {outcome_digest(**{**KEY, name: "x"}) for name in KEY}
    assert len(digests | {outcome_digest(**KEY)}) == 5
