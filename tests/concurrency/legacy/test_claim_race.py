"""An Event's two claims exclude each other by the Event's row alone, even where the packs' fences do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.legacy import LegacyPack
from tests.support.processes import race
from tests.support.work import query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACERS = "tests.concurrency.legacy.racers"


def owners(event_ids: list[str]) -> dict[str, tuple]:
    """Return of each Event who has it: owner, status, whether it is claimed, and its WorkItem's state and attempt."""
    rows = query(
        "SELECT e.EventId, e.ExecutionOwner, e.Status, e.ClaimToken IS NOT NULL AS IsClaimed, w.State, w.Attempt"
        " FROM _System_ConnectorEvent e JOIN _System_ConnectorWorkItem w ON w.EventId = e.EventId"
    )
    return {
        row["EventId"]: (row["ExecutionOwner"], row["Status"], row["IsClaimed"], row["State"], row["Attempt"])
        for row in rows
        if row["EventId"] in event_ids
    }


BY_EVENT = ("event", "processing", 1, "pending", 0)
BY_ITEM = ("work_item", "pending", 0, "processing", 1)


def cut_over_pack(count: int) -> tuple[LegacyPack, list[str]]:
    """Return a pack that both sides take for theirs, and its mirrored Events."""
    pack = LegacyPack(direction="forward", flow="tests.noop")
    pack.route()
    pack.admit(count)
    return pack, [row["EventId"] for row in query("SELECT EventId FROM _System_ConnectorEvent ORDER BY EventId")]


@pytest.mark.evidence("A-35", "K-01")
def test_claims__of_the_same_events_by_executors_and_workers_have_one_winner_each(database_url):
    pack, event_ids = cut_over_pack(60)
    won = race(
        f"{RACERS}:claim_each",
        [
            {"role": "event", "pack_id": pack.pack_id},
            {"role": "item", "pack_id": pack.pack_id},
            {"role": "item", "pack_id": pack.pack_id},
        ],
        database_url,
    )
    assert Counter(event_id for mine in won for event_id in mine) == Counter(event_ids)
    expected = dict.fromkeys(won[0], BY_EVENT) | dict.fromkeys([*won[1], *won[2]], BY_ITEM)
    assert owners(event_ids) == expected
    attempts = query("SELECT COUNT(*) AS Found FROM _System_ConnectorExecutionAttempt")
    assert attempts == [{"Found": len(won[1]) + len(won[2])}]


@pytest.mark.evidence("A-35", "K-01")
@pytest.mark.parametrize("first", ["event", "item"])
def test_claim__that_waits_for_the_others_row_finds_it_taken(database_url, tmp_path, first):
    pack, (event_id,) = cut_over_pack(1)
    second = "item" if first == "event" else "event"
    winner, loser = race(
        f"{RACERS}:meet",
        [
            {"role": first, "pack_id": pack.pack_id, "folder": str(tmp_path), "is_first": True},
            {"role": second, "pack_id": pack.pack_id, "folder": str(tmp_path), "is_first": False},
        ],
        database_url,
    )
    assert (winner, loser) == ([event_id], [])
    assert owners([event_id]) == {event_id: BY_EVENT if first == "event" else BY_ITEM}


def test_claim__without_its_guards_takes_an_event_that_a_worker_has(database_url, tmp_path):
    """The negative control: the same meeting, what the Event must still be taken out of the executor's claim."""
    pack, (event_id,) = cut_over_pack(1)
    folder = str(tmp_path)
    worker, executor = race(
        f"{RACERS}:meet",
        [
            {"role": "item", "pack_id": pack.pack_id, "folder": folder, "is_first": True},
            {"role": "event", "pack_id": pack.pack_id, "folder": folder, "is_first": False, "guarded": False},
        ],
        database_url,
    )
    assert (worker, executor) == ([event_id], [event_id]), "the race would not have been noticed"


@pytest.mark.evidence("A-35")
def test_executors__of_one_pack_execute_each_event_once(database_url):
    pack = LegacyPack(flow="tests.record")
    pack.route()
    event_ids = pack.events(40, payload={"file": "/dev/null"})
    reports = race(f"{RACERS}:execute", [{"pack_id": pack.pack_id}] * 3, database_url)
    assert sum(report["ended"].get("processed", 0) for report in reports) == len(event_ids)
    rows = query("SELECT DISTINCT Status, RetryCount FROM _System_ConnectorEvent")
    assert rows == [{"Status": "processed", "RetryCount": 0}]


@pytest.mark.evidence("A-35")
def test_scheduler_lease__taken_by_many_processes_is_held_under_distinct_epochs(database_url):
    pack = LegacyPack()
    taken = race(f"{RACERS}:take_leases", [{"pack_id": pack.pack_id, "count": 15}] * 4, database_url)
    epochs = sorted(epoch for mine in taken for epoch in mine)
    assert epochs == list(range(1, 61))


def take_one_each(database_url: str, folder: Path, *, guarded: bool) -> list[int | None]:
    """Let one take the lease and give it back after the other has looked at it and before it swaps."""
    shared = {"pack_id": LegacyPack().pack_id, "folder": str(folder)}
    return race(
        f"{RACERS}:take_one",
        [{"is_first": True, **shared}, {"is_first": False, "guarded": guarded, **shared}],
        database_url,
    )


@pytest.mark.evidence("A-35")
def test_scheduler_lease__that_was_taken_since_the_look_is_not_taken(database_url, tmp_path):
    assert take_one_each(database_url, tmp_path, guarded=True) == [1, None]


def test_scheduler_lease__without_its_epoch_is_held_twice_under_one(database_url, tmp_path):
    """The negative control."""
    assert take_one_each(database_url, tmp_path, guarded=False) == [1, 1]
