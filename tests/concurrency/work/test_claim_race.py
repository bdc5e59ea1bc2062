from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import race
from tests.support.work import Pack, change, query

pytestmark = pytest.mark.django_db(transaction=True)
RACERS = "tests.concurrency.work.racers:claim_every_row"


def race_for(count: int, racers: int, database_url: str, folder: Path, *, guarded: bool = True) -> Counter[str]:
    one = {"count": count, "folder": str(folder), "racers": racers, "guarded": guarded}
    won = race(RACERS, [one] * racers, database_url)
    return Counter(work_id for mine in won for work_id in mine)


@pytest.mark.evidence("K-01")
@pytest.mark.parametrize(("count", "racers"), [(1, 8), (150, 6)])
def test_claim__of_one_row_by_many_processes_has_one_winner(database_url, tmp_path, count, racers):
    ids = Pack().admit(count)

    winners = race_for(count, racers, database_url, tmp_path)

    assert winners == Counter(ids)
    rows = query("SELECT WorkId, State, Attempt, OwnershipEpoch FROM _System_ConnectorWorkItem ORDER BY WorkId")
    assert [(row["State"], row["Attempt"], row["OwnershipEpoch"]) for row in rows] == [("processing", 1, 1)] * count
    attempts = query("SELECT WorkId, Attempt, OwnershipEpoch FROM _System_ConnectorExecutionAttempt ORDER BY WorkId")
    assert [(row["WorkId"], row["Attempt"], row["OwnershipEpoch"]) for row in attempts] == [
        (work_id, 1, 1) for work_id in sorted(ids)
    ]
    owners = query("SELECT DISTINCT ExecutionOwner FROM _System_ConnectorEvent")
    assert owners == [{"ExecutionOwner": "work_item"}]


@pytest.mark.evidence("K-01")
def test_later_claim__of_one_row_by_many_processes_has_one_winner(database_url, tmp_path):
    ids = Pack().admit(40)
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1")
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item'")

    winners = race_for(40, 6, database_url, tmp_path)

    assert winners == Counter(ids)
    rows = query("SELECT State, Attempt, OwnershipEpoch FROM _System_ConnectorWorkItem")
    assert [(row["State"], row["Attempt"], row["OwnershipEpoch"]) for row in rows] == [("processing", 2, 2)] * 40
    attempts = query("SELECT WorkId FROM _System_ConnectorExecutionAttempt WHERE Attempt = 2")
    assert {row["WorkId"] for row in attempts} == set(ids)


def test_claim__without_its_guards_has_several_winners(database_url, tmp_path):
    Pack().admit(10)

    winners = race_for(10, 3, database_url, tmp_path, guarded=False)

    assert max(winners.values()) > 1, "the race would not have been noticed"
