"""Many processes replay one row whose Event has authority: the Event's reservation has one winner and one child."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.authority import World, audit_entries, rows_of
from tests.support.processes import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
TARGET = "tests.concurrency.authority.racers:replay"
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "TerminalAt": "2026-01-01"}


def original(kind: str) -> str:
    """Make a dead row; return its Event's id."""
    if kind == "event_only":
        return World().legacy().id
    if kind == "projection":
        return World(execution="source_projection").legacy().id
    ref = World().work("pending", Attempt=0, event=DEAD_EVENT)
    return str(rows_of(ITEMS, "WorkId = %s", ref.id)[0]["EventId"])


def run(event_id: str, count: int, database_url: str, mutant: str = "") -> list[dict[str, Any]]:
    arguments = [
        {"work_id": event_id, "name": f"operator-{number}", "user_id": 100 + number, "mutant": mutant}
        for number in range(count)
    ]
    return race(TARGET, arguments, database_url)


@pytest.mark.evidence("A-23")
@pytest.mark.parametrize("kind", ["mirror", "event_only", "projection"])
def test_replay__of_an_event_by_many_processes_makes_one_child(database_url: str, kind: str):
    event_id = original(kind)
    results = run(event_id, 6, database_url)
    (winner,) = [result for result in results if result["outcome"] == "replayed"]
    losers = [result for result in results if result is not winner]
    (child,) = rows_of(EVENTS, "ReplayOfEventId = %s", event_id)
    (item,) = rows_of(ITEMS, "EventId = %s", child["EventId"])
    assert item["WorkId"] == winner["child"]
    assert len(rows_of(EVENTS)) == 2
    assert {result["outcome"] for result in losers} <= {"lost_race", "already_replayed"}
    for loser in losers:
        assert (loser["winner"], loser["child"], loser["event"]) == (winner["name"], item["WorkId"], child["EventId"])
    assert [entry["actor_name"] for entry in audit_entries() if entry["outcome"] == "done"] == [winner["name"]]


def test_replay__of_an_event_without_any_guard_makes_a_child_for_each(database_url: str):
    event_id = original("event_only")
    results = run(event_id, 3, database_url, "no_rule+no_event_guard+no_keys")
    assert [result["outcome"] for result in results] == ["replayed"] * 3
    assert len(rows_of(EVENTS)) == 4


@pytest.mark.parametrize("mutant", ["no_rule", "no_rule+no_event_guard", "no_rule+no_keys"])
def test_replay__of_an_event_with_one_guard_left_still_makes_one_child(database_url: str, mutant: str):
    event_id = original("event_only")
    results = run(event_id, 3, database_url, mutant)
    assert [result["outcome"] for result in results].count("replayed") == 1, results
    assert len(rows_of(EVENTS)) == 2
