"""The rules of a replay: one list, asked by the plan and by the replay alike. Pure.

Each rule looks at the facts and answers with its verdict. The replay stops at the first refusal; the plan
shows them all. A rule whose facts are missing says NOT_REACHED: an earlier rule has refused then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from integration.authority.facts import Facts, WorkItemFacts
from integration.authority.gate import decide_owner
from integration.authority.values import Owner, OwnerKind, Ruling, Verdict
from integration.states import EventStatus, ExecutionClass, PackStatus, WorkItemState

Rule = Callable[[Facts], Verdict]

#: States in which a never-claimed mirror can still be ended together with its Event's replay.
_MIRROR_STATES: Final = frozenset(
    {WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED, WorkItemState.DEAD}
)


def _ok(code: str, sentence: str, **facts: Any) -> Verdict:
    return Verdict(code=code, ruling=Ruling.OK, sentence=sentence, facts=facts)


def _no(code: str, sentence: str, next_step: str, facts: Mapping[str, Any] | None = None) -> Verdict:
    return Verdict(code=code, ruling=Ruling.REFUSED, sentence=sentence, facts=facts or {}, next_step=next_step)


def _unasked(code: str) -> Verdict:
    return Verdict(code=code, ruling=Ruling.NOT_REACHED, sentence="Not asked: an earlier rule refuses.")


def find_owner(facts: Facts) -> Owner | None:
    """Return the owner of the original, or None if the row was not read."""
    if facts.event is None:
        return None
    return decide_owner(facts.event, facts.items, has_additive=facts.has_additive)


def _owning_item(facts: Facts) -> WorkItemFacts | None:
    """Return the WorkItem that owns or mirrors the original, if there is exactly one."""
    return facts.items[0] if len(facts.items) == 1 else None


def execution_class_of(facts: Facts) -> ExecutionClass | None:
    """Return the original's execution class, or None where it cannot be told.

    A generation's identity tells it. An Event alone without a source lane cannot have been a projection's;
    with one, only its route snapshot could tell.
    """
    item = _owning_item(facts)
    if item is not None:
        return item.execution_class
    if facts.event is not None and not facts.items and facts.event.source_lane is None:
        return ExecutionClass.PER_EVENT
    return None


def decide_permission(facts: Facts) -> Verdict:
    """Ask whether the actor may see the row and replay it."""
    code = "permission_denied"
    if facts.may_view and facts.may_replay:
        return _ok(code, "You may view and replay connector work.")
    missing = "replay" if facts.may_view else "view"
    return _no(
        code,
        f"You do not have the permission to {missing} connector work.",
        "Ask an administrator for it; a grant counts from the next request.",
    )


def decide_found(facts: Facts) -> Verdict:
    """Ask whether the reference names a row."""
    code = "not_found"
    if not facts.may_view:
        return _unasked(code)
    if facts.is_found and facts.event is not None:
        return _ok(code, "The row is there.", event_id=facts.event.event_id)
    return _no(code, "There is no such row in what you may see.", "Check the id; search the list by it.")


def decide_schema(facts: Facts) -> Verdict:
    """Ask whether the schema can hold the replay's facts."""
    code = "schema_unavailable"
    if facts.event is None:
        return _unasked(code)
    if facts.has_additive and facts.has_ranges:
        return _ok(code, "The database has every column that a replay writes.")
    return _no(
        code,
        "The WorkItem table lacks columns that a replay writes.",
        "Run manage.py install_schema, then try again.",
        {"has_failure_and_replay_columns": facts.has_additive, "has_range_columns": facts.has_ranges},
    )


def decide_owner_is_clear(facts: Facts) -> Verdict:
    """Ask whether exactly one row has authority."""
    code = "ambiguous_owner"
    owner = find_owner(facts)
    if owner is None:
        return _unasked(code)
    if owner.kind is not OwnerKind.AMBIGUOUS:
        return _ok(code, owner.why.sentence, owner=owner.kind.value, rule=owner.why.rule)
    return _no(
        code,
        owner.why.sentence,
        "Find out which of them is right and repair the data; a replay never chooses.",
        owner.why.facts,
    )


