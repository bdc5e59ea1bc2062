"""The projection cutover on both databases: each refusal, what is accepted, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connections

from integration import errors
from integration.cutover.projection import service
from integration.cutover.projection.patience import Patience, Stopped, TimeIsUp
from integration.cutover.projection.policy import CutoverRefused, Reason
from integration.cutover.projection.service import Checkpoint, Preview
from integration.states import NONTERMINAL_STATES, TERMINAL_STATES
from integration.values import SYSTEM_ACTOR, new_id
from tests.support import admission
from tests.support.old_projections import OldPack, audit_rows, history, protocol_rows
from tests.support.work import change

pytestmark = pytest.mark.django_db
#: Of a slow machine no test is to fail.
LONG = timedelta(minutes=10)


def cut_over(pack_id: str) -> Checkpoint:
    return service.cut_over(pack_id, actor=SYSTEM_ACTOR, patience=Patience(timeout=LONG))


def preview(pack_id: str) -> Preview:
    return service.preview(pack_id, patience=Patience(timeout=LONG))


def found(pack_id: str) -> dict[Reason, int]:
    """Return what a dry run lists, by reason."""
    return {finding.reason: finding.count for finding in preview(pack_id).findings}


def assert_refused(pack_id: str, *reasons: Reason) -> None:
    """A dry run lists exactly these, a cutover stops at the first of them, and neither writes but to the trail."""
    before = history()
    assert tuple(found(pack_id)) == reasons
    with pytest.raises(CutoverRefused) as refused:
        cut_over(pack_id)
    assert refused.value.reason is reasons[0]
    assert refused.value.exit_code == 3
    assert protocol_rows() == []
    assert history() == before
    assert audit_rows() == [("projection.cut_over", "refused")]


@pytest.fixture
def pack(db) -> OldPack:
    return OldPack()


# What is accepted


@pytest.mark.evidence("P-15", "P-17")
def test_cutover__of_ordinary_completed_history__writes_the_cutoff_and_changes_no_row(pack: OldPack):
    for number in range(3):
        for state in ("succeeded", "dead"):
            pack.lane(number).coalesced(4, state)
    pack.lane(9).coalesced(1)
    pack_id = pack.settle()
    before = history()

    seen = preview(pack_id)
    assert (seen.findings, seen.cutoff) == ((), 25)
    assert (seen.events, seen.inputs, seen.indirect) == (25, 25, 18)
    assert protocol_rows() == []
    written = cut_over(pack_id)

    assert (written.legacy_max_ordinal, written.protocol_version, written.is_new) == (25, 1, True)
    (row,) = protocol_rows()
    assert (row["PackInstallId"], row["LegacyMaxOrdinal"], row["WrittenBy"]) == (pack_id, 25, "system")
    assert history() == before
    assert audit_rows() == [("projection.cut_over", "done")]


@pytest.mark.evidence("P-15")
@pytest.mark.parametrize("status", ["pending", "failed", "skipped", "processed", "dead"])
def test_cutover__of_an_input_without_a_task_that_is_covered__passes_whatever_its_status(pack: OldPack, status: str):
    lane = pack.lane()
    lane.indirect(Status=status)
    lane.task(lane.event())
    assert cut_over(pack.settle()).legacy_max_ordinal == 2


@pytest.mark.evidence("P-15")
@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_cutover__takes_every_ended_state_for_an_owner(pack: OldPack, state: str):
    pack.lane().coalesced(2, state)
    assert cut_over(pack.settle()).is_new


@pytest.mark.parametrize("ordinal", [None, 0])
def test_cutover__of_a_history_without_any_ordinals__passes_with_cutoff_zero(pack: OldPack, ordinal: int | None):
    lane = pack.lane()
    lane.indirect(LaneOrdinal=None)
    lane.task(lane.event(LaneOrdinal=ordinal), LaneOrdinal=ordinal)
    pack.ordinal = 0
    assert cut_over(pack.settle()).legacy_max_ordinal == 0


def test_cutover__of_direct_inputs_in_a_mixed_history__passes(pack: OldPack):
    lane = pack.lane()
    lane.task(lane.event(LaneOrdinal=None), LaneOrdinal=None)
    lane.task(lane.event())
    assert cut_over(pack.settle()).is_new


def test_cutover__asks_each_projection_of_a_lane_for_itself(pack: OldPack):
    """Two versions of a route share a lane; neither answers for the other's inputs."""
    pack.lane().coalesced(3)
    newer = pack.lane(route_version=2)
    newer.indirect()
    pack_id = pack.settle()
    assert_refused(pack_id, Reason.MISSING_OWNER)


