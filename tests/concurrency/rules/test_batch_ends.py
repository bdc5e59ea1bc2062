"""Rule 7: a batch of ends takes its WorkIds sorted, and leaves projections to single transactions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from integration.ingress.service import materialize_ready
from integration.projection.sweep import find_keyless_heads
from tests.concurrency.rules import batch_racers
from tests.support import admission
from tests.support.meetings import hold_until_waited_for
from tests.support.processes import race
from tests.support.sessions import Session
from tests.support.work import Pack, query

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{batch_racers.__name__}:play"
DEADLOCK = 1213


def play(database_url: str, folder: Path, *parts: dict[str, Any]) -> list[dict[str, Any]]:
    return race(PLAY, [{**part, "folder": str(folder)} for part in parts], database_url)


def overlap(database_url: str, folder: Path, *, sorted_ids: bool) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """End two batches of six items that overlap by two, given in opposite orders, while each holds a row of its own."""
    ids = sorted(Pack().admit(6))
    first, second = play(
        database_url,
        folder,
        {"part": "end_first", "sorted_ids": sorted_ids},
        {"part": "end_second", "sorted_ids": sorted_ids},
    )
    rows = query("SELECT State, Attempt, OwnershipEpoch FROM _System_ConnectorWorkItem")
    assert [(row["State"], row["Attempt"], row["OwnershipEpoch"]) for row in rows] == [("succeeded", 1, 1)] * 6
    return ids, first, second


def test_batches__that_overlap_and_come_in_opposite_orders__meet_no_deadlock(database_url: str, tmp_path: Path) -> None:
    ids, first, second = overlap(database_url, tmp_path, sorted_ids=True)

    # Within an epoch an end is told to whoever asks with its token.
    assert (first["ended"], second["ended"]) == (ids[:4], ids[2:])
    assert DEADLOCK not in first["met"] + second["met"]


def test_batches__that_go_through_their_rows_in_the_order_given__meet_a_deadlock(
    database_url: str, tmp_path: Path
) -> None:
    """The negative control: the same two batches, not sorted. The door runs the loser again."""
    ids, first, second = overlap(database_url, tmp_path, sorted_ids=False)

    assert DEADLOCK in first["met"] + second["met"], "the race would not have been noticed"
    assert sorted(first["ended"] + second["ended"]) == ids


def test_statement__of_rows_that_are_not_sorted__locks_none_of_them_out_of_order(engine: str, tmp_path: Path) -> None:
    """Why the control goes row by row: in one statement the order of the list alone does not matter here."""
    low, middle, high = sorted(Pack().admit(3))
    touch = "UPDATE _System_ConnectorWorkItem SET UpdatedAt = UTC_TIMESTAMP(6) WHERE WorkId IN (%s, %s, %s)"
    name = str(connections["default"].settings_dict["NAME"])
    holder, writer, probe = Session(name), Session(name, lock_wait_seconds=120), Session(name)
    try:
        for session in (holder, writer, probe):
            session.begin()
        holder.run(touch, [middle] * 3)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(writer.run, touch, [high, middle, low])
            hold_until_waited_for(tmp_path, "_System_ConnectorWorkItem")
            held = [work_id for work_id in (low, high) if probe.refused(touch, [work_id] * 3)]
            probe.rollback()
            holder.rollback()
            assert waiting.result() == 3
    finally:
        for session in (holder, writer, probe):
            session.close()
    # MariaDB follows the index; the embedded store of TiDB takes all rows of a statement or none.
    assert held == ([low] if engine == "mariadb" else [])


def end_meets_admission(database_url: str, folder: Path, *, together: bool = False) -> tuple[list[str], list[str]]:
    """End a batch of two generations and two items while an admission queues a successor behind each generation.

    Returns:
        The WorkIds of the successors, and those of them that have their key.
    """
    admission.activate()
    admission.inputs(1, 2)
    admission.inputs(3, 4, event=admission.PER_EVENT)
    assert materialize_ready() == 4
    before = sorted(row["WorkId"] for row in query("SELECT WorkId FROM _System_ConnectorWorkItem"))
    admission.inputs(1, 2)
    admitted, ended = play(database_url, folder, {"part": "admit"}, {"part": "end_generations", "together": together})
    assert admitted["receipts"] == 2
    assert ended["ended"] == before
    assert DEADLOCK not in admitted["met"] + ended["met"]
    states = query("SELECT WorkId, State, ProjectionActiveKey FROM _System_ConnectorWorkItem ORDER BY WorkId")
    assert [row["State"] for row in states if row["WorkId"] in before] == ["succeeded"] * 4
    queued = [row for row in states if row["WorkId"] not in before]
    assert [row["State"] for row in queued] == ["pending"] * 2
    return [row["WorkId"] for row in queued], [row["WorkId"] for row in queued if row["ProjectionActiveKey"]]


@pytest.mark.evidence("P-24")
def test_batch__that_meets_an_admission__leaves_each_successor_its_key(database_url: str, tmp_path: Path) -> None:
    queued, keyed = end_meets_admission(database_url, tmp_path)

    assert keyed == queued
    assert (find_keyless_heads(), admission.unowned_inputs()) == ((), {})


def test_batch__that_ends_generations_too__leaves_successors_without_their_key(
    database_url: str, tmp_path: Path
) -> None:
    """The negative control: the batch's statement without its condition on projections."""
    _, keyed = end_meets_admission(database_url, tmp_path, together=True)

    assert keyed == []


