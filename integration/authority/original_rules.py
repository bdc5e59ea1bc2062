"""The rules that look at the original: may it be seen, whose is it, did it end dead, was it replayed. Pure."""

from __future__ import annotations

from typing import Final

from integration.authority.facts import Facts
from integration.authority.values import OwnerKind, Verdict
from integration.authority.verdicts import find_owner, no, ok, unasked
from integration.states import EventStatus, ExecutionClass, WorkItemState

#: States in which a never-claimed mirror can still be ended together with its Event's replay.
_MIRROR_STATES: Final = frozenset(
    {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED, WorkItemState.DEAD}
)


def decide_permission(facts: Facts) -> Verdict:
    """Ask whether the actor may see the row and replay it."""
    code = "permission_denied"
    if facts.may_view and facts.may_replay:
        return ok(code, "You may view and replay connector work.")
    missing = "replay" if facts.may_view else "view"
    return no(
        code,
        f"You do not have the permission to {missing} connector work.",
        "Ask an administrator for it; a grant counts from the next request.",
    )


def decide_found(facts: Facts) -> Verdict:
    """Ask whether the reference names a row."""
    code = "not_found"
    if not facts.may_view:
        return unasked(code)
    if facts.is_found and facts.event is not None:
        return ok(code, "The row is there.", event_id=facts.event.event_id)
    return no(code, "There is no such row in what you may see.", "Check the id; search the list by it.")


def decide_schema(facts: Facts) -> Verdict:
    """Ask whether the schema can hold what this replay writes.

    An old schema takes the Event executor's path, which writes an Event; a projection's generation needs a range.

    Rule: A-03.
    """
    code = "schema_unavailable"
    if facts.event is None:
        return unasked(code)
    schema = facts.schema
    found = {
        "has_work_items": schema.has_work_items,
        "has_failure_and_replay_columns": schema.has_additive,
        "has_range_columns": schema.has_ranges,
    }
    next_step = "Run manage.py install_schema, then try again."
    if schema.is_torn:
        return no(code, "The WorkItem table lacks columns that every WorkItem has.", next_step, found)
    if not schema.has_additive:
        return ok(code, "No WorkItem holds a replay here: the Event's own reservation is taken.", **found)
    if not schema.has_ranges and facts.execution_class is ExecutionClass.SOURCE_PROJECTION:
        return no(code, "The WorkItem table has no columns for a projection's range of inputs.", next_step, found)
    return ok(code, "The database has every column that this replay writes.", **found)


def decide_owner_is_clear(facts: Facts) -> Verdict:
    """Ask whether exactly one row has authority."""
    code = "ambiguous_owner"
    owner = find_owner(facts)
    if owner is None:
        return unasked(code)
    if owner.kind is not OwnerKind.AMBIGUOUS:
        return ok(code, owner.why.sentence, owner=owner.kind.value, rule=owner.why.rule)
    return no(
        code,
        owner.why.sentence,
        "Find out which of them is right and repair the data; a replay never chooses.",
        owner.why.facts,
    )


def decide_not_reconciled(facts: Facts) -> Verdict:
    """Ask whether the row's end was the legacy executor's, after a rollback."""
    code = "legacy_reconciled"
    item = facts.item
    if facts.event is None or len(facts.items) > 1:
        return unasked(code)
    if item is None or item.state != WorkItemState.RECONCILED_LEGACY_TERMINAL:
        return ok(code, "No legacy outcome ended this row.")
    return no(
        code,
        "The legacy executor ended this row during a rollback; its identity is not executed again.",
        "Have the provider send the event anew if the work is still wanted.",
        {"work_id": item.work_id},
    )


def decide_dead(facts: Facts) -> Verdict:
    """Ask whether the owner ended dead."""
    code = "not_dead"
    owner = find_owner(facts)
    if owner is None or facts.event is None or owner.kind is OwnerKind.AMBIGUOUS:
        return unasked(code)
    item = facts.item
    if owner.kind is OwnerKind.WORK_ITEM and item is not None:
        state, is_dead = item.state, item.state == WorkItemState.DEAD
    else:
        state, is_dead = facts.event.status, facts.event.status == EventStatus.DEAD
    if is_dead:
        return ok(code, "The owner ended dead.", owner=owner.kind.value, state=state)
    return no(
        code,
        f"The row is {state}, not dead.",
        "Wait for it to end, or cancel it first; only dead work is replayed.",
        {"owner": owner.kind.value, "state": state},
    )


def decide_not_replayed(facts: Facts) -> Verdict:
    """Ask whether the original was replayed before."""
    code = "already_replayed"
    owner = find_owner(facts)
    if owner is None or facts.event is None or owner.kind is OwnerKind.AMBIGUOUS:
        return unasked(code)
    item = facts.item
    replayed = item.replayed if owner.kind is OwnerKind.WORK_ITEM and item is not None else facts.event.replayed
    # A child of the Event whose own mark is set is an older service's: the next rule tells of it.
    has_child = facts.has_child or (
        facts.has_event_child and (owner.kind is OwnerKind.EVENT or not facts.event.replayed)
    )
    if not replayed and not has_child:
        return ok(code, "Nobody has replayed it.")
    return no(code, "It was replayed already; a row has one child.", "Open the child and go on from there.")


def decide_event_fence(facts: Facts) -> Verdict:
    """Ask whether an older replay service took the Event before the cut."""
    code = "event_replay_fence"
    owner = find_owner(facts)
    if owner is None or facts.event is None or owner.kind is OwnerKind.AMBIGUOUS:
        return unasked(code)
    if owner.kind is OwnerKind.EVENT or not facts.event.replayed:
        return ok(code, "No earlier replay of the Event stands in the way.")
    return no(
        code,
        "The Event itself was replayed before its work moved to WorkItems, so a second child is refused.",
        "Look for the child of that earlier replay: it names this Event.",
        {"event_id": facts.event.event_id},
    )


def decide_mirror(facts: Facts) -> Verdict:
    """Ask whether a never-claimed mirror can be ended together with its Event's replay.

    Rule: A-06.
    """
    code = "mirror_conflict"
    owner = find_owner(facts)
    if owner is None or owner.kind is OwnerKind.AMBIGUOUS:
        return unasked(code)
    if len(facts.items) > 1:
        # An old schema's: the Event has authority there whatever names it.
        return no(
            code,
            f"{len(facts.items)} WorkItems name this Event, and a replay ends one.",
            "Find out which of them is right and repair the data; a replay never chooses.",
            {"work_ids": [item.work_id for item in facts.items]},
        )
    item = facts.item
    if owner.kind is OwnerKind.WORK_ITEM or item is None:
        return ok(code, "No mirror is involved.")
    if item.attempt > 0 and item.state != WorkItemState.DEAD:
        return no(
            code,
            f"A WorkItem of the Event was claimed and is {item.state}; this schema cannot tell what became of it.",
            "Run manage.py install_schema: the WorkItem has authority then.",
            {"work_id": item.work_id, "state": item.state, "attempt": item.attempt},
        )
    if item.state in _MIRROR_STATES and not item.replayed:
        return ok(code, "The mirror can be ended.", work_id=item.work_id, state=item.state)
    return no(
        code,
        f"The Event's mirror is {'replayed already' if item.replayed else item.state} and cannot be ended.",
        "Open the mirror and see what it did; the Event's replay would do it twice.",
        {"work_id": item.work_id, "state": item.state},
    )