def test_cutover__leaves_per_event_work_out_of_account(pack: OldPack):
    """Other kinds may be under way, wait, or have no WorkItem yet."""
    route_id = pack.route("deal.changed")
    pack.admit(3, EventKind="deal.changed", RouteId=route_id, SourceLane="deal:1")
    change("UPDATE _System_ConnectorEvent SET EventKind = 'deal.changed', RouteId = %s", route_id)
    pack.event(EventKind="deal.changed", RouteId=route_id, Status="processing")
    pack.event(EventKind="deal.changed", RouteId=route_id, SourceLane="deal:2")
    assert cut_over(pack.settle()).is_new


def test_cutover__of_an_incarnation_without_any_history__passes(pack: OldPack):
    assert cut_over(pack.settle()).legacy_max_ordinal == 0


# Each refusal


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        (lambda pack: None, Reason.FENCE_MISSING),
        (lambda pack: pack.arm(Scope="contact.changed"), Reason.FENCE_MISSING),
        (lambda pack: pack.arm(Namespace="elsewhere"), Reason.FENCE_MISSING),
        (lambda pack: pack.arm(LiftedAt=datetime.now(UTC)), Reason.FENCE_MISSING),
        (lambda pack: pack.arm(ExpiresAt=datetime.now(UTC) - timedelta(hours=9)), Reason.FENCE_MISSING),
        (lambda pack: pack.arm(ExpiresAt=datetime.now(UTC) + timedelta(days=900)), Reason.FENCE_EXPIRES),
        (lambda pack: pack.override(pack.arm()), Reason.FENCE_OVERRIDDEN),
        (
            lambda pack: pack.override(pack.arm(), ExpiresAt=datetime.now(UTC) + timedelta(hours=1)),
            Reason.FENCE_OVERRIDDEN,
        ),
    ],
)
def test_cutover__needs_a_fence_that_stays_and_lets_nothing_through(
    pack: OldPack, arm: Callable[[OldPack], object], reason: Reason
):
    pack.lane().coalesced()
    pack_id = pack.settle(armed=False)
    arm(pack)
    assert_refused(pack_id, reason)


def test_cutover__does_not_mind_an_override_that_has_ended(pack: OldPack):
    pack_id = pack.settle(armed=False)
    fence_id = pack.arm()
    pack.override(fence_id, LiftedAt=datetime.now(UTC) - timedelta(minutes=1))
    pack.override(fence_id, ExpiresAt=datetime.now(UTC) - timedelta(hours=9))
    assert cut_over(pack_id).is_new


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize("state", sorted(NONTERMINAL_STATES))
@pytest.mark.parametrize("marks", ["all", "key", "subject", "route"])
def test_cutover__waits_for_unended_work_in_every_state(pack: OldPack, state: str, marks: str):
    """An old writer may have left all but one of the marks of a projection out."""
    lane = pack.lane()
    lane.coalesced()
    item = lane.task(lane.event(), state)
    blanks = {
        "all": "",
        "key": "SubjectKind = 'event', RouteId = UUID()",
        "subject": "ProjectionKey = NULL, RouteId = UUID()",
        "route": "ProjectionKey = NULL, SubjectKind = 'event'",
    }[marks]
    if blanks:
        change(f"UPDATE _System_ConnectorWorkItem SET {blanks} WHERE WorkId = %s", item)
    pack_id = pack.settle()

    assert_refused(pack_id, Reason.UNENDED_WORK)
    (finding,) = preview(pack_id).findings
    assert [(row.kind, row.id, row.state, row.ordinal) for row in finding.rows] == [("work_item", item, state, 4)]


@pytest.mark.evidence("P-14")
def test_cutover__waits_for_an_input_that_the_event_executor_holds(pack: OldPack):
    lane = pack.lane()
    lane.indirect(Status="processing")
    lane.task(lane.event())
    assert_refused(pack.settle(), Reason.UNENDED_WORK)


@pytest.mark.evidence("P-14")
def test_cutover__misses_an_owner(pack: OldPack):
    pack.lane(1).coalesced()
    pack.lane(2).indirect()
    pack_id = pack.settle()
    assert_refused(pack_id, Reason.MISSING_OWNER)
    change("UPDATE _System_ConnectorEvent SET Status = 'processed', TerminalAt = UTC_TIMESTAMP(6)")
    # A mark that says so is no owner.
    assert found(pack_id) == {Reason.MISSING_OWNER: 1}


