"""Two projection cutovers at once, and one beside an admission and beside claims: real processes, with controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.cutover import projection_racers as racers
from tests.support import admission
from tests.support.old_projections import OldPack, audit_rows, history, protocol_rows
from tests.support.processes import race
from tests.support.work import change, query

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{racers.__name__}:play"


def play(database_url: str, folder: Path, *parts: dict[str, Any]) -> list[Any]:
    return race(PLAY, [{"folder": str(folder), **part} for part in parts], database_url)


def prepare() -> str:
    pack = OldPack()
    for number in range(4):
        pack.lane(number).coalesced()
    return pack.settle()


@pytest.mark.evidence("P-16", "P-17")
def test_cutovers__at_once__have_one_checkpoint(database_url: str, tmp_path: Path):
    pack_id = prepare()
    before = history()

    answers = play(
        database_url, tmp_path, *({"part": "cut_over", "pack_id": pack_id, "name": f"racer-{n}"} for n in range(4))
    )

    assert sorted(answer["is_new"] for answer in answers) == [False, False, False, True]
    assert len({(answer["cutoff"], answer["at"], answer["by"]) for answer in answers}) == 1
    (row,) = protocol_rows()
    assert (row["LegacyMaxOrdinal"], row["WrittenBy"]) == (12, answers[0]["by"])
    assert audit_rows() == [("projection.cut_over", "done")]
    assert history() == before


def overlapping(database_url: str, folder: Path, *removed: str) -> list[dict[str, Any]]:
    """Cut over twice, the second while the first has written and not committed; guards are the second's."""
    pack_id = prepare()
    return play(
        database_url,
        folder,
        {"part": "cut_over_first", "pack_id": pack_id, "name": "first"},
        {"part": "cut_over_second", "pack_id": pack_id, "name": "second", "removed": removed},
    )


@pytest.mark.evidence("P-16")
def test_cutover__behind_another_that_has_not_committed__returns_its_checkpoint(database_url: str, tmp_path: Path):
    first, second = overlapping(database_url, tmp_path)

    assert (first["is_new"], second["is_new"]) == (True, False)
    assert (second["cutoff"], second["at"], second["by"]) == (first["cutoff"], first["at"], "first")


def test_cutover__without_the_look_under_the_lock_and_the_key__is_written_twice(database_url: str, tmp_path: Path):
    """The control: what makes the first checkpoint the only one is gone, and the second takes its place."""
    first, second = overlapping(database_url, tmp_path, "key")

    assert (first["is_new"], second["is_new"]) == (True, True)
    (row,) = protocol_rows()
    assert row["WrittenBy"] == "second"


def beside_an_admission(database_url: str, folder: Path, *removed: str) -> tuple[dict[str, Any], int]:
    """Cut over while an admission that saw no fence holds its transaction; return the answer and the last ordinal."""
    pack_id = admission.activate()
    change("DELETE FROM _System_ConnectorProjectionProtocol")
    admission.inputs(1, event=admission.PER_EVENT)
    admitted, answer = play(
        database_url,
        folder,
        {"part": "admit", "is_waited_for": not removed},
        {"part": "arm_and_cut_over", "pack_id": pack_id, "removed": removed},
    )
    assert admitted == 1
    (row,) = query("SELECT MAX(LaneOrdinal) AS last FROM _System_ConnectorEvent")
    return answer, row["last"]


@pytest.mark.evidence("P-14")
def test_cutover__beside_an_admission__sees_what_it_admits_and_refuses(database_url: str, tmp_path: Path):
    answer, last = beside_an_admission(database_url, tmp_path)

    assert (answer, last) == ({"reason": "history_changed"}, 1)
    assert protocol_rows() == []


def test_cutover__beside_an_admission_without_locks__draws_the_line_before_an_old_input(
    database_url: str, tmp_path: Path
):
    """The control: the cutoff is stored as 0, and an input of the old protocol stands above it."""
    answer, last = beside_an_admission(database_url, tmp_path, "locks")

    assert (answer["is_new"], answer["cutoff"], last) == (True, 0, 1)


@pytest.mark.evidence("P-14", "P-17")
def test_cutover__beside_claims__waits_until_the_last_generation_has_ended(database_url: str, tmp_path: Path):
    pack = OldPack()
    for number in range(12):
        pack.lane(number).coalesced(2)
        pack.lane(number).generation()
    pack_id = pack.settle()

    executed, answers = play(
        database_url, tmp_path, {"part": "work"}, {"part": "cut_over_when_it_can", "pack_id": pack_id}
    )

    assert executed == 12
    assert answers[0] == {"reason": "unended_work"}
    assert (answers[-1]["is_new"], answers[-1]["cutoff"]) == (True, 36)
    assert query("SELECT DISTINCT State FROM _System_ConnectorWorkItem") == [{"State": "succeeded"}]
    # Nothing ended after the line was drawn.
    (row,) = query(
        "SELECT COUNT(*) AS later FROM _System_ConnectorWorkItem w JOIN _System_ConnectorProjectionProtocol p"
        " ON p.PackInstallId = w.PackInstallId WHERE w.TerminalAt > p.WrittenAt"
    )
    assert row["later"] == 0
