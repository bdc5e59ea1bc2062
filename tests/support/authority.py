"""Rows for the authority's tests: a pack with a live route, Events with sealed payloads, WorkItems in any state."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections

from integration.authority.values import BULK_PERMISSIONS, Ref
from integration.catalog.documents import RouteRule
from integration.ingress.crypto import SealedColumn, row_aad, seal
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.values import Actor, canonical_json, new_id
from tests.support.rows import insert

PAYLOAD = b'{"data": {"id": 88, "stage": "unknown"}}'
MARIA = Actor(user_id=11, name="maria", remote_addr="192.0.2.4", via="console", permissions=BULK_PERMISSIONS)
BORIS = Actor(user_id=12, name="boris", via="command", permissions=BULK_PERMISSIONS)


def definition(kind: str, *, version: int = 1, execution: str = "per_event", **over: Any) -> str:
    """Return a route's stored definition."""
    values = {
        "event": kind,
        "version": version,
        "execution": execution,
        "flow": {"name": "prospect_sync", "version": 3},
        "source_lane": "data.id",
        "queue": "bulk",
        "payload_schema_version": 2,
        "retry": {"max_attempts": 7},
        **over,
    }
    return canonical_json(RouteRule.model_validate(values).model_dump(mode="json"))


@dataclass(kw_only=True)
class World:
    """One namespace, one pack, one live route; rows that died under it."""

    namespace: str = "acme-sales"
    pack_name: str = "outreach"
    kind: str = "prospect.updated"
    execution: str = "per_event"
    org_id: str = field(default_factory=new_id)
    pack_id: str = field(default_factory=new_id)
    route_id: str = field(default_factory=new_id)
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=123456))
    ordinal: int = 0

    def __post_init__(self) -> None:
        insert("_System_ConnectorNamespace", Namespace=self.namespace, OrgId=self.org_id, CreatedAt=self.now)
        self.pack(self.pack_id)
        self.route(self.route_id, self.pack_id)

    def pack(self, pack_id: str, *, status: str = "active", incarnation: int = 1, name: str | None = None) -> None:
        """Insert an incarnation with its forward receipt."""
        name = name or self.pack_name
        insert(
            "_System_ConnectorPackInstall",
            PackInstallId=pack_id,
            OrgId=self.org_id,
            AppInstallationId=new_id(),
            Namespace=self.namespace,
            PackName=name,
            PackVersion=f"1.{incarnation}.0",
            Incarnation=incarnation,
            Status=status,
            ActiveKey=f"{self.namespace}:{name}" if status == "active" else None,
            NextLaneOrdinal=1000,
            CatalogRevision=incarnation,
            CatalogDigest="c" * 64,
            Definition="{}",
            InstalledAt=self.now,
        )
        self.receipt("forward", 1, pack_id)

    def receipt(self, direction: str, generation: int, pack_id: str | None = None) -> None:
        """Insert a cutover receipt of an incarnation."""
        insert(
            "_System_ConnectorCutoverReceipt",
            ReceiptId=new_id(),
            PackInstallId=pack_id or self.pack_id,
            Direction=direction,
            OwnerGeneration=generation,
            Proof="{}",
            ProofDigest="d" * 64,
            WrittenAt=self.now,
            WrittenBy="system",
        )

    def route(self, route_id: str, pack_id: str, *, version: int = 1, live: bool = True, **over: Any) -> None:
        """Insert a route version."""
        execution = over.pop("ExecutionClass", self.execution)
        values = {
            "RouteId": route_id,
            "PackInstallId": pack_id,
            "EventKind": self.kind,
            "RouteVersion": version,
            "Provider": "outreach",
            "WorkType": "connector_event",
            "ExecutionClass": execution,
            "FlowName": "prospect_sync",
            "FlowVersion": "3",
            "Status": "live" if live else "swept",
            "LiveKey": f"{self.namespace}:{self.kind}" if live else None,
            "Definition": definition(self.kind, version=version, execution=execution),
            "CreatedAt": self.now,
        }
        insert("_System_ConnectorRoute", **{**values, **over})

    def event(self, **over: Any) -> str:
        """Insert an Event with a sealed payload and return its id."""
        self.ordinal += 1
        event_id = over.get("EventId") or new_id()
        values = {
            "EventId": event_id,
            "OrgId": self.org_id,
            "Namespace": self.namespace,
            "PackInstallId": self.pack_id,
            "RouteId": self.route_id,
            "RouteVersion": 1,
            "RouteSnapshot": definition(self.kind, execution=self.execution),
            "Provider": "outreach",
            "EventKind": self.kind,
            "WorkType": "connector_event",
            "SourceLane": f"prospect:{self.ordinal}",
            "LaneOrdinal": self.ordinal,
            "IdempotencyKey": f"delivery-{event_id}",
            "DeliveryId": f"d-{self.ordinal}",
            "DeliverySequence": self.ordinal,
            "Payload": seal(PAYLOAD, row_aad(SealedColumn.EVENT_PAYLOAD, event_id)),
            "PayloadHash": hashlib.sha256(PAYLOAD).hexdigest(),
            "OccurredAt": self.now - timedelta(hours=3),
            "ReceivedAt": self.now - timedelta(hours=2),
            "ExecutionOwner": "work_item",
            "Status": "pending",
        }
        insert("_System_ConnectorEvent", **{**values, **over})
        return event_id

    def work(
        self, state: str = "dead", *, event_id: str | None = None, event: dict[str, Any] | None = None, **over: Any
    ) -> Ref:
        """Insert a WorkItem, and its Event unless one is given; return its reference."""
        attempt = over.get("Attempt", 3)
        event_id = event_id or self.event(**{"ExecutionOwner": "work_item" if attempt else "event", **(event or {})})
        work_id = over.get("WorkId") or new_id()
        is_dead = state in {"dead", "succeeded", "skipped", "cancelled", "reconciled_legacy_terminal"}
        values = {
            "WorkId": work_id,
            "WorkFamily": "connector",
            "WorkType": "connector_event",
            "SubjectKind": "event",
            "SubjectId": event_id,
            "EventId": event_id,
            "OrgId": self.org_id,
            "Namespace": self.namespace,
            "PackInstallId": self.pack_id,
            "RouteId": self.route_id,
            "RouteVersion": 1,
            "FlowName": "prospect_sync",
            "FlowVersion": "3",
            "EventKind": self.kind,
            "CatalogRevision": 1,
            "CatalogDigest": "c" * 64,
            "SourceLane": f"prospect:{self.ordinal}",
            "LaneOrdinal": self.ordinal,
            "State": state,
            "RunAfter": self.now - timedelta(hours=1),
            "Attempt": attempt,
            "MaxAttempts": 3,
            "OwnershipEpoch": attempt,
            "FailureClass": "flow_error",
            "FailureSummary": "canary-failure-summary",
            "FailureCount": attempt,
            "FirstFailedAt": self.now - timedelta(minutes=50) if attempt else None,
            "LastFailedAt": self.now - timedelta(minutes=20) if attempt else None,
            "CreatedAt": self.now - timedelta(hours=2),
            "UpdatedAt": self.now - timedelta(minutes=20),
            "TerminalAt": self.now - timedelta(minutes=20) if is_dead else None,
        }
        insert("_System_ConnectorWorkItem", **{**values, **over})
        return Ref.parse(f"work_item:{work_id}")

    def identity(self, lane: str, **over: Any) -> ProjectionIdentity:
        """Return the identity of a projection under the live route."""
        values: dict[str, Any] = {
            "pack_install_id": self.pack_id,
            "event_kind": self.kind,
            "route_version": 1,
            "companion_pack_name": None,
            "companion_pack_version": None,
            "flow_name": "prospect_sync",
            "flow_version": "3",
            "work_type": "connector_event",
            "source_lane": lane,
        }
        return ProjectionIdentity(**{**values, **over})

    def generation(self, state: str = "dead", *, event: dict[str, Any] | None = None, **over: Any) -> Ref:
        """Insert a generation of a projection over one Event of a lane; the lane is the next one unless given."""
        lane = over.setdefault("SourceLane", f"prospect:{self.ordinal + 1}")
        event_id = over.pop("event_id", None) or self.event(
            **{
                "ExecutionOwner": "work_item" if over.get("Attempt", 3) else "event",
                "SourceLane": lane,
                **(event or {}),
            }
        )
        key = over.pop("ProjectionKey", self.identity(lane).key())
        is_active = state in {"pending", "processing", "retry", "blocked"}
        scope = SourceScope(namespace=self.namespace, event_kind=self.kind, source_lane=lane)
        values = {
            "SubjectKind": "projection",
            "SubjectId": key,
            "InputStartOrdinal": self.ordinal,
            "ProjectionKey": key,
            "ProjectionActiveKey": key if is_active else None,
            "SourceScopeKey": scope.key(),
        }
        return self.work(state, event_id=event_id, **{**values, **over})

    def legacy(self, **over: Any) -> Ref:
        """Insert an Event that the Event executor gave up, without a WorkItem."""
        values = {
            "ExecutionOwner": "event",
            "Status": "dead",
            "RetryCount": 5,
            "LastError": "canary-last-error",
            "TerminalAt": self.now - timedelta(minutes=30),
        }
        return Ref.parse(f"event:{self.event(**{**values, **over})}")

    def outcome(self, ref: Ref, outcome: str) -> None:
        """Write the legacy outcome receipt of a reconciled WorkItem."""
        (item,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref.id)
        insert(
            "_System_ConnectorLegacyOutcomeReceipt",
            EventId=item["EventId"],
            WorkType=item["WorkType"],
            RollbackFenceId=new_id(),
            ReceiptVersion=1,
            Outcome=outcome,
            Digest="e" * 64,
            WrittenAt=self.now,
        )

    def fence(self, scope: str = "*", **over: Any) -> str:
        """Arm an admission fence."""
        fence_id = new_id()
        values = {
            "FenceId": fence_id,
            "Namespace": self.namespace,
            "Scope": scope,
            "ArmedAt": self.now,
            "ArmedBy": "delia",
            "Reason": "cutover",
        }
        insert("_System_ConnectorAdmissionFence", **{**values, **over})
        return fence_id

    def override(self, fence_id: str, scope: str, **over: Any) -> None:
        """Let one scope through a fence."""
        values = {
            "OverrideId": new_id(),
            "FenceId": fence_id,
            "Scope": scope,
            "GrantedAt": self.now,
            "GrantedBy": "delia",
            "Reason": "urgent",
        }
        insert("_System_ConnectorAdmissionOverride", **{**values, **over})


def change(sql: str, *params: Any) -> int:
    """Run one statement of a test's own."""
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def rows_of(table: str, where: str = "1 = 1", *params: Any) -> list[dict[str, Any]]:
    """Return every column of some rows, in primary-key order of insertion ids."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SELECT * FROM `{table}` WHERE {where} ORDER BY 1, 2", params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def system_rows() -> dict[str, list[dict[str, Any]]]:
    """Return every row of every system table, to compare a database with itself."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
        tables = sorted(row[0] for row in cursor.fetchall() if row[0].lower().startswith("_system_"))
    assert len(tables) >= 16, tables
    return {table: rows_of(table) for table in tables}


def audit_entries() -> list[dict[str, Any]]:
    """Return the audit trail, oldest first."""
    return sorted(rows_of("console_auditentry"), key=lambda row: (row["at"], row["id"]))
