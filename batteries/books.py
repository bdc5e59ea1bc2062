"""Comparing the books: what was put in, what the tables hold, and what ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.work import change, query

TERMINAL = frozenset({"succeeded", "skipped", "dead", "cancelled"})
Row = dict[str, Any]


def items() -> dict[str, Row]:
    """Return every WorkItem by its id."""
    return {row["WorkId"]: row for row in query("SELECT * FROM _System_ConnectorWorkItem")}


def attempts() -> dict[str, list[Row]]:
    """Return every execution attempt, in order, by WorkId."""
    found: dict[str, list[Row]] = {}
    for row in query("SELECT * FROM _System_ConnectorExecutionAttempt ORDER BY WorkId, Attempt"):
        found.setdefault(row["WorkId"], []).append(row)
    return found


def expire_leases() -> int:
    """Let every live lease be over, as if its owner had been away for long."""
    return change(
        "UPDATE _System_ConnectorWorkItem SET LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND"
        " WHERE State = 'processing'"
    )


def terminal(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows that have ended."""
    return {work_id: row for work_id, row in rows.items() if row["State"] in TERMINAL}


def moved_again(before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
    """Return the items that had ended and were changed afterwards."""
    return [work_id for work_id, row in terminal(before).items() if after.get(work_id) != row]


def crooked(rows: Mapping[str, Row], tried: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the items whose attempt, epoch and attempt rows do not agree, or whose earlier attempts stay open."""
    return [
        work_id
        for work_id, row in rows.items()
        if not row["Attempt"] == row["OwnershipEpoch"] == len(tried.get(work_id, ()))
        or any(attempt["Outcome"] is None for attempt in list(tried.get(work_id, ()))[:-1])
        or any(attempt["Attempt"] != number for number, attempt in enumerate(tried.get(work_id, ()), start=1))
    ]


def ran_too_often(rows: Mapping[str, Row], ran: Sequence[tuple[str, int]]) -> list[str]:
    """Return the items of which an attempt ran twice, or an attempt ran that was never claimed."""
    often = {work_id for (work_id, _), count in Counter(ran).items() if count > 1}
    return sorted(often | {work_id for work_id, number in ran if number > rows[work_id]["Attempt"]})


def uncovered_events() -> list[str]:
    """Return the Events that no WorkItem executes: not as its own, not inside a generation's interval."""
    found = query("SELECT EventId, PackInstallId, EventKind, SourceLane, LaneOrdinal FROM _System_ConnectorEvent")
    owned: set[str] = set()
    spans: dict[tuple[str, str, str | None], list[tuple[int, int]]] = {}
    for row in items().values():
        owned.add(row["EventId"])
        if row.get("InputStartOrdinal") is not None:
            key = (row["PackInstallId"], row["EventKind"], row["SourceLane"])
            spans.setdefault(key, []).append((row["InputStartOrdinal"], row["LaneOrdinal"]))
    return [
        event["EventId"]
        for event in found
        if event["EventId"] not in owned
        and sum(
            low <= event["LaneOrdinal"] <= high
            for low, high in spans.get((event["PackInstallId"], event["EventKind"], event["SourceLane"]), [])
        )
        != 1
    ]