@pytest.mark.evidence("P-14")
def test_cutover__misses_the_work_item_that_took_an_input_over(pack: OldPack):
    """Below the boundary, too: what was claimed had an owner, which is gone."""
    lane = pack.lane()
    lane.indirect(ExecutionOwner="work_item")
    lane.task(lane.event())
    assert_refused(pack.settle(), Reason.MISSING_OWNER)


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize(
    "damage",
    ["UPDATE _System_ConnectorWorkItem SET LaneOrdinal = 9", "UPDATE _System_ConnectorWorkItem SET EventId = UUID()"],
)
def test_cutover__takes_no_boundary_from_a_work_item_that_selects_nothing_there(pack: OldPack, damage: str):
    lane = pack.lane()
    lane.coalesced()
    change(damage)
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'event'")
    assert Reason.MISSING_OWNER in found(pack.settle())


@pytest.mark.evidence("P-14")
def test_cutover__stops_at_an_input_behind_the_completed_boundary(pack: OldPack):
    lane = pack.lane()
    lane.coalesced()
    beyond = [lane.indirect() for _ in range(2)]
    pack_id = pack.settle()
    assert_refused(pack_id, Reason.BEYOND_BOUNDARY)
    (finding,) = preview(pack_id).findings
    assert [row.id for row in finding.rows] == [row["EventId"] for row in beyond]


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize("where", ["input", "other input", "owner"])
def test_cutover__stops_at_an_indirect_input_of_a_mixed_history(pack: OldPack, where: str):
    lane = pack.lane()
    lane.indirect(LaneOrdinal=None if where == "input" else pack.ordinal + 1)
    if where == "other input":
        lane.task(lane.event(LaneOrdinal=None), LaneOrdinal=None)
    if where == "owner":
        # As an old build wrote it whose Events had ordinals already.
        lane.task(lane.event(LaneOrdinal=None), LaneOrdinal=None)
        change("UPDATE _System_ConnectorEvent SET LaneOrdinal = 7 WHERE ExecutionOwner = 'work_item'")
        pack.ordinal = 7
    lane.task(lane.event())
    assert_refused(pack.settle(), Reason.MIXED_HISTORY)


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize("direction", [None, "rollback"])
def test_cutover__needs_the_handoff_to_work_items_before_it(direction: str | None):
    pack = OldPack(direction=direction)
    pack.lane().coalesced()
    assert_refused(pack.settle(), Reason.HANDOFF_MISSING)


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize("status", ["retired", "installed"])
def test_cutover__is_for_the_active_incarnation(status: str):
    pack = OldPack(status=status)
    assert_refused(pack.settle(), Reason.PACK_NOT_ACTIVE)


def test_cutover__stops_at_an_input_with_two_work_items(pack: OldPack):
    lane = pack.lane()
    event = lane.event()
    lane.task(event)
    lane.task(event, WorkType="workflow_action_apply")
    assert_refused(pack.settle(), Reason.AMBIGUOUS_OWNER)


@pytest.mark.parametrize(
    "over",
    [
        {"SourceLane": None},
        {"RouteId": "f" * 36, "SourceLane": "contact:1"},
        {"RouteId": "f" * 36, "SourceLane": "contact:1", "RouteSnapshot": '{"execution": "source_projection"}'},
    ],
)
def test_cutover__stops_at_an_input_that_names_no_projection(pack: OldPack, over: dict[str, object]):
    pack.event(**over)
    assert_refused(pack.settle(), Reason.IDENTITY_UNRESOLVED)


@pytest.mark.parametrize(
    "over",
    [
        {"RouteId": "f" * 36},
        {"RouteId": "f" * 36, "SourceLane": "contact:1", "RouteSnapshot": '{"execution": "per_event"}'},
    ],
)
def test_cutover__passes_by_an_event_that_is_no_input_of_a_projection(pack: OldPack, over: dict[str, object]):
    pack.event(**over)
    assert cut_over(pack.settle()).is_new


def test_cutover__refuses_a_counter_that_would_give_an_ordinal_again(pack: OldPack):
    pack.lane().coalesced(3)
    pack.ordinal = 2
    assert_refused(pack.settle(), Reason.ORDINALS_BEHIND)


def test_preview__lists_everything_that_refuses(pack: OldPack):
    pack.lane(1).indirect()
    two = pack.lane(2)
    two.coalesced()
    two.task(two.event(), "retry")
    two.indirect()
    pack_id = pack.settle(armed=False)
    assert found(pack_id) == {
        Reason.FENCE_MISSING: 0,
        Reason.UNENDED_WORK: 1,
        Reason.MISSING_OWNER: 1,
        Reason.BEYOND_BOUNDARY: 1,
    }
    assert audit_rows() == []


# Once


