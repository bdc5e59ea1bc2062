"""The page of lanes that are held up: which head each of them waits for, and why."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from integration.work import lanes
from integration.work.lanes import Hold, LaneFilters, read_lanes
from tests.support.work import Pack, change

pytestmark = pytest.mark.django_db


@pytest.fixture
def pack() -> Pack:
    pack = Pack(namespace="acme-sales")
    pack.route(on_dead="block", source_lane="data.id")
    return pack


def _held(**options: object) -> list[tuple[str, str, str, int]]:
    return [
        (lane.source_lane, lane.hold.value, lane.head.work_id, lane.behind)
        for lane in read_lanes(**options).held  # type: ignore[arg-type]
    ]


def _end_dead(work_id: str) -> None:
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'dead', Attempt = 3, TerminalAt = UTC_TIMESTAMP(6)"
        " WHERE WorkId = %s",
        work_id,
    )


def test_lanes__a_dead_head_that_stops_its_lane_comes_first(pack: Pack):
    dead, *_ = pack.admit(3, SourceLane="deal:1")
    _end_dead(dead)
    failed, *_ = pack.admit(5, SourceLane="deal:2")
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1 WHERE WorkId = %s", failed)
    assert _held() == [("deal:1", Hold.DEAD, dead, 2), ("deal:2", Hold.RETRY, failed, 4)]


def test_lanes__a_dead_head_that_was_replayed_stops_nothing(pack: Pack):
    dead, *_ = pack.admit(3, SourceLane="deal:1")
    _end_dead(dead)
    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", dead)
    report = read_lanes()
    assert (report.held, report.flowing) == ((), 1)


def test_lanes__one_that_waits_for_another_lane_is_held_up_even_alone(pack: Pack):
    (blocked,) = pack.admit(
        1, SourceLane="deal:3", TargetLane="account:7", State="blocked", BlockedOn="account.created"
    )
    (lane,) = read_lanes().held
    assert (lane.hold, lane.head.work_id, lane.head.blocked_on, lane.behind) == (
        Hold.BLOCKED,
        blocked,
        "account.created",
        0,
    )


def test_lanes__that_move_are_counted_and_not_listed(pack: Pack):
    running, *_ = pack.admit(2, SourceLane="deal:4")
    change("UPDATE _System_ConnectorWorkItem SET State = 'processing', Attempt = 1 WHERE WorkId = %s", running)
    pack.admit(2, SourceLane="deal:5")
    (alone,) = pack.admit(1, SourceLane="deal:6")
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1 WHERE WorkId = %s", alone)
    pack.admit(2)
    report = read_lanes()
    assert (report.held, report.flowing) == ((), 2)


def test_lanes__the_head_is_exact_however_small_the_sample(pack: Pack):
    head, *_ = pack.admit(4, SourceLane="deal:1")
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'retry', RunAfter = '2100-01-01' WHERE WorkId = %s",
        head,
    )
    (other,) = pack.admit(1, SourceLane="deal:9", State="retry", Attempt=1)
    assert [lane[2] for lane in _held(sample=1)] == []
    change("UPDATE _System_ConnectorWorkItem SET State = 'blocked' WHERE WorkId = %s", head)
    assert _held(sample=1)[0][2] == head
    assert other not in [lane[2] for lane in _held()]


def test_lanes__of_one_namespace_are_of_it_alone(pack: Pack):
    other = Pack(namespace="beta", kind="deal.won")
    for each in (pack, other):
        each.admit(1, SourceLane="deal:1", State="blocked", BlockedOn="x")
    assert {lane.namespace for lane in read_lanes(LaneFilters(namespace="beta")).held} == {"beta"}


def test_lanes__say_when_more_are_held_up_than_are_listed(pack: Pack):
    for number in range(3):
        pack.admit(1, SourceLane=f"deal:{number}", State="blocked", BlockedOn="x")
    report = read_lanes(shown=2)
    assert (len(report.held), report.is_cut) == (2, True)


def test_lanes__page_names_the_head_and_leads_to_it(pack: Pack, viewer: Client):
    assert "No lane is held up" in viewer.get("/lanes/").content.decode()
    dead, *_ = pack.admit(3, SourceLane="deal:1")
    _end_dead(dead)
    (blocked,) = pack.admit(
        1, SourceLane="deal:3", TargetLane="account:7", State="blocked", BlockedOn="account.created"
    )
    text = viewer.get("/lanes/").content.decode()
    assert re.findall(r'data-row href="([^"]+)"', text) == [f"/dlq/{dead}/", f"/work/{blocked}/"]
    assert "replay it, and the lane goes on" in text
    assert "waits for account.created in lane account:7" in text
    narrowed = viewer.get("/lanes/", {"namespace": "nobody"}).content.decode()
    assert "No lane is held up" in narrowed
    assert 200 == viewer.get("/lanes/", {"namespace": "x" * 400}).status_code


def test_lanes__statements_read_ranges_and_keys(pack: Pack, engine: str):
    from integration.storage.sql import lanes as sql
    from tests.db.work.test_plans import faults_of_plan

    pack.admit(200, SourceLane="deal:1")
    params = {"cap": 100, "lanes": 10, "namespace": None, "work_ids": tuple(pack.admit(2, SourceLane="deal:2"))}
    statements = (sql.LIST_SAMPLED_LANES, sql.LIST_FIRST_OF_LANES, sql.LIST_LANE_ITEMS)
    assert [faults for one in statements if (faults := faults_of_plan(engine, one, params))] == []
    assert lanes.SAMPLE <= 2_000
