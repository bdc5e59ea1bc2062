"""Source projections for tests: Events of a lane, and generations over intervals of them, placed by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from integration.ingress.crypto import SealedColumn, row_aad, seal
from integration.projection.identity import ProjectionIdentity, SourceScope
from integration.values import new_id
from tests.support.work import Pack, Row, change, insert, query

KIND = "contact.changed"
LANE = "contact:7"


@dataclass(kw_only=True)
class Source:
    """One source of one pack: its lane, and what is admitted into it.

    Attributes:
        pack: The pack; it counts the ordinals.
        lane: The source lane.
        kind: The event kind.
        flow: The flow of its generations.
    """

    pack: Pack
    lane: str = LANE
    kind: str = KIND
    flow: str = "tests.inputs"
    route_version: int = 1
    work_type: str = "connector_event"
    now: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(seconds=5))

    @property
    def identity(self) -> ProjectionIdentity:
        """The identity of its generations."""
        return ProjectionIdentity(
            pack_install_id=self.pack.pack_id,
            event_kind=self.kind,
            route_version=self.route_version,
            companion_pack_name=None,
            companion_pack_version=None,
            flow_name=self.flow,
            flow_version="1",
            work_type=self.work_type,
            source_lane=self.lane,
        )

    @property
    def key(self) -> str:
        """Its ProjectionKey."""
        return self.identity.key()

    def event(self, payload: Row | None = None, **over: Any) -> Row:
        """Insert the next Event of the pack into this lane; return its row."""
        self.pack.ordinal += 1
        ordinal = over.get("LaneOrdinal", self.pack.ordinal)
        event_id = over.get("EventId") or new_id()
        body = json.dumps(payload if payload is not None else {"n": ordinal}).encode()
        row: Row = {
            "EventId": event_id,
            "OrgId": self.pack.org_id,
            "Namespace": self.pack.namespace,
            "PackInstallId": self.pack.pack_id,
            "RouteId": self.pack.route_id,
            "RouteVersion": self.route_version,
            "Provider": "demo",
            "EventKind": self.kind,
            "WorkType": self.work_type,
            "SourceLane": self.lane,
            "TargetLane": None,
            "LaneOrdinal": ordinal,
            "IdempotencyKey": event_id,
            "ReceiptId": new_id(),
            "ReceiptIndex": 0,
            "Payload": seal(body, row_aad(SealedColumn.EVENT_PAYLOAD, event_id)),
            "PayloadHash": "a" * 64,
            "OccurredAt": self.now,
            "ReceivedAt": self.now,
            **over,
        }
        insert("_System_ConnectorEvent", [row])
        return row

    def generation(self, events: list[Row] | None = None, *, active: bool = True, count: int = 1, **over: Any) -> str:
        """Insert a pending generation over Events; return its WorkId. Superseded Events become skipped."""
        events = events if events is not None else [self.event() for _ in range(count)]
        first, last = events[0], events[-1]
        for row in events[:-1]:
            change(
                "UPDATE _System_ConnectorEvent SET Status = 'skipped', TerminalAt = UTC_TIMESTAMP(6)"
                " WHERE EventId = %s",
                row["EventId"],
            )
        work_id = over.get("WorkId") or new_id()
        row = {
            "WorkId": work_id,
            "WorkFamily": "connector",
            "WorkType": self.work_type,
            "SubjectKind": "projection",
            "SubjectId": self.key,
            "EventId": last["EventId"],
            "OrgId": self.pack.org_id,
            "Namespace": self.pack.namespace,
            "PackInstallId": self.pack.pack_id,
            "RouteId": self.pack.route_id,
            "RouteVersion": self.route_version,
            "FlowName": self.flow,
            "FlowVersion": "1",
            "EventKind": self.kind,
            "CatalogDigest": "c" * 64,
            "SourceLane": self.lane,
            "LaneOrdinal": last["LaneOrdinal"],
            "InputStartOrdinal": first["LaneOrdinal"],
            "ProjectionKey": self.key,
            "ProjectionActiveKey": self.key if active else None,
            "SourceScopeKey": SourceScope(
                namespace=self.pack.namespace, event_kind=self.kind, source_lane=self.lane
            ).key(),
            "State": "pending",
            "RunAfter": self.now,
            "MaxAttempts": 3,
            "CreatedAt": self.now,
            "UpdatedAt": self.now,
            **over,
        }
        insert("_System_ConnectorWorkItem", [row])
        return str(work_id)


def active_keys() -> dict[str, str | None]:
    """Return each generation's active key by its WorkId."""
    return {
        row["WorkId"]: row["ProjectionActiveKey"]
        for row in query("SELECT WorkId, ProjectionActiveKey FROM _System_ConnectorWorkItem ORDER BY WorkId")
    }
