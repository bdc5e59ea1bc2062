"""The claimed executions of a WorkItem, and how each ended: one derivation for every page that shows them.

Retry and completion write the WorkItem alone, so the newest execution's end is read from there until the next claim
has closed its row.
"""

from __future__ import annotations

from datetime import datetime

from integration.states import TERMINAL_STATES, AttemptOutcome, WorkItemState
from integration.storage.db import Reader, Row
from integration.storage.sql import operator_reads as sql


def read_attempts(reader: Reader, work_id: str) -> list[Row]:
    """Return the newest two hundred executions of a WorkItem, newest first.

    Args:
        reader: Where to read.
        work_id: The WorkItem.
    """
    return reader.fetch_all(sql.LIST_ATTEMPTS_OF_WORK, {"work_id": work_id})


def end_of(
    entry: Row, *, attempt: int, state: str, terminal_at: datetime | None, last_failed_at: datetime | None
) -> tuple[str | None, datetime | None]:
    """Return how and when an execution ended.

    Args:
        entry: A row of `read_attempts`.
        attempt: The WorkItem's attempt: the newest execution has this number.
        state: Its state.
        terminal_at: When it ended, aware UTC.
        last_failed_at: When it last failed, aware UTC.

    Returns:
        The outcome, a state of the WorkItem or an AttemptOutcome, and the time; both None while it runs.
    """
    if entry["Outcome"] is not None:
        return entry["Outcome"], entry["FinishedAt"]
    if entry["Attempt"] != attempt:
        # Nobody closed it: what became of it cannot be told.
        return AttemptOutcome.LOST.value, entry["FinishedAt"]
    if state in TERMINAL_STATES:
        return str(state), entry["FinishedAt"] or terminal_at or last_failed_at
    if state == WorkItemState.PROCESSING:
        return None, None
    return AttemptOutcome.RETRY.value, entry["FinishedAt"] or last_failed_at
