"""The facts that the rules of a replay are asked about, and where they are read.

A plan reads all of them without locks. The replay reads the ids so, locks the rows in rank order, and builds
the same facts from the locked rows; what the pack row serializes (route, fences) it reads again under its lock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from integration.authority.listing import FenceSummary
from integration.states import EventStatus, ExecutionClass, PackStatus, WorkItemState, stored
from integration.storage.db import Reader, Row
from integration.storage.probe import WORK_ITEM_TABLE, Capabilities
from integration.storage.sql import cutovers
from integration.storage.sql import replay_facts as sql

_CLASSES: Final = {member.value: member for member in ExecutionClass}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """The Event of the original: identity, and the executor's fields that a replay may look at.

    Attributes:
        snapshot_class: What the route's immutable snapshot says of the class; None when there is none, or it
            cannot be read.
    """

    event_id: str
    org_id: str
    namespace: str
    pack_install_id: str
    route_id: str
    route_version: int
    snapshot_class: ExecutionClass | None
    event_kind: str
    work_type: str
    source_lane: str | None
    execution_owner: str
    status: str
    replayed: bool

    @classmethod
    def from_row(cls, row: Row) -> EventFacts:
        """Read a row of either statement, locked or not."""
        return cls(
            event_id=row["EventId"],
            org_id=row["OrgId"],
            namespace=row["Namespace"],
            pack_install_id=row["PackInstallId"],
            route_id=row["RouteId"],
            route_version=row["RouteVersion"],
            snapshot_class=class_of_snapshot(row["RouteSnapshot"]),
            event_kind=row["EventKind"],
            work_type=row["WorkType"],
            source_lane=row["SourceLane"],
            execution_owner=row["ExecutionOwner"],
            status=stored(EventStatus, row["Status"]),
            replayed=row["ReplayedAt"] is not None,
        )


def class_of_snapshot(text: str | None) -> ExecutionClass | None:
    """Return the execution class that a route's snapshot names; None where it cannot be told.

    A snapshot may be older than what this build reads of a route, so nothing else in it is looked at.
    """
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    named = found.get("execution") if isinstance(found, dict) else None
    return _CLASSES.get(named) if isinstance(named, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItemFacts:
    """One WorkItem that names the Event. Without the columns for it, none was ever replayed."""

    work_id: str
    work_type: str
    state: str
    attempt: int
    is_projection: bool
    replayed: bool

    @classmethod
    def from_row(cls, row: Row) -> WorkItemFacts:
        """Read a row of either statement, locked or not."""
        return cls(
            work_id=row["WorkId"],
            work_type=row["WorkType"],
            state=stored(WorkItemState, row["State"]),
            attempt=row["Attempt"],
            is_projection=row["ProjectionKey"] is not None,
            replayed=row.get("ReplayedAt") is not None,
        )

    @property
    def execution_class(self) -> ExecutionClass:
        """The class that the generation's identity tells."""
        return ExecutionClass.SOURCE_PROJECTION if self.is_projection else ExecutionClass.PER_EVENT


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFacts:
    """A pack incarnation."""

    pack_install_id: str
    pack_name: str
    pack_version: str
    incarnation: int
    status: str
    catalog_revision: int
    catalog_digest: str

    @classmethod
    def from_row(cls, row: Row) -> PackFacts:
        """Read a row of either statement, locked or not."""
        return cls(
            pack_install_id=row["PackInstallId"],
            pack_name=row["PackName"],
            pack_version=row["PackVersion"],
            incarnation=row["Incarnation"],
            status=stored(PackStatus, row["Status"]),
            catalog_revision=row["CatalogRevision"],
            catalog_digest=row["CatalogDigest"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """A live route; `is_resolved` tells whether its definition can be read by this build."""

    route_id: str
    route_version: int
    work_type: str
    execution_class: str
    flow: str
    is_resolved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What else of a projection's source scope is nonterminal.

    Attributes:
        work_ids: Generations, queued ones too, whatever their pack, route, work type and projection.
        event_ids: Events that no WorkItem executes.
    """

    work_ids: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverFacts:
    """The newest cutover receipt of an incarnation: who executes there.

    Attributes:
        direction: `forward` to WorkItems, `rollback` to the Event executor.
        owner_generation: The generation of that ownership, from 1.
    """

    direction: str
    owner_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFacts:
    """What the schema holds of a WorkItem.

    Attributes:
        has_work_items: A WorkItem can be stored.
        has_additive: It holds failure and replay facts.
        has_ranges: It holds its input range.
        is_torn: The table is there and lacks columns that every WorkItem has.
        is_complete: Nothing that is declared is missing; no step of an upgrade makes it smaller.
    """

    has_work_items: bool = False
    has_additive: bool = False
    has_ranges: bool = False
    is_torn: bool = False
    is_complete: bool = False

    @classmethod
    def of(cls, found: Capabilities) -> SchemaFacts:
        """Return what a probe found."""
        return cls(
            has_work_items=found.has_work_items,
            has_additive=found.has_additive,
            has_ranges=found.has_ranges,
            is_torn=not found.has_work_items and WORK_ITEM_TABLE not in found.missing_tables,
            is_complete=found.is_complete,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the rules ask about; None where an earlier fact is missing.

    Attributes:
        may_view: The actor held the view permission.
        may_replay: The actor held the replay permission.
        is_found: The reference names a row.
        schema: What the schema holds.
        event: The original's Event.
        items: The WorkItems that name it; on a schema without WorkItems none.
        has_child: A generation names the original as the one it replays.
        has_event_child: An Event names the original's Event as the one it replays.
        original_pack: The incarnation that admitted the original.
        pack: The incarnation of the same namespace and pack name that the replay goes to.
        route: That incarnation's live route for the original's event kind.
        cutover: That incarnation's newest cutover receipt; None before its first.
        expected_route_version: The route version that the caller confirmed.
        fences: Armed fences over the namespace and event kind.
        scope: What else of the source is to run; None unless the original is a projection's.
    """

    may_view: bool
    may_replay: bool
    is_found: bool = False
    schema: SchemaFacts = SchemaFacts()
    event: EventFacts | None = None
    items: tuple[WorkItemFacts, ...] = ()
    has_child: bool = False
    has_event_child: bool = False
    original_pack: PackFacts | None = None
    pack: PackFacts | None = None
    route: RouteFacts | None = None
    cutover: CutoverFacts | None = None
    expected_route_version: int | None = None
    fences: tuple[FenceSummary, ...] = ()
    scope: Scope | None = None

    @property
    def item(self) -> WorkItemFacts | None:
        """The WorkItem that owns or mirrors the original, if there is exactly one."""
        return self.items[0] if len(self.items) == 1 else None

    @property
    def execution_class(self) -> ExecutionClass | None:
        """The original's execution class, or None where it cannot be told.

        A generation's identity tells it. Of an Event alone its route's immutable snapshot tells; without one, an
        Event that names no source lane cannot have been a projection's.

        Rule: A-13.
        """
        if self.item is not None:
            return self.item.execution_class
        if self.event is None or self.items:
            return None
        if self.event.snapshot_class is None and self.event.source_lane is None:
            return ExecutionClass.PER_EVENT
        return self.event.snapshot_class

    @property
    def has_scope(self) -> bool:
        """Whether the replay asks what else of the original's source is to run."""
        return (
            self.execution_class is ExecutionClass.SOURCE_PROJECTION
            and self.event is not None
            and self.event.source_lane is not None
            and (self.schema.has_ranges or not self.schema.has_additive)
        )


def read_event(reader: Reader, event_id: str) -> EventFacts | None:
    """Read the Event, or None."""
    row = reader.fetch_one(sql.READ_EVENT_FACTS, {"event_id": event_id})
    return None if row is None else EventFacts.from_row(row)


def read_work_items(reader: Reader, event_id: str, *, is_old_schema: bool = False) -> tuple[WorkItemFacts, ...]:
    """Read the WorkItems that name an Event, under both work types, by id."""
    statement = sql.READ_WORK_ITEM_FACTS_OF_OLD_SCHEMA if is_old_schema else sql.READ_WORK_ITEM_FACTS
    return tuple(WorkItemFacts.from_row(row) for row in reader.fetch_all(statement, {"event_id": event_id}))


def read_cutover(reader: Reader, pack_install_id: str) -> CutoverFacts | None:
    """Read an incarnation's newest cutover receipt, or None before its first."""
    row = reader.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack_install_id})
    if row is None:
        return None
    return CutoverFacts(direction=row["Direction"], owner_generation=row["OwnerGeneration"])


