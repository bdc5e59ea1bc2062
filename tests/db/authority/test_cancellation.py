"""Cancelling work: ended at once while it waits, asked for while it runs, refused once it has ended."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from integration import errors
from integration.authority.cancellation import CancelOutcome, CancelRefused, cancel
from integration.authority.values import BOTH_PERMISSIONS, Ref
from integration.states import TERMINAL_STATES, WorkItemState
from tests.support.authority import MARIA, World, audit_entries, change, rows_of, system_rows
from tests.support.commands import Ended, run
from tests.support.dlq import operator

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-08")]
WAITING = {"retry": 2, "blocked": 0, "pending": 0}
REASON = "The account was closed"


def item(ref: Ref) -> dict:
    (row,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref.id)
    return row


def event_of(ref: Ref) -> dict:
    (row,) = rows_of("_System_ConnectorEvent", "EventId = %s", item(ref)["EventId"])
    return row


@pytest.mark.parametrize("state", WAITING)
def test_cancel__ends_at_once_what_waits(state: str):
    ref = World().work(state, Attempt=WAITING[state], BlockedOn="account.created" if state == "blocked" else None)

    done = cancel(ref, actor=MARIA, reason=REASON)

    assert (done.outcome, done.was) == (CancelOutcome.CANCELLED, WorkItemState(state))
    row = item(ref)
    assert (row["State"], row["Outcome"], row["CancelRequestedBy"]) == ("cancelled", "cancelled", "maria")
    assert row["TerminalAt"] == row["CancelRequestedAt"]
    assert (row["BlockedOn"], row["BlockedSince"], row["LeaseToken"]) == (None, None, None)
    assert row["Attempt"] == WAITING[state]


def test_cancel__of_what_was_never_claimed_ends_its_event_too():
    ref = World().work("pending", Attempt=0)
    cancel(ref, actor=MARIA, reason=REASON)
    event = event_of(ref)
    assert (event["ExecutionOwner"], event["Status"]) == ("event", "skipped")
    assert event["TerminalAt"] is not None


def test_cancel__of_what_was_claimed_before_leaves_its_event_alone():
    ref = World().work("retry", Attempt=1)
    before = event_of(ref)
    cancel(ref, actor=MARIA, reason=REASON)
    assert event_of(ref) == before


def test_cancel__by_its_event_names_the_same_work():
    ref = World().work("retry")
    done = cancel(Ref.parse(f"event:{item(ref)['EventId']}"), actor=MARIA, reason=REASON)
    assert done.work_id == ref.id


def test_cancel__of_what_runs_only_asks():
    ref = World().work("processing", LeaseToken="t", LeaseOwner="p")
    before, event = item(ref), event_of(ref)

    done = cancel(ref, actor=MARIA, reason=REASON)

    assert done.outcome is CancelOutcome.REQUESTED
    after = item(ref)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"CancelRequestedAt", "CancelRequestedBy", "UpdatedAt"}
    assert event_of(ref) == event
    again = cancel(ref, actor=replace(MARIA, name="boris"), reason=REASON)
    assert again.outcome is CancelOutcome.REQUESTED
    assert (item(ref)["CancelRequestedBy"], item(ref)["CancelRequestedAt"]) == ("maria", after["CancelRequestedAt"])


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES | {"awaiting_legacy_outcome", "legacy_outcome_unknown"}))
def test_cancel__of_anything_else_is_refused_and_changes_nothing(state: str):
    ref = World().work(state)
    before = system_rows()
    with pytest.raises(CancelRefused) as caught:
        cancel(ref, actor=MARIA, reason=REASON)
    expected = "already_ended" if state in TERMINAL_STATES else "fenced"
    assert caught.value.data_fields == {"refusal": expected, "state": state}
    assert system_rows() == before
    (entry,) = audit_entries()
    assert (entry["action"], entry["outcome"], entry["ref_id"]) == ("work_item.cancelled", "refused", ref.id)
    assert json.loads(entry["facts"]) == {"code": expected, "was": state}


@pytest.mark.parametrize(
    ("assignment", "refusal"),
    [
        ("Status = 'processing', ClaimToken = 'x'", "event_taken"),
        ("ClaimToken = 'x'", "event_taken"),
        ("Status = 'processed'", "event_taken"),
        ("ReplayedAt = UTC_TIMESTAMP(6)", "event_taken"),
    ],
)
def test_cancel__of_a_mirror_whose_event_another_has_is_refused(assignment: str, refusal: str):
    ref = World().work("pending", Attempt=0)
    change(f"UPDATE _System_ConnectorEvent SET {assignment}")
    before = system_rows()
    with pytest.raises(CancelRefused) as caught:
        cancel(ref, actor=MARIA, reason=REASON)
    assert caught.value.data_fields["refusal"] == refusal
    assert system_rows() == before


def test_cancel__of_what_a_rollback_fences_is_refused():
    ref = World().work("retry", RollbackExecutionFenceId="f" * 36)
    before = system_rows()
    with pytest.raises(CancelRefused) as caught:
        cancel(ref, actor=MARIA, reason=REASON)
    assert caught.value.data_fields["refusal"] == "fenced"
    assert system_rows() == before


def test_cancel__writes_who_why_and_what_it_found_in_the_packs_trail():
    world = World()
    ref = world.work("retry", Attempt=2)
    cancel(ref, actor=MARIA, reason=f"  {REASON} ")
    (entry,) = audit_entries()
    assert (entry["stream"], entry["action"], entry["outcome"]) == (
        f"pack/{world.pack_id}",
        "work_item.cancelled",
        "done",
    )
    assert (entry["actor_name"], entry["reason"], entry["ref_id"]) == ("maria", REASON, ref.id)
    assert json.loads(entry["facts"]) == {
        "attempt": 2,
        "event_id": item(ref)["EventId"],
        "outcome": "cancelled",
        "was": "retry",
    }


@pytest.mark.parametrize("missing", sorted(BOTH_PERMISSIONS))
def test_cancel__without_a_permission_is_refused_and_told(missing: str):
    ref = World().work("retry")
    before = system_rows()
    with pytest.raises(errors.NotAllowed):
        cancel(ref, actor=replace(MARIA, permissions=BOTH_PERMISSIONS - {missing}), reason=REASON)
    assert system_rows() == before
    (entry,) = audit_entries()
    assert (entry["outcome"], json.loads(entry["facts"])["code"]) == ("refused", "permission_denied")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "two\nlines"])
def test_cancel__without_a_reason_is_refused(reason: str):
    ref = World().work("retry")
    with pytest.raises(errors.InvalidInput):
        cancel(ref, actor=MARIA, reason=reason)
    assert item(ref)["State"] == "retry"


def test_cancel__of_a_projection_hands_its_active_key_on():
    world, key = World(), "a" * 64
    active = world.work("pending", Attempt=0, ProjectionKey=key, ProjectionActiveKey=key, SubjectKind="projection")
    queued = world.work("pending", Attempt=0, ProjectionKey=key, SubjectKind="projection")

    cancel(active, actor=MARIA, reason=REASON)

    assert (item(active)["State"], item(active)["ProjectionActiveKey"]) == ("cancelled", None)
    assert (item(queued)["State"], item(queued)["ProjectionActiveKey"]) == ("pending", key)


def command(ref: object, name: str, *options: str) -> Ended:
    return run("cancel", "--as", name, "--reason", REASON, *options, "--", str(ref))


def test_command__cancels_and_says_so():
    ref = World().work("retry")
    ended = command(ref.id, operator("rolf", "Replayer"))
    assert (ended.code, ended.out, ended.err) == (0, f"cancelled {ref.id}, which was retry\n", "")
    again = command(ref.id, "rolf", "--json")
    assert (again.code, again.document["error"], again.document["refusal"]) == (3, "refused", "already_ended")


def test_command__asks_what_runs():
    ref = World().work("processing", LeaseToken="t")
    ended = command(ref.id, operator("rolf", "Replayer"), "--json")
    assert ended.document == {"work_id": ref.id, "outcome": "requested", "was": "processing", "attempt": 3}


@pytest.mark.parametrize(
    ("name", "ref", "code"),
    [
        ("vera", None, 5),
        ("nobody", None, 5),
        ("rolf", "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0", 4),
        ("rolf", "nonsense", 2),
        ("rolf", "\udcff", 2),
    ],
)
def test_command__refuses_with_its_exit_code(name: str, ref: str | None, code: int):
    work = World().work("retry")
    operator("vera", "Viewer")
    operator("rolf", "Replayer")
    before = system_rows()
    ended = command(work.id if ref is None else ref, name)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err != ""
    assert system_rows() == before
