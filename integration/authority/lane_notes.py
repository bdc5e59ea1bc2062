"""What a plan says of a dead row's source lane: whether it went on without the row, and past how much."""

from __future__ import annotations

from typing import Final

from integration.authority.facts import Facts
from integration.storage.db import Reader
from integration.storage.sql import replay_facts as sql
from integration.work.rules import rules_of

#: Where counting stops.
CAP: Final = 1000


def lane_notes(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """Return what an operator should know of the lane before a replay.

    Args:
        reader: Where to read.
        facts: The facts of the plan.

    Returns:
        A sentence, or nothing for a row without a lane.

    Locks: none.
    """
    if facts.event is None or facts.event.source_lane is None or len(facts.items) != 1 or not facts.schema.has_ranges:
        return ()
    place = reader.fetch_one(sql.READ_LANE_PLACE, {"work_id": facts.items[0].work_id})
    if place is None or place["LanePosition"] is None:
        return ()
    counts = {
        row["IsEnded"]: int(row["Found"])
        for row in reader.fetch_all(sql.COUNT_LANE_AFTER, {**_lane(place), "cap": CAP})
    }
    ended, waiting = counts.get(1, 0), counts.get(0, 0)
    if place["RouteId"] in rules_of(place["PackInstallId"]).stopping_routes and place["ReplayedAt"] is None:
        return (
            f"The source lane waits at the row: {_items(waiting)} behind it. A replay lets the lane go on, and the"
            " child runs after them.",
        )
    return (
        f"The source lane went on without the row: {_items(ended)} of it ended since,"
        f" and the child runs after the {_items(waiting)} that it holds by now.",
    )


def _lane(place: dict[str, object]) -> dict[str, object]:
    return {
        "namespace": place["Namespace"],
        "source_lane": place["SourceLane"],
        "pack_install_id": place["PackInstallId"],
        "position": place["LanePosition"],
    }


def _items(count: int) -> str:
    if count >= CAP:
        return f"{CAP} items or more"
    return f"{count} item{'' if count == 1 else 's'}"
