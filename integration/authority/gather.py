"""Reading the facts of a replay, and what became of a row that was replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from integration.authority import facts as reading
from integration.authority.facts import Facts, RouteFacts
from integration.authority.listing import FenceSummary
from integration.authority.scope import read_scope
from integration.authority.values import Ref, RefKind, Replayed, Target, Winner
from integration.catalog.reads import RouteDefinition, parse_route
from integration.states import ExecutionClass
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import replay_facts as sql
from integration.values import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Serialized:
    """What only a holder of the pack's lock could change: its live route, and the fences that arming put over it."""

    route: RouteDefinition | None
    route_facts: RouteFacts | None
    fences: tuple[FenceSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The facts, and the route's definition for those who need more than the rules do."""

    facts: Facts
    route: RouteDefinition | None = None


def read_facts(reader: Reader, ref: Ref, permissions: Facts, *, route: int | None, using: str = "default") -> Gathered:
    """Read everything that the rules ask about, without locks.

    Args:
        reader: Where to read.
        ref: The row.
        permissions: Facts that hold the actor's permissions and nothing else.
        route: The route version that the caller confirmed.
        using: The database alias, whose schema is probed.

    Returns:
        The facts; nothing is read without the view permission.
    """
    if not permissions.may_view:
        return Gathered(facts=permissions)
    found = capabilities(using)
    base = replace(
        permissions,
        has_additive=found.has_additive,
        has_ranges=found.has_ranges,
        expected_route_version=route,
    )
    event_id = find_event_id(reader, ref, has_work_items=found.has_work_items)
    event = None if event_id is None else reading.read_event(reader, event_id)
    if event is None:
        return Gathered(facts=base)
    items = reading.read_work_items(reader, event.event_id) if found.has_additive else ()
    original_pack = reading.read_pack(reader, event.pack_install_id)
    pack = None if original_pack is None else reading.find_active_pack(reader, event.namespace, original_pack.pack_name)
    serialized = (
        Serialized(route=None, route_facts=None, fences=reading.list_fences(reader, event.namespace, event.event_kind))
        if pack is None
        else read_serialized(reader, pack.pack_install_id, event.namespace, event.event_kind)
    )
    has_scope = found.has_ranges and len(items) == 1 and items[0].is_projection and event.source_lane is not None
    facts = replace(
        base,
        is_found=True,
        event=event,
        items=items,
        has_child=found.has_additive and has_child(reader, [item.work_id for item in items]),
        original_pack=original_pack,
        pack=pack,
        route=serialized.route_facts,
        fences=serialized.fences,
        scope=read_scope(reader, event, {item.work_id for item in items}) if has_scope else None,
    )
    return Gathered(facts=facts, route=serialized.route)


def find_event_id(reader: Reader, ref: Ref, *, has_work_items: bool) -> str | None:
    """Return the Event that a reference leads to, or None; an id of either kind is tried as a WorkId first."""
    if ref.kind is not RefKind.EVENT and has_work_items:
        row = reader.fetch_one(sql.FIND_EVENT_OF_WORK_ITEM, {"work_id": ref.id})
        if row is not None:
            return str(row["EventId"])
    return None if ref.kind is RefKind.WORK_ITEM else ref.id


def read_serialized(reader: Reader, pack_install_id: str, namespace: str, event_kind: str) -> Serialized:
    """Read the live route and the fences; under the pack's lock neither can change before its end."""
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
    return Serialized(route=route, route_facts=route_facts, fences=reading.list_fences(reader, namespace, event_kind))


def _parse(row: Row) -> RouteDefinition | None:
    """Parse a route, or return None if this build cannot; pydantic's errors are ValueErrors."""
    try:
        return parse_route(row)
    except ValueError:
        return None


def has_child(reader: Reader, work_ids: Sequence[str]) -> bool:
    """Return whether a generation names one of these as the one it replays."""
    return any(reader.fetch_one(sql.READ_LINEAGE_CHILD, {"work_id": work_id}) is not None for work_id in work_ids)


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


def find_winner(reader: Reader, facts: Facts) -> Winner | None:
    """Return whose replay made the row's child, or None if the row was not read."""
    if facts.event is None:
        return None
    work_id = facts.items[0].work_id if len(facts.items) == 1 else None
    child = None if work_id is None else reader.fetch_one(sql.READ_LINEAGE_CHILD, {"work_id": work_id})
    event_child = reader.fetch_one(sql.READ_REPLAY_EVENT, {"event_id": facts.event.event_id})
    entry = reader.fetch_one(sql.FIND_REPLAY_ENTRY, {"ref_id": work_id or facts.event.event_id})
    original = None if work_id is None else reader.fetch_one(sql.READ_LINEAGE_WORK_ITEM, {"work_id": work_id})
    at = original["ReplayedAt"] if original is not None else None
    child_event = event_child["EventId"] if event_child is not None else None
    return Winner(
        actor_name=None if entry is None else entry["ActorName"],
        at=at or (None if entry is None else entry["At"]),
        child_work_id=None if child is None else child["WorkId"],
        child_event_id=child_event or (None if child is None else child["EventId"]),
    )


def find_same_request(
    reader: Reader, ref: Ref, facts: Facts, request_digest: str | None, actor: Actor
) -> Replayed | None:
    """Return the answer that this very request got before, or None if it is another's child."""
    if request_digest is None or len(facts.items) != 1:
        return None
    work_id = facts.items[0].work_id
    entry = reader.fetch_one(sql.FIND_REPLAY_ENTRY, {"ref_id": work_id})
    if entry is None or entry["ActorId"] != actor.user_id:
        return None
    told: dict[str, Any] = json.loads(entry["Facts"])
    if told.get("request") != request_digest:
        return None
    made = find_child_made(reader, ref, facts, told["child_work_id"])
    return None if made is None else replace(made, is_repeat=True)


def find_child_made(reader: Reader, ref: Ref, facts: Facts, child_work_id: str) -> Replayed | None:
    """Return the answer of a replay that made this very child, or None if it did not."""
    work_id = facts.items[0].work_id if len(facts.items) == 1 else ref.id
    original = reader.fetch_one(sql.READ_LINEAGE_WORK_ITEM, {"work_id": work_id})
    child = reader.fetch_one(sql.READ_LINEAGE_CHILD, {"work_id": work_id})
    if original is None or child is None or child["WorkId"] != child_work_id or facts.event is None:
        return None
    event = reader.fetch_one(sql.READ_REPLAY_EVENT, {"event_id": facts.event.event_id})
    if event is None:
        return None
    return Replayed(
        original=Ref(id=work_id, kind=RefKind.WORK_ITEM),
        original_event_id=facts.event.event_id,
        child_work_id=child["WorkId"],
        child_event_id=event["EventId"],
        pack_install_id=event["PackInstallId"],
        route_id=event["RouteId"],
        route_version=event["RouteVersion"],
        lane_ordinal=event["LaneOrdinal"],
        replayed_at=original["ReplayedAt"],
    )
