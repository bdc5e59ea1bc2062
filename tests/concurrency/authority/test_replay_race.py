"""Many processes replay one row: one child, and everybody else is told whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.authority import World, audit_entries, rows_of
from tests.support.processes import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
TARGET = "tests.concurrency.authority.racers:replay"
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"


def run(work_id: str, count: int, database_url: str, mutant: str = "") -> list[dict[str, Any]]:
    arguments = [
        {"work_id": work_id, "name": f"operator-{number}", "user_id": 100 + number, "mutant": mutant}
        for number in range(count)
    ]
    return race(TARGET, arguments, database_url)


def children_of(original: str) -> list[dict[str, Any]]:
    return rows_of(ITEMS, "WorkId <> %s", original)


@pytest.mark.evidence("A-23")
def test_replay__twenty_processes_make_one_child_and_nineteen_are_told_who_won(database_url: str):
    world = World()
    ref = world.work()
    world.work()  # a bystander keeps the tables from being empty of other work
    bystanders = {row["WorkId"] for row in rows_of(ITEMS)}

    results = run(ref.id, 20, database_url)

    (child,) = [row for row in rows_of(ITEMS) if row["WorkId"] not in bystanders]
    (winner,) = [result for result in results if result["outcome"] == "replayed"]
    losers = [result for result in results if result is not winner]
    (original,) = rows_of(ITEMS, "WorkId = %s", ref.id)
    assert (winner["child"], child["ReplayOfWorkId"]) == (child["WorkId"], ref.id)
    assert {result["outcome"] for result in losers} <= {"lost_race", "already_replayed"}
    assert len(losers) == 19
    for loser in losers:
        assert (loser["winner"], loser["child"], loser["event"]) == (winner["name"], child["WorkId"], child["EventId"])
        assert loser["at"].startswith(original["ReplayedAt"].isoformat())
    assert len(rows_of(EVENTS)) == 3
    trail = audit_entries()
    assert [entry["actor_name"] for entry in trail if entry["outcome"] == "done"] == [winner["name"]]
    assert sorted(entry["actor_name"] for entry in trail if entry["outcome"] != "done") == sorted(
        loser["name"] for loser in losers
    )


def test_replay__without_any_guard_makes_a_child_for_each(database_url: str):
    world = World()
    ref = world.work()
    results = run(ref.id, 4, database_url, "no_rule+no_guard+no_keys")
    assert [result["outcome"] for result in results] == ["replayed"] * 4
    assert len(children_of(ref.id)) == 4


@pytest.mark.parametrize("mutant", ["no_rule", "no_rule+no_guard", "pack_unlocked", "no_rule+no_keys"])
def test_replay__with_one_guard_left_still_makes_one_child(database_url: str, mutant: str):
    world = World()
    ref = world.work()
    results = run(ref.id, 4, database_url, mutant)
    assert [result["outcome"] for result in results].count("replayed") == 1, results
    assert len(children_of(ref.id)) == 1
    assert len(rows_of(EVENTS)) == 2
