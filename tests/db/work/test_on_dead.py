"""`on_dead`: whether a dead item stops its source lane, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.states import FailureClass
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.finish import bury, complete
from tests.support.work import Pack, change, item_row

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-06")]


def die(take, work_id: str) -> None:
    bury(take(work_id), FailureClass.FLOW_REJECTED)


def test_lane__goes_on_past_a_dead_item_by_default(pack, process, queue, take):
    pack.route(source_lane="id")
    first, second = pack.admit(2, SourceLane="deal:1")
    die(take, first)
    assert claim_next(process, queue).work_id == second


def test_lane__of_a_blocking_route_stops_at_its_dead_item_until_it_is_replayed(pack, process, queue, take):
    pack.route(source_lane="id", on_dead="block")
    first, second = pack.admit(2, SourceLane="deal:1")
    (other,) = pack.admit(SourceLane="deal:2")
    die(take, first)

    assert claim_next(process, queue).work_id == other
    assert claim_next(process, queue) is None
    assert queue.saw_closed_lane
    assert item_row(second)["State"] == "pending"

    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", first)
    assert claim_next(process, queue).work_id == second


def test_lane__stops_for_a_dead_item_ahead_and_not_for_one_behind(pack, process, queue, take):
    pack.route(source_lane="id", on_dead="block")
    first, second = pack.admit(2, SourceLane="deal:1")
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'dead', Attempt = 1, TerminalAt = UTC_TIMESTAMP(6)"
        " WHERE WorkId = %s",
        second,
    )
    assert claim_next(process, queue).work_id == first


def test_lane__is_stopped_by_the_dead_items_route_whatever_the_next_ones_says(pack, process, queue, take):
    blocking = pack.route("deal.deleted", source_lane="id", on_dead="block")
    pack.route(source_lane="id")
    (first,) = pack.admit(SourceLane="deal:1", RouteId=blocking)
    (passing,) = pack.admit(SourceLane="deal:1")
    (last,) = pack.admit(SourceLane="deal:1", RouteId=blocking)
    die(take, first)
    assert claim_next(process, queue) is None
    assert [item_row(work_id)["State"] for work_id in (passing, last)] == ["pending"] * 2

    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", first)
    bury(claim_next(process, queue), FailureClass.FLOW_REJECTED)
    assert claim_next(process, queue).work_id == last, "the passing route's dead item stops nobody"


def test_lane__is_stopped_by_a_dead_item_of_an_older_incarnation(db, process):
    older = Pack(namespace="lanes", incarnation=1, status="retired")
    newer = Pack(namespace="lanes", incarnation=2, org_id=older.org_id)
    older.route(source_lane="id", on_dead="block")
    (before,) = older.admit(SourceLane="deal:1")
    (after,) = newer.admit(SourceLane="deal:1")
    queue = CandidateQueue(process)
    bury(claim_next(process, queue), FailureClass.FLOW_REJECTED)
    assert item_row(before)["State"] == "dead"

    assert claim_next(process, queue) is None
    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", before)
    assert claim_next(process, queue).work_id == after


def test_lane__without_a_lane_is_never_stopped(pack, process, queue, take):
    pack.route(on_dead="block")
    first, second = pack.admit(2)
    die(take, first)
    taken = claim_next(process, queue)
    assert taken.work_id == second
    complete(taken)


def test_lanes__that_are_stopped_keep_no_open_one_from_its_turn_however_many_they_are(pack, process):
    pack.route(source_lane="id", on_dead="block")
    lanes = [f"deal:{number}" for number in range(12)]
    for lane in lanes:
        pack.admit(2, SourceLane=lane)
    change(
        "UPDATE _System_ConnectorWorkItem w JOIN (SELECT MIN(LaneOrdinal) AS First FROM _System_ConnectorWorkItem"
        " GROUP BY SourceLane) f ON f.First = w.LaneOrdinal"
        " SET w.State = 'dead', w.Attempt = 1, w.TerminalAt = UTC_TIMESTAMP(6)"
    )
    (open_one,) = pack.admit(SourceLane="deal:open", RunAfter=datetime.now(UTC) - timedelta(seconds=1))
    now = 0.0
    queue = CandidateQueue(process, window=2, clock=lambda: now)

    found = [claim_next(process, queue) for _ in range(3)]
    assert [taken.work_id for taken in found if taken is not None] == [open_one]
    assert found[0] is None, "one round of looks does not come past all of them"

    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE SourceLane = %s", lanes[0])
    now += 10
    taken = claim_next(process, queue)
    assert taken is not None, "a lane that was passed over is looked at again"
    assert taken.item.source_lane == lanes[0]
