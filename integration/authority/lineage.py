"""Replay chains, read from `ReplayOfWorkId`: a child may have moved on to another Event since."""

from __future__ import annotations

from typing import Final

from integration import errors
from integration.authority import facts as reading
from integration.authority import gather
from integration.authority.listing import Lineage, LineageNode
from integration.authority.values import Ref
from integration.scopes import EVERYWHERE, Scope
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import replay_facts

#: Generations of a chain that are shown in each direction.
LINEAGE_CAP: Final = 50
#: A reference may be a WorkId as well as an EventId, so the refusal names neither.
NO_ROW: Final = "There is no such row."


def lineage(ref: Ref, *, within: Scope = EVERYWHERE, using: str = "default") -> Lineage:
    """Return the replay chain around a row, read from `ReplayOfWorkId`.

    Args:
        ref: The row; a WorkId is taken as that generation even where its Event has several.
        within: Where the reader may look; a row elsewhere is none.
        using: The database alias.

    Returns:
        What it replays and what replays it, oldest first, fifty generations either way at most.

    Raises:
        EventNotFound: There is no such row.

    Locks: none.
    """
    reader = db.read(using)
    found = capabilities(using)
    event_id = gather.find_event_id(reader, ref, has_work_items=found.has_work_items)
    event = None if event_id is None else reading.read_event(reader, event_id)
    if event is None or event_id is None or not within.covers(event.namespace):
        raise errors.EventNotFound(NO_ROW)
    items = reading.read_work_items(reader, event_id) if found.has_additive else ()
    named = next((item.work_id for item in items if item.work_id == ref.id), None)
    work_id = named or (items[0].work_id if len(items) == 1 else None)
    return lineage_of(reader, work_id, event_id, has_additive=found.has_additive)


def lineage_of(reader: Reader, work_id: str | None, event_id: str, *, has_additive: bool) -> Lineage:
    """Follow a chain from one generation in both directions."""
    ancestors, was_cut_above = _ancestors(reader, work_id, event_id, has_additive=has_additive)
    descendants, was_cut_below = _descendants(reader, work_id, event_id, has_additive=has_additive)
    return Lineage(
        ancestors=tuple(reversed(ancestors)),
        descendants=tuple(descendants),
        is_cut=was_cut_above or was_cut_below,
    )


def _ancestors(
    reader: Reader, work_id: str | None, event_id: str, *, has_additive: bool
) -> tuple[list[LineageNode], bool]:
    nodes: list[LineageNode] = []
    row = _lineage_row(reader, work_id)
    while row is not None and row["ReplayOfWorkId"] is not None:
        if len(nodes) == LINEAGE_CAP:
            return nodes, True
        row = _lineage_row(reader, row["ReplayOfWorkId"])
        if row is not None:
            nodes.append(_node(row))
    # The oldest generation may replay an Event that never had a WorkItem.
    top_event = nodes[-1].event_id if nodes else event_id
    while len(nodes) < LINEAGE_CAP:
        child = reader.fetch_one(replay_facts.READ_LINEAGE_EVENT, {"event_id": top_event})
        if child is None or child["ReplayOfEventId"] is None or (work_id is not None and row is None):
            return nodes, False
        origin = reader.fetch_one(replay_facts.READ_LINEAGE_EVENT, {"event_id": child["ReplayOfEventId"]})
        if origin is None:
            return nodes, False
        nodes.append(_node(origin))
        top_event = origin["EventId"]
    return nodes, True


def _descendants(
    reader: Reader, work_id: str | None, event_id: str, *, has_additive: bool
) -> tuple[list[LineageNode], bool]:
    nodes: list[LineageNode] = []
    current = work_id
    if current is None or not has_additive:
        return _event_descendants(reader, event_id, has_additive=has_additive)
    while True:
        row = reader.fetch_one(replay_facts.READ_LINEAGE_CHILD, {"work_id": current})
        if row is None:
            return nodes, False
        if len(nodes) == LINEAGE_CAP:
            return nodes, True
        nodes.append(_node(row))
        current = row["WorkId"]


def _event_descendants(reader: Reader, event_id: str, *, has_additive: bool) -> tuple[list[LineageNode], bool]:
    """Follow an Event that has no WorkItem: its child names it, and may be a WorkItem's Event itself."""
    child = reader.fetch_one(replay_facts.READ_REPLAY_EVENT, {"event_id": event_id})
    if child is None:
        return [], False
    items = reading.read_work_items(reader, child["EventId"]) if has_additive else ()
    if len(items) != 1:
        return [_node(child)], False
    row = _lineage_row(reader, items[0].work_id)
    rest, was_cut = _descendants(reader, items[0].work_id, child["EventId"], has_additive=has_additive)
    return [_node(row) if row is not None else _node(child), *rest], was_cut


def _lineage_row(reader: Reader, work_id: str | None) -> Row | None:
    if work_id is None:
        return None
    return reader.fetch_one(replay_facts.READ_LINEAGE_WORK_ITEM, {"work_id": work_id})


def _node(row: Row) -> LineageNode:
    return LineageNode(
        work_id=row.get("WorkId"),
        event_id=row["EventId"],
        state=row["State"],
        attempt=row["Attempt"],
        created_at=row["CreatedAt"],
        terminal_at=row["TerminalAt"],
        replayed_at=row["ReplayedAt"],
    )
