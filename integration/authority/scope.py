"""The source scope of a projection: what else of one source is still to run, whoever executes it.

A scope is a namespace, an event kind and a source lane. It leaves out the pack, the route and the flow, so that a
replay under a new identity is stopped by what an older one has not finished.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from integration.authority.facts import EventFacts, Facts, SchemaFacts, Scope
from integration.projection.inputs import InputsMissing, count_inputs, read_generation
from integration.states import TERMINAL_EVENT_STATUSES, TERMINAL_STATES, ExecutionOwner
from integration.storage.db import Reader
from integration.storage.locks import LockedEvent, LockedWorkItem
from integration.storage.sql import replays as sql

#: More of either refuses all the same.
_LOOK_AT: Final = 16
#: Where counting the inputs of a dead generation stops.
_MOST_INPUTS: Final = 1000


def read_scope(reader: Reader, event: EventFacts, original_ids: Collection[str], schema: SchemaFacts) -> Scope:
    """Read what else of an Event's source scope is nonterminal, by the scope's columns.

    Args:
        reader: Where to read.
        event: The Event, with a source lane.
        original_ids: The WorkItems that are replayed, which do not count.
        schema: What the schema holds; without ranges every unended Event of the scope counts.

    Returns:
        The ids, about sixteen of each kind.

    Rule: A-37.
    """
    params = {
        "namespace": event.namespace,
        "event_kind": event.event_kind,
        "source_lane": event.source_lane,
        "limit": _LOOK_AT + len(original_ids) + 1,
    }
    generations = reader.fetch_all(sql.LIST_NONTERMINAL_OF_SCOPE, params) if schema.has_work_items else []
    alone = sql.LIST_EVENT_ONLY_OF_SCOPE if schema.has_ranges else sql.LIST_UNENDED_EVENTS_OF_SCOPE
    return Scope(
        work_ids=tuple(row["WorkId"] for row in generations if row["WorkId"] not in original_ids),
        event_ids=tuple(row["EventId"] for row in reader.fetch_all(alone, params) if row["EventId"] != event.event_id),
    )


def still_unended(
    event: LockedEvent, events: Sequence[LockedEvent], items: Sequence[LockedWorkItem], original_ids: Collection[str]
) -> Scope:
    """Return what of a scope is still nonterminal, by its locked rows.

    Args:
        event: The original's Event, which does not count.
        events: The scope's Events that no WorkItem executes, as they were read before their lock.
        items: The original's WorkItems and the scope's.
        original_ids: The original's WorkItems, which do not count.
    """
    return Scope(
        work_ids=tuple(
            item.work_id
            for item in items
            if item.work_id not in original_ids and item.row["State"] not in TERMINAL_STATES
        ),
        event_ids=tuple(
            other.event_id
            for other in events
            if other.event_id != event.event_id
            and other.row["ExecutionOwner"] == ExecutionOwner.EVENT
            and other.row["Status"] not in TERMINAL_EVENT_STATUSES
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
    if facts.scope is None or len(facts.items) != 1 or not facts.schema.has_ranges:
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
