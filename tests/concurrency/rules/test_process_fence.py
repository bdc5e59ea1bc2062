"""Rule 5: an eviction ends only after the claims in flight have, and none is stored after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.rules import racers
from tests.support.processes import race
from tests.support.work import Pack, item_row, query

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{racers.__name__}:play"


def play(database_url: str, folder: Path, first: str, second: str, removed: str) -> list[Any]:
    place = {"folder": str(folder)}
    return race(PLAY, [{"part": first, **place}, {"part": second, "removed": removed, **place}], database_url)


def evict_meets_claim(database_url: str, folder: Path, removed: str = "") -> list[tuple[str, str, str]]:
    """Return of both items what came of the claim, the state when the eviction had returned, and the last state."""
    Pack().admit(2)
    seen, claimed = play(database_url, folder, "evict", "claim", removed)
    return [(outcome, seen[work_id], item_row(work_id)["State"]) for work_id, outcome in claimed]


@pytest.mark.evidence("C-12")
def test_eviction__waits_for_the_claim_in_flight_and_no_claim_follows_it(database_url: str, tmp_path: Path) -> None:
    in_flight, afterwards = evict_meets_claim(database_url, tmp_path)

    assert in_flight == ("claimed", "processing", "processing")
    assert afterwards == ("fenced", "pending", "pending")


def test_eviction__without_the_lock_of_the_own_row__returns_before_a_claim_is_stored(
    database_url: str, tmp_path: Path
) -> None:
    """The negative control: what the eviction found pending is claimed after it has returned."""
    in_flight, afterwards = evict_meets_claim(database_url, tmp_path, "lock")

    assert in_flight == ("claimed", "pending", "processing")
    assert afterwards == ("fenced", "pending", "pending")


def test_eviction__without_the_condition_on_the_own_row__is_followed_by_a_claim(
    database_url: str, tmp_path: Path
) -> None:
    """The negative control: the lock alone stops nobody who comes later."""
    in_flight, afterwards = evict_meets_claim(database_url, tmp_path, "condition")

    assert in_flight == ("claimed", "processing", "processing")
    assert afterwards == ("claimed", "pending", "processing")


def register_meets_cutover(database_url: str, folder: Path, removed: str = "") -> tuple[dict[str, Any], int]:
    """Return what came of the registration, and how many rows that may claim the cutover has left."""
    Pack().admit(1)
    place = {"folder": str(folder), "removed": removed}
    _, registered = race(PLAY, [{"part": "cut_back", **place}, {"part": "fence", **place}], database_url)
    left = query(
        "SELECT ProcessId FROM _System_ConnectorClaimProcess"
        " WHERE PackInstallId IS NOT NULL AND EvictedAt IS NULL AND StoppedAt IS NULL"
    )
    return registered, len(left)


def test_registration__that_meets_a_cutover__comes_after_it_and_is_refused(database_url: str, tmp_path: Path) -> None:
    assert register_meets_cutover(database_url, tmp_path) == ({"fenced": False, "claim": None}, 0)


def test_registration__without_the_lock_of_the_pack__is_a_claimer_that_the_cutover_missed(
    database_url: str, tmp_path: Path
) -> None:
    """The negative control: no range lock keeps the row out. What it observed, which is old, still stops its claims."""
    assert register_meets_cutover(database_url, tmp_path, "pack") == ({"fenced": True, "claim": "fenced"}, 1)
