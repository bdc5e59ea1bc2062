"""The ownership gate: who has authority over an Event's work, decided by the database's rows alone.

The rules are asked in the order 4, 5, 1, 2, 3 of the contract: a schema that cannot hold the facts first,
then whether there is one candidate at all. No setting and no memory of the process takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration import errors
from integration.authority.facts import EventFacts, WorkItemFacts, read_event, read_work_items
from integration.authority.values import Owner, OwnerKind, Why
from integration.states import WorkItemState
from integration.storage import db
from integration.storage.probe import capabilities


def owner_of(event_id: str, *, using: str = "default") -> Owner:
    """Return who owns an Event's work.

    Args:
        event_id: The Event.
        using: The database alias.

    Returns:
        The owner, the WorkItem that owns or mirrors it, and the rule that decided.

    Raises:
        EventNotFound: There is no such Event.

    Locks: none.
    Rule: A-34.
    """
    reader = db.read(using)
    event = read_event(reader, event_id)
    if event is None:
        raise errors.EventNotFound
    has_additive = capabilities(using).has_additive
    items = read_work_items(reader, event_id) if has_additive else ()
    return decide_owner(event, items, has_additive=has_additive)


def decide_owner(event: EventFacts, items: Sequence[WorkItemFacts], *, has_additive: bool) -> Owner:
    """Decide who owns an Event's work.

    Args:
        event: The Event.
        items: Its WorkItems under both work types; empty on a schema that cannot hold the facts.
        has_additive: The schema has the WorkItem's failure and replay columns.

    Returns:
        The owner and why; pure.
    """
    if not has_additive:
        return _owner(
            OwnerKind.EVENT,
            None,
            4,
            (
                "old_schema",
                "The WorkItem table has no failure and replay columns here, so the Event keeps authority.",
            ),
            {"event_status": event.status},
        )
    if len(items) > 1:
        return _owner(
            OwnerKind.AMBIGUOUS,
            None,
            5,
            (
                "several_candidates",
                f"{len(items)} WorkItems name this Event, so none of them has authority.",
            ),
            {"candidates": [f"{item.work_id} ({item.work_type}, attempt {item.attempt})" for item in items]},
        )
    if not items:
        return _owner(
            OwnerKind.EVENT,
            None,
            3,
            (
                "event_only",
                "No WorkItem names this Event, so the Event has authority.",
            ),
            {"event_status": event.status, "execution_owner": event.execution_owner},
        )
    (item,) = items
    facts = {"work_type": item.work_type, "attempt": item.attempt, "state": item.state}
    if item.state == WorkItemState.RECONCILED_LEGACY_TERMINAL:
        return _owner(
            OwnerKind.WORK_ITEM,
            item.work_id,
            1,
            (
                "work_item_reconciled",
                "The WorkItem holds the terminal outcome that the legacy executor recorded.",
            ),
            facts,
        )
    if item.attempt > 0:
        return _owner(
            OwnerKind.WORK_ITEM,
            item.work_id,
            1,
            (
                "work_item_claimed",
                f"The WorkItem was claimed (attempt {item.attempt}), so it has authority whatever the Event says.",
            ),
            facts,
        )
    return _owner(
        OwnerKind.EVENT,
        item.work_id,
        2,
        (
            "zero_attempt_mirror",
            "The WorkItem was never claimed: it mirrors the Event, which has authority.",
        ),
        {**facts, "event_status": event.status, "execution_owner": event.execution_owner},
    )


def _owner(kind: OwnerKind, work_id: str | None, rule: int, why: tuple[str, str], facts: dict[str, Any]) -> Owner:
    code, sentence = why
    return Owner(kind=kind, work_id=work_id, why=Why(rule=rule, code=code, sentence=sentence, facts=facts))