@pytest.mark.evidence("P-24")
def test_end__whose_successor_has_the_smaller_id__runs_a_deadlock_again_and_hands_over(
    database_url: str, engine: str, tmp_path: Path
) -> None:
    admission.activate()
    admission.inputs(1)
    assert materialize_ready() == 1
    admission.inputs(1)
    admitted, ended = play(database_url, tmp_path, {"part": "extend_queued"}, {"part": "end_before_handoff"})

    assert admitted["receipts"] == 1
    first, second = admission.generations()
    assert (ended["ended"], second["WorkId"]) == ([first["WorkId"]], batch_racers.SMALL_ID)
    assert (first["State"], second["State"]) == ("succeeded", "pending")
    assert admission.ranges() == [(1, 1, False), (2, 3, True)]
    assert (find_keyless_heads(), admission.unowned_inputs()) == ((), {})
    if engine == "mariadb":
        # It locks one row after the other. The embedded store takes all rows of a statement or none.
        assert DEADLOCK in admitted["met"] + ended["met"]


@pytest.mark.evidence("A-26", "P-24")
def test_end__that_meets_a_replay_the_other_way_around__runs_a_deadlock_again_and_hands_over(
    database_url: str, engine: str, tmp_path: Path
) -> None:
    """The successor has the smaller id: the replay locks it, then the ended one, which its end holds before it."""
    admission.activate()
    admission.inputs(1)
    assert materialize_ready() == 1
    (dead,) = admission.generations()
    admission.claim_row(dead["WorkId"])
    admission.end_row(dead["WorkId"], "dead")
    admission.inputs(1)
    assert materialize_ready() == 1
    admission.inputs(1)
    replayed, ended = play(
        database_url, tmp_path, {"part": "replay_dead", "work_id": dead["WorkId"]}, {"part": "end_before_handoff"}
    )

    assert replayed["outcome"] == "active_generation_in_scope"
    _, first, second = admission.generations()
    assert (ended["ended"], second["WorkId"]) == ([first["WorkId"]], batch_racers.SMALL_ID)
    assert (first["State"], second["State"]) == ("succeeded", "pending")
    assert admission.ranges() == [(1, 1, False), (2, 2, False), (3, 3, True)]
    assert query("SELECT 1 FROM _System_ConnectorWorkItem WHERE ReplayedAt IS NOT NULL") == []
    assert find_keyless_heads() == ()
    if engine == "mariadb":
        assert DEADLOCK in replayed["met"] + ended["met"]
