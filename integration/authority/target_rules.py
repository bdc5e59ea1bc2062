"""The rules that look at where a replay goes, and at what else of the original's source is to run. Pure."""

from __future__ import annotations

from typing import Final

from integration.authority.facts import Facts
from integration.authority.values import OwnerKind, Verdict
from integration.authority.verdicts import find_owner, makes_work_item, no, ok, unasked
from integration.states import ExecutionClass, PackStatus

_FORWARD: Final = "forward"


def decide_pack(facts: Facts) -> Verdict:
    """Ask whether an active incarnation takes the replay."""
    code = "pack_not_active"
    if facts.event is None:
        return unasked(code)
    if facts.pack is not None and facts.pack.status == PackStatus.ACTIVE:
        return ok(
            code,
            f"Incarnation {facts.pack.incarnation} of {facts.pack.pack_name} is active.",
            pack_install_id=facts.pack.pack_install_id,
            pack_version=facts.pack.pack_version,
        )
    name = facts.original_pack.pack_name if facts.original_pack is not None else "the pack"
    return no(
        code,
        f"No incarnation of {name} is active in {facts.event.namespace} at this moment.",
        "Activate one, or try again if a new one was activated just now.",
        {"namespace": facts.event.namespace, "admitted_by": facts.event.pack_install_id},
    )


def decide_admission(facts: Facts) -> Verdict:
    """Ask whether an admission fence stops this event kind."""
    code = "admission_fenced"
    if facts.event is None:
        return unasked(code)
    closed = [fence for fence in facts.fences if not fence.is_overridden]
    if not closed:
        return ok(code, "No admission fence stops this event kind.", fence_count=len(facts.fences))
    fence = closed[0]
    return no(
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
        return unasked(code)
    if facts.route is None:
        return no(
            code,
            f"The active incarnation has no live route for {facts.event.event_kind}.",
            "Activate a pack version that routes this event kind.",
            {"pack_install_id": facts.pack.pack_install_id, "event_kind": facts.event.event_kind},
        )
    found = {"route_version": facts.route.route_version, "admitted_under": facts.event.route_version}
    if facts.expected_route_version not in {None, facts.route.route_version}:
        return no(
            code,
            f"You confirmed route version {facts.expected_route_version};"
            f" version {facts.route.route_version} is live now.",
            "Read the plan again and confirm the version that is live.",
            {**found, "confirmed": facts.expected_route_version},
        )
    return ok(code, f"Route version {facts.route.route_version} is live.", **found)


def decide_snapshot(facts: Facts) -> Verdict:
    """Ask whether the original's execution class can be told."""
    code = "route_snapshot_unavailable"
    if facts.event is None or len(facts.items) > 1:
        return unasked(code)
    if facts.execution_class is not None:
        return ok(code, "The original's execution class can be told.", execution_class=facts.execution_class.value)
    return no(
        code,
        "The Event has a source lane and no WorkItem, and its route snapshot is gone or cannot be read: its class"
        " cannot be proved.",
        "Have the provider send the event anew if the work is still wanted.",
        {"route_id": facts.event.route_id},
    )


def decide_execution_class(facts: Facts) -> Verdict:
    """Ask whether the live route keeps the original's execution class."""
    code = "execution_class_changed"
    original = facts.execution_class
    if facts.route is None or original is None:
        return unasked(code)
    found = {"original": original.value, "route": facts.route.execution_class}
    if original == facts.route.execution_class:
        return ok(code, "The live route keeps the execution class.", **found)
    return no(
        code,
        f"The row was {original.value}; the live route is {facts.route.execution_class}.",
        "Activate a pack version whose route keeps the class, then replay.",
        found,
    )


def decide_scope(facts: Facts) -> Verdict:
    """Ask whether everything else of a projection's source has ended."""
    code = "active_generation_in_scope"
    if facts.event is None or facts.execution_class is None:
        return unasked(code)
    if facts.scope is None and facts.execution_class is ExecutionClass.SOURCE_PROJECTION:
        return no(
            code,
            "The row is a source projection's and names no source lane: what else of its source is to run is unknown.",
            "Find out who wrote the row; have the provider send the event anew if the work is still wanted.",
        )
    if facts.scope is None:
        return ok(code, "Only a source projection asks for other generations of its source.")
    if not facts.scope.work_ids:
        return ok(code, "No other generation of the source is still to run.")
    return no(
        code,
        "Another generation of the same source is still to run, under this projection or another one.",
        "Wait until it has ended, or cancel it; then replay.",
        {"work_ids": list(facts.scope.work_ids)},
    )


def decide_event_only_successor(facts: Facts) -> Verdict:
    """Ask whether an Event of a projection's source waits without a WorkItem."""
    code = "event_only_successor"
    if facts.event is None or facts.execution_class is None:
        return unasked(code)
    if facts.scope is None:
        return ok(code, "Only a source projection asks for Events of its source that have no WorkItem.")
    if not facts.scope.event_ids:
        return ok(code, "No Event of the source waits without a WorkItem.")
    return no(
        code,
        "An Event of the same source is still to run and has no WorkItem yet.",
        "Wait until the Event's own executor has ended it; then replay.",
        {"event_ids": list(facts.scope.event_ids)},
    )


def decide_catalog(facts: Facts) -> Verdict:
    """Ask whether definition and Catalog revision resolve to one thing."""
    code = "catalog_revision_unresolved"
    if facts.pack is None or facts.route is None:
        return unasked(code)
    found = {"catalog_revision": facts.pack.catalog_revision, "catalog_digest": facts.pack.catalog_digest}
    if facts.route.is_resolved and facts.pack.catalog_digest:
        return ok(code, "The route's definition and its Catalog revision are known.", **found)
    return no(
        code,
        "The live route's definition cannot be read by this build.",
        "Install the pack again with this build, or update the build.",
        found,
    )


def decide_binding(facts: Facts) -> Verdict:
    """Ask whether the incarnation's ownership is one under which WorkItems are executed.

    An incarnation without a receipt is before its first cutover: the child's Event and its mirror wait like others.
    """
    code = "binding_generation_stale"
    if facts.pack is None:
        return unasked(code)
    if not facts.schema.has_additive:
        return ok(code, "The Event executor executes here, and takes the child.")
    if facts.cutover is None:
        return ok(code, "The incarnation was never cut over: whoever executes its Events takes the child.")
    found = {"direction": facts.cutover.direction, "owner_generation": facts.cutover.owner_generation}
    if facts.cutover.direction == _FORWARD:
        return ok(code, f"Ownership generation {facts.cutover.owner_generation} executes WorkItems.", **found)
    return no(
        code,
        f"Ownership generation {facts.cutover.owner_generation} is a rollback's: no WorkItem is executed under it.",
        "Cut the incarnation over again, then replay.",
        found,
    )


def decide_materialization(facts: Facts) -> Verdict:
    """Say what the child is; that it cannot be made is only found out when it is."""
    code = "materialization_failed"
    owner = find_owner(facts)
    if owner is None or owner.kind is OwnerKind.AMBIGUOUS:
        return unasked(code)
    if makes_work_item(facts):
        return ok(code, "The child is one Event and one WorkItem, made in the same transaction.")
    return ok(code, "The child is one Event, which the Event executor executes.")
