"""Claim-time convergence: a mirror follows its Event, hands its projection on, and leaves nothing to claim."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from integration.authority import gate, reads
from integration.authority.listing import DeadFilters
from integration.authority.values import OwnerKind
from integration.legacy import finish
from integration.legacy.policy import HeldBack, convergence_of
from integration.projection.sweep import find_keyless_heads
from integration.states import TRANSITIONS, EventStatus, Maker, WorkItemState
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.locks import lock_executed_event, lock_mirrors
from integration.storage.sql import legacy, work_items
from integration.storage.statements import LockRank
from integration.work.execute import Verdict
from integration.work.finish import Ended
from tests.support.legacy import LegacyPack
from tests.support.projections import KIND, LANE, Source
from tests.support.work import change, due_rows, event_row, item_row, query

pytestmark = pytest.mark.django_db
#: How the flow ends, the Event then, the mirror then.
ENDS = [("well", "processed", "succeeded"), ("skip", "skipped", "skipped"), ("reject", "dead", "dead")]


@pytest.fixture
def pack() -> LegacyPack:
    pack = LegacyPack()
    pack.route()
    return pack


def claimable() -> list[str]:
    """Return what a worker would try to claim, if it might claim from the pack."""
    rows = due_rows()
    return [row["WorkId"] for row in rows]


@pytest.mark.evidence("A-35", "A-02", "A-05")
@pytest.mark.parametrize(("end", "status", "state"), ENDS)
@pytest.mark.parametrize("work_type", ["connector_event", "workflow_action_apply"])
def test_mirror__follows_its_event_and_leaves_nothing_to_claim(pack, end, status, state, work_type):
    (event_id,) = pack.events(payload={"end": end})
    work_id = pack.mirror(event_id, WorkType=work_type, TargetLane="deal:1")
    before = item_row(work_id)
    assert claimable() == [work_id]

    assert pack.executor().round() is True

    event, after = event_row(event_id), item_row(work_id)
    assert (event["Status"], after["State"], after["Outcome"]) == (status, state, state)
    assert after["TerminalAt"] is not None
    assert (after["ProjectionActiveKey"], after["TargetLaneActiveKey"], after["LeaseToken"]) == (None, None, None)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"State", "Outcome", "TerminalAt", "UpdatedAt"}
    assert claimable() == []
    assert db.read().fetch_one(work_items.FIND_UNFINISHED_WORK) is None
    assert query("SELECT * FROM _System_ConnectorExecutionAttempt") == []

    owner = gate.owner_of(event_id)
    assert (owner.kind, owner.work_id, owner.why.rule) == (OwnerKind.EVENT, work_id, 2)
    listed = [row.ref.id for row in reads.list_dead(DeadFilters(), limit=10).rows]
    assert listed == ([event_id] if status == "dead" else [])


@pytest.mark.evidence("A-35")
def test_mirror__of_an_event_that_is_tried_again_stays_as_it_is(pack):
    (event_id,) = pack.events(payload={"end": "fail"})
    work_id = pack.mirror(event_id)
    before = item_row(work_id)
    pack.executor().round()
    assert event_row(event_id)["Status"] == "failed"
    assert item_row(work_id) == before


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize(("end", "status", "state"), ENDS)
@pytest.mark.parametrize("found", ["pending", "retry", "blocked"])
def test_mirror__that_moved_while_its_event_was_executed_follows_it_all_the_same(pack, end, status, state, found):
    (event_id,) = pack.events(payload={"end": end})
    work_id = pack.mirror(event_id)
    claimed = pack.claim(event_id)
    change(
        "UPDATE _System_ConnectorWorkItem SET State = %s, BlockedOn = IF(%s = 'blocked', 'account.created', NULL),"
        " BlockedSince = IF(%s = 'blocked', UTC_TIMESTAMP(6), NULL)",
        found,
        found,
        found,
    )
    verdict = {"well": Ended.COMPLETE, "skip": Ended.SKIP, "reject": Ended.BURY}[end]
    assert finish.conclude(claimed, Verdict(ended=verdict)) == status
    after = item_row(work_id)
    assert (after["State"], after["BlockedOn"], after["BlockedSince"]) == (state, None, None)


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize(
    "over",
    [
        "State = 'cancelled', TerminalAt = UTC_TIMESTAMP(6)",
        "Attempt = 1, State = 'retry'",
        "Attempt = 1, State = 'processing', LeaseToken = 'another'",
        "State = 'awaiting_legacy_outcome', RollbackExecutionFenceId = WorkId",
        "State = 'legacy_outcome_unknown', RollbackExecutionFenceId = WorkId",
    ],
)
def test_work_item__that_is_no_mirror_any_more_is_left_alone(pack, over):
    (event_id,) = pack.events()
    work_id = pack.mirror(event_id)
    claimed = pack.claim(event_id)
    change(f"UPDATE _System_ConnectorWorkItem SET {over}")
    before = item_row(work_id)
    assert finish.conclude(claimed, Verdict(ended=Ended.COMPLETE)) is EventStatus.PROCESSED
    assert item_row(work_id) == before


@pytest.mark.evidence("A-35")
def test_mirrors__of_both_work_types_leave_nothing_to_claim(pack):
    """The second one appeared while the Event was executed; who owns the Event is then ambiguous, and stays so."""
    (event_id,) = pack.events(payload={"end": "reject"})
    first = pack.mirror(event_id)
    claimed = pack.claim(event_id)
    second = pack.mirror(event_id, WorkType="workflow_action_apply")
    finish.conclude(claimed, Verdict(ended=Ended.BURY))
    assert [item_row(work_id)["State"] for work_id in (first, second)] == ["dead", "dead"]
    assert claimable() == []
    assert gate.owner_of(event_id).kind is OwnerKind.AMBIGUOUS


@pytest.mark.evidence("A-35")
def test_mirror__that_appeared_while_its_event_was_executed_follows_it(pack):
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    assert claimed.mirror is None
    work_id = pack.mirror(event_id)
    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))
    assert item_row(work_id)["State"] == "succeeded"


# Projections


def source_of(pack: LegacyPack) -> Source:
    flow = {"name": "tests.inputs", "version": 1}
    route_id = pack.route(KIND, flow=flow, execution="source_projection", source_lane="contact.id")
    pack.route_id = route_id
    return Source(pack=pack)


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize(("end", "status", "state"), [("well", "processed", "succeeded"), ("reject", "dead", "dead")])
def test_projection__is_given_all_its_inputs_and_hands_its_key_to_the_queued_successor(
    pack, tmp_path, end, status, state
):
    source, file = source_of(pack), tmp_path / "given"
    payload = {"n": 1, "file": str(file), "end": end}
    inputs = [source.event(payload), source.event(payload)]
    active = source.generation(inputs)
    queued = source.generation([source.event(payload), source.event(payload)], active=False)
    executor = pack.executor()

    assert executor.round() is True

    rows = [item_row(work_id) for work_id in (active, queued)]
    assert [row["State"] for row in rows] == [state, state]
    assert [row["ProjectionActiveKey"] for row in rows] == [None, None]
    given = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(entry["work_id"], entry["ordinals"]) for entry in given] == [(active, [1, 2]), (queued, [3, 4])]
    assert event_row(inputs[1]["EventId"])["Status"] == status
    assert event_row(inputs[0]["EventId"])["Status"] == "skipped"
    assert find_keyless_heads() == ()
    assert claimable() == []


@pytest.mark.evidence("A-35")
def test_projection__hands_its_key_on_in_the_transaction_of_its_events_end(pack):
    source = source_of(pack)
    event = source.event()
    active = source.generation([event])
    queued = source.generation([source.event()], active=False)
    claimed = pack.claim(event["EventId"])
    assert pack.executor().round() is False, "the lease is another's"

    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))

    assert item_row(active)["ProjectionActiveKey"] is None
    assert item_row(queued)["ProjectionActiveKey"] == source.key
    assert item_row(queued)["State"] == "pending"
    assert claimable() == [queued]


@pytest.mark.evidence("A-35")
def test_queued_successor__is_held_back_until_its_turn(pack):
    source = source_of(pack)
    first = source.event(Status="processing", ClaimToken="another", ClaimedUntil=None)
    source.generation([first])
    second = source.event(SourceLane=LANE)
    queued = source.generation([second], active=False)
    executor = pack.executor()
    assert executor.round() is False
    assert executor.report().held_back == {HeldBack.LANE: 1}
    # Also where the lane does not tell: the key does.
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item' WHERE EventId = %s", first["EventId"])
    assert executor.round() is False
    assert executor.report().held_back == {HeldBack.QUEUED: 1}
    assert item_row(queued)["State"] == "pending"


@pytest.mark.evidence("A-35")
def test_keyless_mirror__hands_on_no_key_that_another_generation_has(pack):
    source = source_of(pack)
    event = source.event()
    ended = source.generation([event])
    claimed = pack.claim(event["EventId"])
    change("UPDATE _System_ConnectorWorkItem SET ProjectionActiveKey = NULL WHERE WorkId = %s", ended)
    active = source.generation([source.event()])
    queued = source.generation([source.event()], active=False)
    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))
    keys = [item_row(work_id)["ProjectionActiveKey"] for work_id in (ended, active, queued)]
    assert keys == [None, source.key, None]


def test_projection__whose_range_is_missing_fails_above_the_cutoff_and_runs_alone_below_it(pack, tmp_path):
    source, file = source_of(pack), tmp_path / "given"
    old = source.event({"n": 7, "file": str(file)})
    new = source.event({"n": 8, "file": str(file)}, SourceLane="contact:8")
    change(
        "INSERT INTO _System_ConnectorProjectionProtocol VALUES (%s, 1, %s, UTC_TIMESTAMP(6), 'tests')",
        pack.pack_id,
        old["LaneOrdinal"],
    )
    pack.executor().round()
    assert event_row(old["EventId"])["Status"] == "processed"
    row = event_row(new["EventId"])
    assert (row["Status"], row["LastError"]) == ("failed", "An input of the range is not there.")
    (given,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (given["work_id"], given["ordinals"], given["numbers"]) == (old["EventId"], [old["LaneOrdinal"]], [7])


# The statements


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize("ended", [EventStatus.PROCESSED, EventStatus.SKIPPED, EventStatus.DEAD])
@pytest.mark.parametrize("has_outcome", [True, False])
def test_convergence__makes_the_transitions_of_the_table_and_no_other(pack, ended, has_outcome):
    statement = convergence_of(ended, has_outcome=has_outcome)
    allowed = {
        move.source: move.target
        for move in TRANSITIONS
        if move.made_by is Maker.EVENT_EXECUTOR and move.name == f"converge_{ended}"
    }
    assert set(allowed) == {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED}

    def move(event_id: str) -> int:
        def unit(tx: Tx) -> int:
            event = lock_executed_event(tx, event_id)
            assert event is not None
            (mirror,) = lock_mirrors(event, has_ranges=True)
            return tx.execute(statement, {"work_id": mirror.work_id, "event_id": event_id})

        return db.run(unit, name="tests.converge")

    another = EventStatus.DEAD if ended is not EventStatus.DEAD else EventStatus.SKIPPED
    cases = [(state, ended, 0, "event", None) for state in WorkItemState]
    for state in allowed:
        cases += [
            (state, ended, 1, "event", None),
            (state, ended, 0, "work_item", None),
            (state, ended, 0, "event", "t"),
        ]
        cases += [(state, other, 0, "event", None) for other in (EventStatus.PROCESSING, another)]
    for state, status, attempt, owner, token in cases:
        (event_id,) = pack.events(Status=status, ExecutionOwner=owner)
        work_id = pack.mirror(event_id, State=state, Attempt=attempt, LeaseToken=token)
        before = item_row(work_id)
        follows = (attempt, owner, token, status) == (0, "event", None, ended) and state in allowed
        assert move(event_id) == int(follows), (state, status, attempt, owner, token)
        after = item_row(work_id)
        if not follows:
            assert after == before
        else:
            outcome = allowed[state] if has_outcome else None
            assert (after["State"], after["Outcome"]) == (allowed[state], outcome)
            assert (after["TerminalAt"] is not None) == has_outcome


@pytest.mark.evidence("A-35")
def test_end__locks_the_event_then_the_mirror_then_the_successor(pack, monkeypatch):
    source = source_of(pack)
    event = source.event()
    source.generation([event])
    source.generation([source.event()], active=False)
    claimed = pack.claim(event["EventId"])
    seen: list[tuple[str, list[LockRank]]] = []
    execute = Tx.execute

    def watched(tx, statement, params=None):
        count = execute(tx, statement, params)
        seen.append((statement.name, list(tx.lock_trace)))
        return count

    monkeypatch.setattr(Tx, "execute", watched)
    finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))
    assert [name for name, _ in seen] == ["END_EVENT", "CONVERGE_PROCESSED", "ACTIVATE_SUCCESSOR"]
    assert seen[-1][1] == [LockRank.EVENT, LockRank.WORK_ITEM, LockRank.WORK_ITEM]


@pytest.mark.evidence("A-35")
def test_end__that_cannot_converge_ends_nothing(pack, monkeypatch):
    """All or nothing: an Event never ends without its mirror."""
    (event_id,) = pack.events()
    work_id = pack.mirror(event_id)
    claimed = pack.claim(event_id)
    broken = replace(legacy.CONVERGE_PROCESSED, text="UPDATE _System_ConnectorWorkItem SET NoSuchColumn = 1")
    monkeypatch.setattr("integration.legacy.convergence.convergence_of", lambda status, has_outcome: broken)
    before = event_row(event_id), item_row(work_id)
    with pytest.raises(Exception, match="NoSuchColumn"):
        finish.conclude(claimed, Verdict(ended=Ended.COMPLETE))
    assert (event_row(event_id), item_row(work_id)) == before
