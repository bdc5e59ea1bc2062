"""What a plan says of the lane of the row that it would replay."""

from __future__ import annotations

import pytest

from integration.authority import lane_notes, service
from tests.support.authority import MARIA, World, change, definition

pytestmark = pytest.mark.django_db
LANE = {"SourceLane": "prospect:1"}


def notes(world: World, ref) -> list[str]:
    return [note for note in service.plan(ref, MARIA).notes if "lane" in note]


def test_plan__of_a_passing_route_says_what_went_by_and_what_comes_before_the_child():
    world = World()
    world.work("succeeded", **LANE)
    dead = world.work(**LANE)
    for state in ("succeeded", "cancelled", "pending", "blocked", "retry"):
        world.work(state, **LANE)
    world.work("pending", SourceLane="prospect:2")
    assert notes(world, dead) == [
        "The source lane went on without the row: 2 items of it ended since, and the child runs after the 3 items"
        " that it holds by now."
    ]


def test_plan__of_a_blocking_route_says_that_the_lane_waits():
    world = World()
    change("UPDATE _System_ConnectorRoute SET Definition = %s", definition(world.kind, on_dead="block"))
    dead = world.work(**LANE)
    world.work("pending", **LANE)
    assert notes(world, dead) == [
        "The source lane waits at the row: 1 item behind it. A replay lets the lane go on, and the child runs after"
        " them."
    ]
    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", dead.id)
    assert notes(world, dead)[0].startswith("The source lane went on without the row")


def test_plan__counts_up_to_a_cap(monkeypatch):
    world = World()
    dead = world.work(**LANE)
    for _ in range(3):
        world.work("pending", **LANE)
    monkeypatch.setattr(lane_notes, "CAP", 3)
    assert "the 3 items or more that it holds" in notes(world, dead)[0]


def test_plan__of_a_row_without_a_lane_says_nothing_of_one():
    world = World()
    assert notes(world, world.work(event={"SourceLane": None}, SourceLane=None)) == []
