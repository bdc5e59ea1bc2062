"""An input meets a claim or a completion of its own generation: nothing is lost, nothing that was claimed moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.projection.sweep import find_keyless_heads
from tests.concurrency.projection import admission_racers
from tests.support import admission, webhooks
from tests.support.admission import inputs, ranges, unowned_inputs
from tests.support.processes import race

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{admission_racers.__name__}:play"


def play(database_url: str, *parts: dict[str, Any]) -> list[Any]:
    return race(PLAY, list(parts), database_url)


def prepare() -> None:
    """Leave one untouched generation [1, 2], and an input of it that is stored and not admitted."""
    admission.activate()
    inputs(1, 1)
    admission_racers.service.materialize_ready()
    inputs(1)


def moved(claimed: list[Any]) -> bool:
    """Return whether a claimed generation has other bounds than it was claimed with."""
    return admission_racers.bounds_of(claimed[0]) != claimed


def claim_meets_admission(database_url: str, folder: Path, pause_at: str, *removed: str) -> tuple[str, list[Any]]:
    prepare()
    place = {"folder": str(folder)}
    admitted, claimed = play(
        database_url,
        {"part": "admit", **place, "pause_at": pause_at, "removed": list(removed)},
        {"part": "claim", **place},
    )
    return admitted, claimed


@pytest.mark.evidence("P-09")
def test_claim__between_the_read_and_the_locks__is_seen_and_a_successor_queued(database_url: str, tmp_path: Path):
    admitted, claimed = claim_meets_admission(database_url, tmp_path, "admission.before_locks")

    assert (admitted, claimed[1:3]) == ("1", [1, 2])
    assert not moved(claimed)
    assert ranges() == [(1, 2, True), (3, 3, False)]
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-09")
def test_claim__without_the_locks__is_stopped_by_the_swap_and_nothing_is_lost(database_url: str, tmp_path: Path):
    admitted, claimed = claim_meets_admission(database_url, tmp_path, "admission.after_locks", "locks")

    # The batch failed whole; the next one admits its receipt.
    assert admitted == "0"
    assert not moved(claimed)
    assert ranges() == [(1, 2, True)]
    assert admission_racers.service.materialize_ready() == 1
    assert ranges() == [(1, 2, True), (3, 3, False)]
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-09")
def test_claim__without_the_locks_and_the_swap__has_its_bounds_moved(database_url: str, tmp_path: Path):
    """The negative control: what the guards prevent happens, on either database, as soon as they are gone."""
    admitted, claimed = claim_meets_admission(database_url, tmp_path, "admission.after_locks", "locks", "swap")

    assert admitted == "1"
    assert moved(claimed), "the race would not have been noticed"
    assert ranges() == [(1, 3, True)]


def end_meets_admission(database_url: str, folder: Path, pause_at: str, *removed: str) -> tuple[str, list[Any]]:
    prepare()
    place = {"folder": str(folder)}
    admitted, ended = play(
        database_url,
        {"part": "admit", **place, "pause_at": pause_at, "removed": list(removed)},
        {"part": "end", **place},
    )
    return admitted, ended


@pytest.mark.evidence("P-24")
def test_completion__between_the_read_and_the_locks__is_seen_and_the_input_active(database_url: str, tmp_path: Path):
    admitted, ended = end_meets_admission(database_url, tmp_path, "admission.before_locks")

    assert admitted == "1"
    assert not moved(ended)
    assert ranges() == [(1, 2, False), (3, 3, True)]
    assert (unowned_inputs(), find_keyless_heads()) == ({}, ())


@pytest.mark.evidence("P-24")
def test_completion__without_the_locks__leaves_a_successor_without_its_key(database_url: str, tmp_path: Path):
    """The negative control: the admission queues behind a generation that has ended meanwhile."""
    admitted, _ = end_meets_admission(database_url, tmp_path, "admission.after_locks", "locks")

    assert admitted == "1"
    assert ranges() == [(1, 2, False), (3, 3, False)]
    assert set(unowned_inputs()) == {"keyless heads"}
    assert len(find_keyless_heads()) == 1


@pytest.mark.evidence("P-01", "P-09", "P-24", "P-04")
def test_race__of_admissions_with_claims_and_completions__loses_nothing(database_url: str, tmp_path: Path):
    admission.activate()
    place = {"folder": str(tmp_path)}
    names, lanes, rounds = ["a", "b"], 3, 12
    parts = [{"part": "admit_all", **place, "lanes": lanes, "rounds": rounds, "name": name} for name in names]
    claimers = [{"part": "claim_all", **place, "others": names}] * 2

    first, second, *claimed = play(database_url, *parts, *claimers)

    total = len(names) * lanes * rounds
    assert first + second == total
    assert [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")] == list(range(1, total + 1))
    assert unowned_inputs() == {}
    generations = admission.generations()
    assert {row["State"] for row in generations} == {"succeeded"}
    bounds = {row["WorkId"]: admission_racers.bounds_of(row["WorkId"]) for row in generations}
    seen = [pair for mine in claimed for pair in mine]
    assert sorted(pair[0][0] for pair in seen) == sorted(bounds)
    # At its claim, at its end and for ever after: the same interval.
    assert all(one == last == bounds[one[0]] for one, last in seen)
    assert len(generations) > lanes, "the claims never met an admission"