@pytest.mark.evidence("P-16")
def test_cutover__again__returns_the_same_checkpoint_whatever_has_come_since(pack: OldPack):
    lane = pack.lane()
    lane.coalesced()
    pack_id = pack.settle()
    first = cut_over(pack_id)
    change("DELETE FROM _System_ConnectorAdmissionFence")
    lane.generation()
    pack.settle(armed=False)
    again = cut_over(pack_id)
    assert again == Checkpoint(
        pack_install_id=first.pack_install_id,
        protocol_version=1,
        legacy_max_ordinal=3,
        written_at=first.written_at,
        written_by="system",
        is_new=False,
    )
    assert preview(pack_id).checkpoint == again
    assert audit_rows() == [("projection.cut_over", "done")]


@pytest.mark.evidence("P-16")
def test_cutover__of_a_greenfield_incarnation__returns_its_cutoff_zero():
    written = cut_over(admission.activate())
    assert (written.legacy_max_ordinal, written.is_new) == (0, False)


def test_cutover__under_a_protocol_that_is_not_this_builds__is_an_error(pack: OldPack):
    pack_id = pack.settle()
    cut_over(pack_id)
    change("UPDATE _System_ConnectorProjectionProtocol SET ProtocolVersion = 2")
    with pytest.raises(errors.SchemaMismatch):
        cut_over(pack_id)


# What is there to be had wrong


@pytest.mark.parametrize("pack_id", ["", "nonsense", "x" * 36, "' OR 1=1 --", "\x00" * 36, "9" * 10_000])
def test_cutover__of_what_is_no_id__is_a_usage_error(pack_id: str):
    with pytest.raises(errors.InvalidInput) as refused:
        cut_over(pack_id)
    assert refused.value.exit_code == 2


def test_cutover__of_an_id_that_nobody_has__is_not_found():
    with pytest.raises(errors.PackNotFound):
        cut_over(new_id())


def test_cutover__is_stopped_in_the_middle_of_the_history_and_leaves_nothing(
    pack: OldPack, monkeypatch: pytest.MonkeyPatch
):
    from integration.cutover.projection import reads

    monkeypatch.setattr(reads.audit_history, "__kwdefaults__", {"page": 2})
    pack.lane().coalesced(9)
    pack_id = pack.settle()
    before = history()
    now = [0.0]
    seen: list[tuple[int, int]] = []

    def progress(done: int, of: int) -> None:
        seen.append((done, of))
        now[0] += 10.0

    with pytest.raises(TimeIsUp):
        service.cut_over(
            pack_id,
            actor=SYSTEM_ACTOR,
            patience=Patience(timeout=timedelta(seconds=15), clock=lambda: now[0]),
            progress=progress,
        )
    assert seen == [(2, 9), (4, 9)]
    patience = Patience(timeout=LONG)
    with pytest.raises(Stopped):
        service.cut_over(pack_id, actor=SYSTEM_ACTOR, patience=patience, progress=lambda done, of: patience.stop())
    assert (protocol_rows(), audit_rows()) == ([], [])
    assert history() == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("P-16")
@pytest.mark.parametrize("is_stored", [True, False])
def test_cutover__whose_commit_was_not_answered__says_that_it_wrote_the_row(
    pack: OldPack, monkeypatch: pytest.MonkeyPatch, is_stored: bool
):
    pack.lane().coalesced()
    pack.settle()
    connection = connections["default"]
    commit, lost = connection._commit, []

    def unanswered() -> None:
        if lost:
            return commit()
        lost.append(True)
        if is_stored:
            commit()
        raise OperationalError(2013, "Lost connection to server during query")

    monkeypatch.setattr(connection, "_commit", unanswered)
    done = cut_over(pack.pack_id)
    assert (lost, done.is_new) == ([True], True)
    assert [row["WrittenAt"] for row in protocol_rows()] == [done.written_at.replace(tzinfo=None)]
    assert audit_rows() == [("projection.cut_over", "done")]
    assert not cut_over(pack.pack_id).is_new


@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("P-16")
def test_cutover__that_another_overtook_while_its_commit_was_not_answered__says_so(
    pack: OldPack, monkeypatch: pytest.MonkeyPatch
):
    pack.lane().coalesced()
    pack.settle()
    connection = connections["default"]
    commit, lost = connection._commit, []

    def unanswered() -> None:
        if lost:
            return commit()
        lost.append(True)
        connection.connection.rollback()
        connection.connection.cursor().execute(
            "INSERT INTO _System_ConnectorProjectionProtocol VALUES (%s, 1, %s, '2026-01-01', 'another')",
            (pack.pack_id, pack.ordinal),
        )
        connection.connection.commit()
        raise OperationalError(2013, "Lost connection to server during query")

    monkeypatch.setattr(connection, "_commit", unanswered)
    done = cut_over(pack.pack_id)
    assert (lost, done.is_new, done.written_by) == ([True], False, "another")
