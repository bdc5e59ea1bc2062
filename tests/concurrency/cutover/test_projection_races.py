"""Two projection cutovers at once, and one beside admissions, replays and claims: real processes, with controls."""

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


def beside(database_url: str, folder: Path, what: str, *removed: str) -> tuple[dict[str, Any], int]:
    """Cut over while somebody who saw no fence holds its transaction; return the answer and the last ordinal."""
    pack_id = admission.activate()
    change("DELETE FROM _System_ConnectorProjectionProtocol")
    admission.inputs(1, event=admission.PER_EVENT)
    begun = {"part": "begin", "is_waited_for": not removed}
    if what == "replay":
        begun["ref"] = bury(pack_id)
    done, answer = play(
        database_url, folder, begun, {"part": "arm_and_cut_over", "pack_id": pack_id, "removed": removed}
    )
    assert done == {"admission": 1, "replay": "replayed"}[what]
    (row,) = query("SELECT MAX(LaneOrdinal) AS last FROM _System_ConnectorEvent")
    return answer, row["last"]


def bury(pack_id: str) -> str:
    """Admit what waits, and leave its WorkItem as one that has used its attempts up; return its reference."""
    admission.materialize_patiently()
    change(
        "UPDATE _System_ConnectorWorkItem w JOIN _System_ConnectorEvent e ON e.EventId = w.EventId"
        " SET w.State = 'dead', w.Outcome = 'dead', w.Attempt = 3, w.OwnershipEpoch = 3, w.FailureClass = 'flow_error',"
        " w.FailureCount = 3, w.TerminalAt = UTC_TIMESTAMP(6), e.ExecutionOwner = 'work_item'"
        " WHERE w.PackInstallId = %s",
        pack_id,
    )
    (row,) = query("SELECT WorkId FROM _System_ConnectorWorkItem WHERE State = 'dead'")
    return f"work_item:{row['WorkId']}"


#: What began before the fence -> the cutoff that is right without it.
BEGUN = pytest.mark.parametrize(("what", "cutoff"), [("admission", 0), ("replay", 1)])


@BEGUN
@pytest.mark.evidence("P-14")
def test_cutover__beside_what_began_before_the_fence__sees_what_it_adds_and_refuses(
    database_url: str, tmp_path: Path, what: str, cutoff: int
):
    answer, last = beside(database_url, tmp_path, what)

    assert (answer, last) == ({"reason": "history_changed"}, cutoff + 1)
    assert protocol_rows() == []


@BEGUN
def test_cutover__beside_what_began_before_the_fence__without_locks_draws_the_line_before_an_old_input(
    database_url: str, tmp_path: Path, what: str, cutoff: int
):
    """The control: an input of the old protocol stands above the cutoff that is stored."""
    answer, last = beside(database_url, tmp_path, what, "locks")

    assert (answer["is_new"], answer["cutoff"], last) == (True, cutoff, cutoff + 1)


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