def read_pack(reader: Reader, pack_install_id: str) -> PackFacts | None:
    """Read an incarnation, or None."""
    row = reader.fetch_one(sql.READ_PACK_FACTS, {"pack_install_id": pack_install_id})
    return None if row is None else PackFacts.from_row(row)


def find_active_pack(reader: Reader, namespace: str, pack_name: str) -> PackFacts | None:
    """Find the active incarnation of a pack, or None."""
    row = reader.fetch_one(sql.FIND_ACTIVE_PACK, {"namespace": namespace, "pack_name": pack_name})
    return None if row is None else PackFacts.from_row(row)


def find_live_route_row(reader: Reader, pack_install_id: str, event_kind: str) -> Row | None:
    """Find an incarnation's live route for an event kind, or None."""
    params = {"pack_install_id": pack_install_id, "event_kind": event_kind}
    return reader.fetch_one(sql.FIND_LIVE_ROUTE, params)


def list_fences(reader: Reader, namespace: str, event_kind: str) -> tuple[FenceSummary, ...]:
    """List the armed fences over an event kind, oldest first."""
    rows: list[dict[str, Any]] = reader.fetch_all(
        sql.LIST_FENCES_OVER, {"namespace": namespace, "event_kind": event_kind}
    )
    return tuple(
        FenceSummary(
            fence_id=row["FenceId"],
            scope=row["Scope"],
            armed_at=row["ArmedAt"],
            armed_by=row["ArmedBy"],
            expires_at=row["ExpiresAt"],
            is_overridden=bool(row["IsOverridden"]),
        )
        for row in rows
    )
