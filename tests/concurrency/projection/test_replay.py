"""A projection's replay meets an admission of its source, or another replay: the pack's row decides who was first."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.ingress.service import materialize_ready
from integration.projection.sweep import find_keyless_heads
from tests.support import admission
from tests.support.authority import audit_entries
from tests.support.processes import race
from tests.support.work import Row, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACER = "tests.concurrency.projection.replay_racers:take_part"


def dead_generation() -> Row:
    admission.activate()
    admission.inputs(1, 1)
    assert materialize_ready() == 2
    (row,) = admission.generations()
    admission.claim_row(row["WorkId"])
    admission.end_row(row["WorkId"], "dead")
    return item_row(row["WorkId"])


def meet(database_url: str, folder: Path, dead: Row, *roles: str) -> list[dict]:
    """Race two roles, the first of which holds the pack until the other waits for it."""
    shared = {"folder": str(folder), "first": roles[0], "work_id": dead["WorkId"]}
    return race(RACER, [{"role": role, **shared} for role in roles], database_url)


@pytest.mark.evidence("P-10")
def test_admission__that_waited_for_a_replay_is_absorbed_by_its_child(database_url, tmp_path):
    dead = dead_generation()
    admission.inputs(1)
    replayed, admitted = meet(database_url, tmp_path, dead, "replay", "admit")
    assert (replayed["outcome"], admitted) == ("replayed", {"receipts": 1})
    assert admission.ranges() == [(1, 2, False), (3, 4, True)]
    child = item_row(replayed["child"])
    assert (child["ReplayOfWorkId"], child["InputStartOrdinal"], child["LaneOrdinal"]) == (dead["WorkId"], 3, 4)
    assert admission.unowned_inputs() == {}


@pytest.mark.evidence("P-10")
def test_replay__that_waited_for_an_admission_is_refused_and_consumes_nothing(database_url, tmp_path):
    dead = dead_generation()
    admission.inputs(1)
    admitted, replayed = meet(database_url, tmp_path, dead, "admit", "replay")
    assert (admitted, replayed["outcome"]) == ({"receipts": 1}, "active_generation_in_scope")
    assert admission.ranges() == [(1, 2, False), (3, 3, True)]
    assert item_row(dead["WorkId"]) == dead
    assert query("SELECT 1 FROM _System_ConnectorEvent WHERE ReplayOfEventId IS NOT NULL") == []
    assert admission.unowned_inputs() == {}


@pytest.mark.evidence("A-23")
def test_replays__of_one_projection_have_one_winner(database_url, tmp_path):
    dead = dead_generation()
    first, second = meet(database_url, tmp_path, dead, "replay", "replay-too")
    assert first["outcome"] == "replayed"
    assert (second["outcome"], second["winner"]) == ("lost_race", "replay")
    assert admission.ranges() == [(1, 2, False), (3, 3, True)]
    assert item_row(dead["WorkId"])["ReplayedAt"] is not None
    assert find_keyless_heads() == ()
    outcomes = [entry["outcome"] for entry in audit_entries() if entry["ref_id"] == dead["WorkId"]]
    assert sorted(outcomes) == ["done", "lost"]
