"""Rule 4: an item's position in its lane never changes, although an extension moves the ordinal of its last input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.ingress.service import materialize_ready
from tests.concurrency.rules import racers
from tests.support import admission
from tests.support.processes import race
from tests.support.work import query

pytestmark = pytest.mark.django_db(transaction=True)
PLAY = f"{racers.__name__}:play"
DEAL = 7


def extend_in_between(database_url: str, folder: Path, *, moving: bool = False) -> tuple[dict[str, Any], str, str]:
    """Extend the generation at the head of a lane between a claimer's look and its claim.

    Returns:
        What the claimer did, the generation's WorkId, and that of the per-event item behind its first input.
    """
    admission.activate()
    admission.inputs(DEAL)
    admission.inputs(DEAL, event=admission.PER_EVENT)
    materialize_ready()
    (generation,) = admission.generations()
    (behind,) = query("SELECT * FROM _System_ConnectorWorkItem WHERE ProjectionKey IS NULL")
    assert (generation["LanePosition"], behind["LanePosition"]) == (1, 2)
    assert generation["SourceLane"] == behind["SourceLane"]
    admission.inputs(DEAL)
    place = {"folder": str(folder)}
    admitted, worked = race(
        PLAY, [{"part": "extend", **place}, {"part": "work_lane", "moving": moving, **place}], database_url
    )
    assert admitted == 1
    (extended,) = admission.generations()
    # The ordinal has moved past the item behind; the position stays.
    assert (extended["InputStartOrdinal"], extended["LaneOrdinal"], extended["LanePosition"]) == (1, 3, 1)
    assert worked["head"] == generation["WorkId"]
    assert worked["lost"] == "race"
    return worked, generation["WorkId"], behind["WorkId"]


@pytest.mark.evidence("K-06", "P-09")
def test_lane__of_a_generation_extended_while_claimed__keeps_its_order(database_url: str, tmp_path: Path) -> None:
    done, generation, behind = extend_in_between(database_url, tmp_path)

    assert done["worked"] == [[generation, 1, 3], [behind, None, 2]]


def test_lane__ordered_by_what_an_extension_moves__is_worked_in_disorder(database_url: str, tmp_path: Path) -> None:
    """The negative control: the second input of the lane is worked before the first one."""
    done, generation, behind = extend_in_between(database_url, tmp_path, moving=True)

    assert done["worked"] == [[behind, None, 2], [generation, 1, 3]]
