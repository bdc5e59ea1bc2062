"""Reading the facts of a replay, and what became of a row that was replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from integration import errors
from integration.authority import facts as reading
from integration.authority.facts import CutoverFacts, Facts, RouteFacts, SchemaFacts
from integration.authority.listing import FenceSummary
from integration.authority.scope import read_scope
from integration.authority.values import (
    REPLAY_PERMISSION,
    VIEW_PERMISSION,
    OwnerKind,
    Ref,
    RefKind,
    Replayed,
    Target,
    Winner,
)
from integration.authority.verdicts import find_owner
from integration.catalog.reads import RouteDefinition, parse_route
from integration.states import ExecutionClass
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import replay_facts as sql
from integration.values import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Serialized:
    """What only a holder of the pack's lock could change: its live route, its ownership, the fences over it."""

    route: RouteDefinition | None
    route_facts: RouteFacts | None
    cutover: CutoverFacts | None
    fences: tuple[FenceSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The facts, and the route's definition for those who need more than the rules do."""

    facts: Facts
    route: RouteDefinition | None = None


def read_facts(reader: Reader, ref: Ref, actor: Actor, *, route: int | None, using: str = "default") -> Gathered:
    """Read everything that the rules ask about, without locks.

    Args:
        reader: Where to read.
        ref: The row.
        actor: Who asks; a row where he may not view is not found.
        route: The route version that the caller confirmed.
        using: The database alias, whose schema is probed.

    Returns:
        The facts; nothing is read without the view permission.
    """
    view, replay = actor.reach(VIEW_PERMISSION), actor.reach(REPLAY_PERMISSION)
    permissions = Facts(may_view=bool(view), may_replay=bool(replay))
    if not view:
        return Gathered(facts=permissions)
    schema = SchemaFacts.of(capabilities(using))
    base = replace(permissions, schema=schema, expected_route_version=route)
    event_id = find_event_id(reader, ref, has_work_items=schema.has_work_items)
    event = None if event_id is None else reading.read_event(reader, event_id)
    if event is None or not view.covers(event.namespace):
        return Gathered(facts=base)
    items = read_items(reader, event.event_id, schema)
    original_pack = reading.read_pack(reader, event.pack_install_id)
    pack = None if original_pack is None else reading.find_active_pack(reader, event.namespace, original_pack.pack_name)
    serialized = (
        Serialized(
            route=None,
            route_facts=None,
            cutover=None,
            fences=reading.list_fences(reader, event.namespace, event.event_kind),
        )
        if pack is None
        else read_serialized(reader, pack.pack_install_id, event.namespace, event.event_kind)
    )
    has_child, has_event_child = read_children(reader, event.event_id, [item.work_id for item in items], schema)
    facts = replace(
        base,
        may_replay=replay.covers(event.namespace),
        is_found=True,
        event=event,
        items=items,
        original_pack=original_pack,
        pack=pack,
        route=serialized.route_facts,
        cutover=serialized.cutover,
        fences=serialized.fences,
        has_child=has_child,
        has_event_child=has_event_child,
    )
    if facts.has_scope:
        facts = replace(facts, scope=read_scope(reader, event, {item.work_id for item in items}, schema))
    return Gathered(facts=facts, route=serialized.route)


def read_items(reader: Reader, event_id: str, schema: SchemaFacts) -> tuple[reading.WorkItemFacts, ...]:
    """Read the WorkItems that name an Event; none on a schema without them."""
    if not schema.has_work_items:
        return ()
    return reading.read_work_items(reader, event_id, is_old_schema=not schema.has_additive)


def find_event_id(reader: Reader, ref: Ref, *, has_work_items: bool) -> str | None:
    """Return the Event that a reference leads to, or None; an id of either kind is tried as a WorkId first."""
    if ref.kind is not RefKind.EVENT and has_work_items:
        row = reader.fetch_one(sql.FIND_EVENT_OF_WORK_ITEM, {"work_id": ref.id})
        if row is not None:
            return str(row["EventId"])
    return None if ref.kind is RefKind.WORK_ITEM else ref.id


def read_serialized(reader: Reader, pack_install_id: str, namespace: str, event_kind: str) -> Serialized:
    """Read the live route, the ownership and the fences; under the pack's lock none can change before its end."""
    row = reading.find_live_route_row(reader, pack_install_id, event_kind)
    route = None if row is None else _parse(row)
    route_facts = None
    if row is not None:
        route_facts = RouteFacts(
            route_id=row["RouteId"],
            route_version=row["RouteVersion"],
            work_type=row["WorkType"],
            execution_class=row["ExecutionClass"],
            flow=f"{row['FlowName']} {row['FlowVersion']}",
            is_resolved=route is not None,
        )
    return Serialized(
        route=route,
        route_facts=route_facts,
        cutover=reading.read_cutover(reader, pack_install_id),
        fences=reading.list_fences(reader, namespace, event_kind),
    )


def _parse(row: Row) -> RouteDefinition | None:
    """Parse a route, or return None if this build cannot; pydantic's errors are ValueErrors."""
    try:
        return parse_route(row)
    except ValueError:
        return None


def read_children(reader: Reader, event_id: str, work_ids: Sequence[str], schema: SchemaFacts) -> tuple[bool, bool]:
    """Return whether a generation, and whether an Event, names the original as the one it replays."""
    has_child = schema.has_additive and any(
        reader.fetch_one(sql.READ_LINEAGE_CHILD, {"work_id": work_id}) is not None for work_id in work_ids
    )
    event_child = reader.fetch_one(sql.READ_REPLAY_EVENT, {"event_id": event_id})
    return has_child, event_child is not None


def target_of(facts: Facts) -> Target | None:
    """Return where a replay would go, as far as it was found."""
    if facts.pack is None:
        return None
    route = facts.route
    return Target(
        pack_install_id=facts.pack.pack_install_id,
        pack_name=facts.pack.pack_name,
        pack_version=facts.pack.pack_version,
        incarnation=facts.pack.incarnation,
        route_id=None if route is None else route.route_id,
        route_version=None if route is None else route.route_version,
        execution_class=None if route is None else ExecutionClass(route.execution_class),
        flow=None if route is None else route.flow,
    )


def notes_of(found: Gathered) -> tuple[str, ...]:
    """Return what an operator should know besides the verdicts."""
    facts, notes = found.facts, []
    if facts.event is None:
        return ()
    if facts.route is not None and facts.route.route_version != facts.event.route_version:
        notes.append(
            f"The row was admitted under route version {facts.event.route_version};"
            f" the child follows version {facts.route.route_version}."
        )
    if facts.pack is not None and facts.pack.pack_install_id != facts.event.pack_install_id:
        notes.append("Another incarnation of the pack admits the child than admitted the row.")
    return tuple(notes)


def audited_id(facts: Facts) -> str | None:
    """Return the id under which the trail keeps a row's replay: the reservation's, a WorkItem's or an Event's."""
    owner = find_owner(facts)
    if owner is None or facts.event is None:
        return None
    return owner.work_id if owner.kind is OwnerKind.WORK_ITEM else facts.event.event_id


def find_winner(reader: Reader, facts: Facts) -> Winner | None:
    """Return whose replay made the row's child, or None if the row was not read."""
    ref_id = audited_id(facts)
    if facts.event is None or ref_id is None:
        return None
    child = _find_work_child(reader, facts)
    event_child = reader.fetch_one(sql.READ_REPLAY_EVENT, {"event_id": facts.event.event_id})
    entry = reader.fetch_one(sql.FIND_REPLAY_ENTRY, {"ref_id": ref_id})
    child_event_id = event_child["EventId"] if event_child is not None else None
    if child is None and child_event_id is not None:
        child = _find_item_of(reader, child_event_id, facts.schema)
    at = _replayed_at(reader, facts)
    return Winner(
        actor_name=None if entry is None else entry["ActorName"],
        at=at or (None if entry is None else entry["At"]),
        child_work_id=None if child is None else child["WorkId"],
        child_event_id=child_event_id or (None if child is None else child["EventId"]),
    )


def _find_work_child(reader: Reader, facts: Facts) -> Row | None:
    """Find the generation that names the original's WorkItem as the one it replays."""
    if facts.item is None or not facts.schema.has_additive:
        return None
    return reader.fetch_one(sql.READ_LINEAGE_CHILD, {"work_id": facts.item.work_id})


def _find_item_of(reader: Reader, event_id: str, schema: SchemaFacts) -> Row | None:
    """Find the one WorkItem of an Event, which lineage does not lead to where nothing was there to name."""
    items = read_items(reader, event_id, schema)
    return {"WorkId": items[0].work_id, "EventId": event_id} if len(items) == 1 else None


def _replayed_at(reader: Reader, facts: Facts) -> datetime | None:
    """Return when the row was reserved, by whoever has authority over it."""
    owner = find_owner(facts)
    row: Row | None = None
    if owner is not None and owner.kind is OwnerKind.WORK_ITEM:
        row = reader.fetch_one(sql.READ_LINEAGE_WORK_ITEM, {"work_id": owner.work_id})
    elif facts.event is not None:
        row = reader.fetch_one(sql.READ_LINEAGE_EVENT, {"event_id": facts.event.event_id})
    return None if row is None else row["ReplayedAt"]


def find_same_request(reader: Reader, facts: Facts, request_digest: str | None, actor: Actor) -> Replayed | None:
    """Return the answer that this very request got before, or None if it is another's child."""
    ref_id = audited_id(facts)
    if request_digest is None or ref_id is None:
        return None
    entry = reader.fetch_one(sql.FIND_REPLAY_ENTRY, {"ref_id": ref_id})
    if entry is None or entry["ActorId"] != actor.user_id:
        return None
    told: dict[str, Any] = json.loads(entry["Facts"])
    if told.get("request") != request_digest:
        return None
    made = find_child_made(reader, facts, told["child_event_id"], told["child_work_id"])
    return None if made is None else replace(made, is_repeat=True)


def find_child_made(reader: Reader, facts: Facts, child_event_id: str, child_work_id: str | None) -> Replayed | None:
    """Return the answer of a replay that made this very child, or None if it did not.

    The child's WorkItem may have moved on to a newer Event; the Event that the replay made stays.
    """
    if facts.event is None:
        return None
    event = reader.fetch_one(sql.READ_REPLAY_EVENT, {"event_id": facts.event.event_id})
    replayed_at = _replayed_at(reader, facts)
    if event is None or event["EventId"] != child_event_id or replayed_at is None:
        return None
    return Replayed(
        original=original_of(facts),
        original_event_id=facts.event.event_id,
        child_work_id=child_work_id,
        child_event_id=child_event_id,
        pack_install_id=event["PackInstallId"],
        route_id=event["RouteId"],
        route_version=event["RouteVersion"],
        lane_ordinal=event["LaneOrdinal"],
        replayed_at=replayed_at,
    )


def original_of(facts: Facts) -> Ref:
    """Return the reference of the row that has authority."""
    if facts.event is None:
        raise errors.InvariantBroken
    owner = find_owner(facts)
    if owner is not None and owner.kind is OwnerKind.WORK_ITEM and owner.work_id is not None:
        return Ref(id=owner.work_id, kind=RefKind.WORK_ITEM)
    return Ref(id=facts.event.event_id, kind=RefKind.EVENT)
