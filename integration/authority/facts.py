"""The facts that the rules of a replay are asked about, and where they are read.

A plan reads all of them without locks. The replay reads the ids so, locks the rows in rank order, and builds
the same facts from the locked rows; what the pack row serializes (route, fences) it reads again under its lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from integration.authority.listing import FenceSummary
from integration.states import EventStatus, ExecutionClass, PackStatus, WorkItemState, stored
from integration.storage.db import Reader, Row
from integration.storage.sql import replay_facts as sql


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """The Event of the original: identity, and the executor's fields that a replay may look at."""

    event_id: str
    org_id: str
    namespace: str
    pack_install_id: str
    route_id: str
    route_version: int
    has_route_snapshot: bool
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
            has_route_snapshot=row["RouteSnapshot"] is not None,
            event_kind=row["EventKind"],
            work_type=row["WorkType"],
            source_lane=row["SourceLane"],
            execution_owner=row["ExecutionOwner"],
            status=stored(EventStatus, row["Status"]),
            replayed=row["ReplayedAt"] is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItemFacts:
    """One WorkItem that names the Event."""

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
            replayed=row["ReplayedAt"] is not None,
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
class Facts:
    """Everything that the rules ask about; None where an earlier fact is missing.

    Attributes:
        may_view: The actor held the view permission.
        may_replay: The actor held the replay permission.
        is_found: The reference names a row.
        has_additive: The schema holds the WorkItem's failure and replay facts.
        has_ranges: The schema holds everything that a new WorkItem needs.
        event: The original's Event.
        items: The WorkItems that name it.
        has_child: A generation names the original as the one it replays.
        original_pack: The incarnation that admitted the original.
        pack: The incarnation of the same namespace and pack name that the replay goes to.
        route: That incarnation's live route for the original's event kind.
        expected_route_version: The route version that the caller confirmed.
        fences: Armed fences over the namespace and event kind.
        scope: What else of the source is to run; None unless the original is a projection's.
    """

    may_view: bool
    may_replay: bool
    is_found: bool = False
    has_additive: bool = False
    has_ranges: bool = False
    event: EventFacts | None = None
    items: tuple[WorkItemFacts, ...] = ()
    has_child: bool = False
    original_pack: PackFacts | None = None
    pack: PackFacts | None = None
    route: RouteFacts | None = None
    expected_route_version: int | None = None
    fences: tuple[FenceSummary, ...] = ()
    scope: Scope | None = None


def read_event(reader: Reader, event_id: str) -> EventFacts | None:
    """Read the Event, or None."""
    row = reader.fetch_one(sql.READ_EVENT_FACTS, {"event_id": event_id})
    return None if row is None else EventFacts.from_row(row)


def read_work_items(reader: Reader, event_id: str) -> tuple[WorkItemFacts, ...]:
    """Read the WorkItems that name an Event, under both work types, by id."""
    rows = reader.fetch_all(sql.READ_WORK_ITEM_FACTS, {"event_id": event_id})
    return tuple(WorkItemFacts.from_row(row) for row in rows)


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
