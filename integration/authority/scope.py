"""The source scope of a projection: what else of one source is still to run, whoever executes it.

A scope is a namespace, an event kind and a source lane. It leaves out the pack, the route and the flow, so that a
replay under a new identity is stopped by what an older one has not finished.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from integration.authority.facts import EventFacts, Facts, Scope
from integration.projection.inputs import InputsMissing, count_inputs, read_generation
from integration.states import TERMINAL_EVENT_STATUSES, TERMINAL_STATES, ExecutionOwner
from integration.storage.db import Reader
from integration.storage.locks import LockedEvent, LockedPack, LockedWorkItem, lock_events, lock_work_items_of_scope
from integration.storage.sql import replays as sql

#: More of either refuses all the same.
_LOOK_AT: Final = 16
#: Where counting the inputs of a dead generation stops.
_MOST_INPUTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedScope:
    """What a replay of a projection holds.

    Attributes:
        event: The original's Event.
        items: The WorkItems that name it.
        scope: What else of the scope is nonterminal, as it was read under the locks.
    """

    event: LockedEvent
    items: list[LockedWorkItem]
    scope: Scope


def read_scope(reader: Reader, event: EventFacts, original_ids: Collection[str]) -> Scope:
    """Read what else of an Event's source scope is nonterminal.

    Args:
        reader: Where to read.
        event: The Event, with a source lane.
        original_ids: The WorkItems that are replayed, which do not count.

    Returns:
        The ids, at most sixteen of each kind.
    """
    params = {
        "namespace": event.namespace,
        "event_kind": event.event_kind,
        "source_lane": event.source_lane,
        "limit": _LOOK_AT + len(original_ids),
    }
    generations = reader.fetch_all(sql.LIST_NONTERMINAL_OF_SCOPE, params)
    events = reader.fetch_all(sql.LIST_EVENT_ONLY_OF_SCOPE, params)
    return Scope(
        work_ids=tuple(row["WorkId"] for row in generations if row["WorkId"] not in original_ids),
        event_ids=tuple(row["EventId"] for row in events if row["EventId"] != event.event_id),
    )


def lock_scope(pack: LockedPack, event: EventFacts, original_ids: Collection[str]) -> LockedScope | None:
    """Lock the original and everything of its scope that is nonterminal, in rank order.

    Nobody can add to the scope meanwhile: admission and replay need the pack, and a state never comes back.

    Args:
        pack: The locked incarnation.
        event: The original's Event, as it was read without locks.
        original_ids: The WorkItems that name it, as they were read without locks.

    Returns:
        What is held, or None when the Event is gone.

    Locks: EVENT, WORK_ITEM, under the pack.
    Rule: A-25.
    """
    found = read_scope(pack.tx, event, original_ids)
    events = {locked.event_id: locked for locked in lock_events(pack, (event.event_id, *found.event_ids))}
    items = lock_work_items_of_scope(pack, (*original_ids, *found.work_ids))
    own = next((locked for key, locked in events.items() if key == event.event_id), None)
    if own is None:
        return None
    return LockedScope(
        event=own,
        items=[item for item in items if item.row["EventId"] == event.event_id],
        scope=Scope(
            work_ids=tuple(
                item.work_id
                for item in items
                if item.work_id not in original_ids and item.row["State"] not in TERMINAL_STATES
            ),
            event_ids=tuple(
                key
                for key, locked in events.items()
                if key != event.event_id
                and locked.row["ExecutionOwner"] == ExecutionOwner.EVENT
                and locked.row["Status"] not in TERMINAL_EVENT_STATUSES
            ),
        ),
    )


def range_notes(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """Name the inputs of a dead generation that its replay does not carry.

    Args:
        reader: Where to read.
        facts: The facts of the plan.

    Returns:
        A sentence for a projection's row, nothing for another.

    Locks: none.
    """
    if facts.scope is None or len(facts.items) != 1:
        return ()
    try:
        generation = read_generation(reader, facts.items[0].work_id)
    except InputsMissing:
        return ("The generation's range of inputs cannot be read; the child carries the Event that it names.",)
    count = count_inputs(reader, generation, cap=_MOST_INPUTS)
    if count <= 1:
        return (f"The generation holds one input, ordinal {generation.last}, and the child carries it.",)
    said = f"{count}" if count < _MOST_INPUTS else f"{count} or more"
    return (
        f"The generation holds {said} inputs, ordinals {generation.first} to {generation.last} of its lane. The child"
        f" carries the last one, {generation.last}, and none of those before it.",
    )
