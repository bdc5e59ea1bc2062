"""What operators read of bulk replays, without locks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from integration.batches.rights import covers
from integration.batches.values import Batch, BatchItem, BatchNotFound, BatchPage, BatchState, ItemOutcome, Totals
from integration.scopes import EVERYWHERE, Scope
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import replay_batches as sql

PAGE_ROWS: Final = 50
_AFTER_ALL: Final = "~"
#: No namespace has this name, and no row of a bulk replay is said to be there.
_NONE: Final = "-"
_FIELDS: Final = {ItemOutcome.LEFT: "left"}


def get_batch(batch_id: str, *, within: Scope = EVERYWHERE, using: str = "default") -> Batch:
    """Return one bulk replay with its totals.

    Args:
        batch_id: The bulk replay.
        within: Where the reader may look; one that touches a namespace elsewhere is none.
        using: The database alias.

    Raises:
        BatchNotFound: There is none.

    Locks: none.
    """
    reader = db.read(using)
    row = reader.fetch_one(sql.FIND_BATCH, {"id": batch_id})
    if row is None or not _is_seen(batch_id, within, using):
        raise BatchNotFound
    return _make(reader, [row])[0]


def _is_seen(batch_id: str, within: Scope, using: str) -> bool:
    if within.is_everywhere:
        return True
    places = list_places(batch_id, using=using)
    return bool(places) and covers(within, places)


def list_places(batch_id: str, *, using: str = "default") -> tuple[str, ...]:
    """Return the namespaces of a bulk replay's rows, sorted; `UNKNOWN` among them stands for any.

    Locks: none.
    """
    rows = db.read(using).fetch_all(sql.LIST_BATCH_PLACES, {"id": batch_id})
    return tuple(row["namespace"] for row in rows)


def list_batches(
    before: str | None = None, limit: int = PAGE_ROWS, *, within: Scope = EVERYWHERE, using: str = "default"
) -> BatchPage:
    """Return a page of bulk replays, newest first.

    Args:
        before: `older` of another page.
        limit: Bulk replays on the page.
        within: Where the reader may look; those that touch a namespace elsewhere are left out.
        using: The database alias.

    Locks: none.
    """
    reader = db.read(using)
    statement, params = sql.LIST_BATCHES, {"before": before or _AFTER_ALL, "limit": limit + 1}
    if not within.is_everywhere:
        statement, params = sql.LIST_BATCHES_WITHIN, {**params, "namespaces": within.namespaces or (_NONE,)}
    rows = reader.fetch_all(statement, params)
    batches = _make(reader, rows[:limit])
    return BatchPage(batches=tuple(batches), older=batches[-1].id if len(rows) > limit else None)


def list_items(
    batch_id: str, after: int = 0, limit: int = PAGE_ROWS, *, using: str = "default"
) -> tuple[BatchItem, ...]:
    """Return items in their order, from behind a position.

    Locks: none.
    """
    rows = db.read(using).fetch_all(sql.LIST_BATCH_ITEMS, {"id": batch_id, "after": after, "limit": limit})
    return tuple(
        BatchItem(
            position=row["position"],
            ref=f"{row['ref_kind']}:{row['ref_id']}" if row["ref_kind"] != "any" else row["ref_id"],
            namespace=row["namespace"],
            event_kind=row["event_kind"],
            source_lane=row["source_lane"],
            outcome=ItemOutcome(row["outcome"]),
            code=row["code"],
            child_work_id=row["child_work_id"],
            child_event_id=row["child_event_id"],
            ended_at=row["ended_at"],
        )
        for row in rows
    )


def refusals(batch_id: str, *, using: str = "default") -> dict[str, int]:
    """Return how many items each code refused.

    Locks: none.
    """
    rows = db.read(using).fetch_all(sql.COUNT_BATCH_REFUSALS, {"id": batch_id})
    return {row["code"]: int(row["Found"]) for row in rows}


def _make(reader: Reader, rows: Sequence[Row]) -> list[Batch]:
    if not rows:
        return []
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for part in reader.fetch_all(sql.COUNT_BATCH_OUTCOMES, {"ids": tuple(sorted(row["id"] for row in rows))}):
        outcome = ItemOutcome(part["outcome"])
        counts[part["batch_id"]][_FIELDS.get(outcome, outcome.value)] = int(part["Found"])
    return [_batch(row, Totals(**counts[row["id"]])) for row in rows]


def _batch(row: Row, totals: Totals) -> Batch:
    return Batch(
        id=row["id"],
        state=BatchState(row["state"]),
        created_at=row["created_at"],
        created_by_id=row["created_by_id"],
        created_by_name=row["created_by_name"],
        reason=row["reason"],
        selection=json.loads(row["selection"]),
        selection_digest=row["selection_digest"],
        total=row["total"],
        is_capped=bool(row["is_capped"]),
        left_out=row["left_out"],
        canary=row["canary"],
        is_past_canary=bool(row["is_past_canary"]),
        halt_after=row["halt_after"],
        per_minute=row["per_minute"],
        resumed_at=row["resumed_at"],
        ended_at=row["ended_at"],
        halt_code=row["halt_code"],
        totals=totals,
    )