def decide_not_reconciled(facts: Facts) -> Verdict:
    """Ask whether the row's end was the legacy executor's, after a rollback."""
    code = "legacy_reconciled"
    item = _owning_item(facts)
    if facts.event is None or len(facts.items) > 1:
        return _unasked(code)
    if item is None or item.state != WorkItemState.RECONCILED_LEGACY_TERMINAL:
        return _ok(code, "No legacy outcome ended this row.")
    return _no(
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
        return _unasked(code)
    item = _owning_item(facts)
    if owner.kind is OwnerKind.WORK_ITEM and item is not None:
        state, is_dead = item.state, item.state == WorkItemState.DEAD
    else:
        state, is_dead = facts.event.status, facts.event.status == EventStatus.DEAD
    if is_dead:
        return _ok(code, "The owner ended dead.", owner=owner.kind.value, state=state)
    return _no(
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
        return _unasked(code)
    item = _owning_item(facts)
    replayed = item.replayed if owner.kind is OwnerKind.WORK_ITEM and item is not None else facts.event.replayed
    if not replayed and not facts.has_child:
        return _ok(code, "Nobody has replayed it.")
    return _no(code, "It was replayed already; a row has one child.", "Open the child and go on from there.")


def decide_event_fence(facts: Facts) -> Verdict:
    """Ask whether an older replay service took the Event before the cut."""
    code = "event_replay_fence"
    owner = find_owner(facts)
    if owner is None or facts.event is None or owner.kind is OwnerKind.AMBIGUOUS:
        return _unasked(code)
    if owner.kind is OwnerKind.EVENT or not facts.event.replayed:
        return _ok(code, "No earlier replay of the Event stands in the way.")
    return _no(
        code,
        "The Event itself was replayed before its work moved to WorkItems, so a second child is refused.",
        "Look for the child of that earlier replay: it names this Event.",
        {"event_id": facts.event.event_id},
    )


def decide_mirror(facts: Facts) -> Verdict:
    """Ask whether a never-claimed mirror can be ended together with its Event's replay."""
    code = "mirror_conflict"
    owner = find_owner(facts)
    if owner is None or owner.kind is OwnerKind.AMBIGUOUS:
        return _unasked(code)
    item = _owning_item(facts)
    if owner.kind is OwnerKind.WORK_ITEM or item is None:
        return _ok(code, "No mirror is involved.")
    if item.state in _MIRROR_STATES and not item.replayed:
        return _ok(code, "The mirror can be ended.", work_id=item.work_id, state=item.state)
    return _no(
        code,
        f"The Event's mirror is {'replayed already' if item.replayed else item.state} and cannot be ended.",
        "Open the mirror and see what it did; the Event's replay would do it twice.",
        {"work_id": item.work_id, "state": item.state},
    )


def decide_pack(facts: Facts) -> Verdict:
    """Ask whether an active incarnation takes the replay."""
    code = "pack_not_active"
    if facts.event is None:
        return _unasked(code)
    if facts.pack is not None and facts.pack.status == PackStatus.ACTIVE:
        return _ok(
            code,
            f"Incarnation {facts.pack.incarnation} of {facts.pack.pack_name} is active.",
            pack_install_id=facts.pack.pack_install_id,
            pack_version=facts.pack.pack_version,
        )
    name = facts.original_pack.pack_name if facts.original_pack is not None else "the pack"
    return _no(
        code,
        f"No incarnation of {name} is active in {facts.event.namespace} at this moment.",
        "Activate one, or try again if a new one was activated just now.",
        {"namespace": facts.event.namespace, "admitted_by": facts.event.pack_install_id},
    )


def decide_admission(facts: Facts) -> Verdict:
    """Ask whether an admission fence stops this event kind."""
    code = "admission_fenced"
    if facts.event is None:
        return _unasked(code)
    closed = [fence for fence in facts.fences if not fence.is_overridden]
    if not closed:
        return _ok(code, "No admission fence stops this event kind.", fence_count=len(facts.fences))
    fence = closed[0]
    return _no(
        code,
        f"An admission fence over {'the namespace' if fence.scope == '*' else fence.scope}"
        f" was armed by {fence.armed_by}.",
        "Wait until it is lifted or expires, or get an override for this event kind.",
        {"fence_ids": [item.fence_id for item in closed], "armed_at": fence.armed_at, "expires_at": fence.expires_at},
    )


def decide_route(facts: Facts) -> Verdict:
    """Ask whether the current route is live, and the one that the caller confirmed."""
    code = "route_not_live"
    if facts.event is None or facts.pack is None or facts.pack.status != PackStatus.ACTIVE:
        return _unasked(code)
    if facts.route is None:
        return _no(
            code,
            f"The active incarnation has no live route for {facts.event.event_kind}.",
            "Activate a pack version that routes this event kind.",
            {"pack_install_id": facts.pack.pack_install_id, "event_kind": facts.event.event_kind},
        )
    found = {"route_version": facts.route.route_version, "admitted_under": facts.event.route_version}
    if facts.expected_route_version not in {None, facts.route.route_version}:
        return _no(
            code,
            f"You confirmed route version {facts.expected_route_version};"
            f" version {facts.route.route_version} is live now.",
            "Read the plan again and confirm the version that is live.",
            {**found, "confirmed": facts.expected_route_version},
        )
    return _ok(code, f"Route version {facts.route.route_version} is live.", **found)


def decide_snapshot(facts: Facts) -> Verdict:
    """Ask whether the original's execution class can be told."""
    code = "route_snapshot_unavailable"
    if facts.event is None or len(facts.items) > 1:
        return _unasked(code)
    if execution_class_of(facts) is not None or facts.event.has_route_snapshot:
        return _ok(code, "The original's execution class can be told.")
    return _no(
        code,
        "The Event has a source lane and no WorkItem, and its route snapshot is gone: its class cannot be proved.",
        "Have the provider send the event anew if the work is still wanted.",
        {"route_id": facts.event.route_id},
    )


def decide_execution_class(facts: Facts) -> Verdict:
    """Ask whether the live route keeps the original's execution class."""
    code = "execution_class_changed"
    original = execution_class_of(facts)
    if facts.route is None or original is None:
        return _unasked(code)
    found = {"original": original.value, "route": facts.route.execution_class}
    if original == facts.route.execution_class:
        return _ok(code, "The live route keeps the execution class.", **found)
    return _no(
        code,
        f"The row was {original.value}; the live route is {facts.route.execution_class}.",
        "Activate a pack version whose route keeps the class, then replay.",
        found,
    )


def decide_scope(facts: Facts) -> Verdict:
    """Ask whether everything else of a projection's source has ended."""
    code = "active_generation_in_scope"
    if facts.event is None or execution_class_of(facts) is None:
        return _unasked(code)
    if facts.scope is None and execution_class_of(facts) is ExecutionClass.SOURCE_PROJECTION:
        return _no(
            code,
            "The row is a source projection's and names no source lane: what else of its source is to run is unknown.",
            "Find out who wrote the row; have the provider send the event anew if the work is still wanted.",
        )
    if facts.scope is None:
        return _ok(code, "Only a source projection asks what else of its source is to run.")
    if not facts.scope.work_ids:
        return _ok(code, "No other generation of the source is still to run.")
    return _no(
        code,
        "Another generation of the same source is still to run, under this projection or another one.",
        "Wait until it has ended, or cancel it; then replay.",
        {"work_ids": list(facts.scope.work_ids)},
    )


def decide_event_only_successor(facts: Facts) -> Verdict:
    """Ask whether an Event of a projection's source waits without a WorkItem."""
    code = "event_only_successor"
    if facts.event is None or execution_class_of(facts) is None:
        return _unasked(code)
    if facts.scope is None:
        return _ok(code, "Only a source projection asks what else of its source is to run.")
    if not facts.scope.event_ids:
        return _ok(code, "No Event of the source waits without a WorkItem.")
    return _no(
        code,
        "An Event of the same source is still to run and has no WorkItem yet.",
        "Wait until the Event's own executor has ended it; then replay.",
        {"event_ids": list(facts.scope.event_ids)},
    )


def decide_catalog(facts: Facts) -> Verdict:
    """Ask whether definition and Catalog revision resolve to one thing."""
    code = "catalog_revision_unresolved"
    if facts.pack is None or facts.route is None:
        return _unasked(code)
    found = {"catalog_revision": facts.pack.catalog_revision, "catalog_digest": facts.pack.catalog_digest}
    if facts.route.is_resolved and facts.pack.catalog_digest:
        return _ok(code, "The route's definition and its Catalog revision are known.", **found)
    return _no(
        code,
        "The live route's definition cannot be read by this build.",
        "Install the pack again with this build, or update the build.",
        found,
    )


def decide_materialization(facts: Facts) -> Verdict:
    """Ask whether this build can make the child: of work that a WorkItem owns."""
    code = "materialization_failed"
    owner = find_owner(facts)
    if owner is None or owner.kind is OwnerKind.AMBIGUOUS:
        return _unasked(code)
    if owner.kind is OwnerKind.EVENT:
        return _no(
            code,
            "The Event has authority over this row, and this version replays rows that a WorkItem owns.",
            "Keep the row; a later version replays it.",
            {"owner": owner.kind.value, "rule": owner.why.rule},
        )
    return _ok(code, "The child is one Event and one WorkItem, made in the same transaction.")


#: Asked in this order, by the plan and by the replay.
RULES: Final[tuple[Rule, ...]] = (
    decide_permission,
    decide_found,
    decide_schema,
    decide_owner_is_clear,
    decide_not_reconciled,
    decide_dead,
    decide_not_replayed,
    decide_event_fence,
    decide_mirror,
    decide_pack,
    decide_admission,
    decide_route,
    decide_snapshot,
    decide_execution_class,
    decide_scope,
    decide_event_only_successor,
    decide_catalog,
    decide_materialization,
)


def judge(facts: Facts) -> tuple[Verdict, ...]:
    """Return every rule's verdict, in order."""
    return tuple(rule(facts) for rule in RULES)


def first_refusal(facts: Facts) -> Verdict | None:
    """Return the first rule's verdict that refuses, or None if all let the replay through."""
    return next((verdict for rule in RULES if (verdict := rule(facts)).ruling is Ruling.REFUSED), None)
