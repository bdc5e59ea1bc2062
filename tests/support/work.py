"""Admitted work for tests of the kernel: a pack with its forward receipt, Events and WorkItems, payloads sealed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections

from integration.catalog.documents import RouteRule
from integration.ingress.crypto import SealedColumn, row_aad, seal
from integration.values import canonical_json, digest_text, new_id
from integration.work.families import CONNECTOR
from integration.work.pages import Walk

Row = dict[str, Any]


def insert(table: str, rows: list[Row]) -> None:
    """Insert rows of one shape."""
    columns = ", ".join(f"`{name}`" for name in rows[0])
    marks = ", ".join(["%s"] * len(rows[0]))
    with connections["default"].cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO `{table}` ({columns}) VALUES ({marks})",
            [
                [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row.values()]
                for row in rows
            ],
        )


def query(sql: str, *params: Any) -> list[Row]:
    """Return rows as the database has them."""
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def change(sql: str, *params: Any) -> int:
    """Run a write as no statement of the program would."""
    with connections["default"].cursor() as cursor:
        return int(cursor.execute(sql, params) or 0)


def item_row(work_id: str) -> Row:
    """Return a WorkItem's whole row."""
    (row,) = query("SELECT * FROM _System_ConnectorWorkItem WHERE WorkId = %s", work_id)
    return row


def event_row(event_id: str) -> Row:
    """Return an Event's whole row."""
    (row,) = query("SELECT * FROM _System_ConnectorEvent WHERE EventId = %s", event_id)
    return row


def attempt_rows(work_id: str) -> list[Row]:
    """Return a WorkItem's attempts in order."""
    return query("SELECT * FROM _System_ConnectorExecutionAttempt WHERE WorkId = %s ORDER BY Attempt", work_id)


def expire_lease(work_id: str, *, seconds: int = 60) -> None:
    """Move a lease's end into the past, by the database's clock."""
    change(
        "UPDATE _System_ConnectorWorkItem SET LeaseUntil = UTC_TIMESTAMP(6) - INTERVAL %s SECOND WHERE WorkId = %s",
        seconds,
        work_id,
    )


def make_due(work_id: str) -> None:
    """Move an item's RunAfter into the past, by the database's clock."""
    change(
        "UPDATE _System_ConnectorWorkItem SET RunAfter = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE WorkId = %s",
        work_id,
    )


def due_rows(limit: int = 100) -> list[Row]:
    """Return the first rows that are due, of each state so many, lanes left out of account."""
    return Walk().next_rows(CONNECTOR, closed_packs=(), limit=limit)


@dataclass(kw_only=True)
class Pack:
    """One active incarnation that admits work by hand."""

    namespace: str = "acme"
    name: str = "demo"
    kind: str = "deal.changed"
    flow: str = "tests.noop"
    flow_version: str = "1"
    incarnation: int = 1
    status: str = "active"
    direction: str | None = "forward"
    org_id: str = field(default_factory=new_id)
    pack_id: str = field(default_factory=new_id)
    route_id: str = field(default_factory=new_id)
    receipt_id: str = ""
    generation: int = 0
    ordinal: int = 0

    def __post_init__(self) -> None:
        """Insert the pack and its first cutover receipt."""
        now = datetime.now(UTC)
        if not query("SELECT 1 FROM _System_ConnectorNamespace WHERE Namespace = %s", self.namespace):
            insert(
                "_System_ConnectorNamespace", [{"Namespace": self.namespace, "OrgId": self.org_id, "CreatedAt": now}]
            )
        insert(
            "_System_ConnectorPackInstall",
            [
                {
                    "PackInstallId": self.pack_id,
                    "OrgId": self.org_id,
                    "AppInstallationId": new_id(),
                    "Namespace": self.namespace,
                    "PackName": self.name,
                    "PackVersion": "1",
                    "Incarnation": self.incarnation,
                    "Status": self.status,
                    "ActiveKey": f"{self.namespace}/{self.name}" if self.status == "active" else None,
                    "CatalogDigest": "c" * 64,
                    "InstalledAt": now,
                }
            ],
        )
        if self.direction is not None:
            self.cut_over(self.direction)

    def cut_over(self, direction: str) -> str:
        """Write the pack's next cutover receipt and return its id."""
        self.generation += 1
        previous, self.receipt_id = self.receipt_id, new_id()
        insert(
            "_System_ConnectorCutoverReceipt",
            [
                {
                    "ReceiptId": self.receipt_id,
                    "PackInstallId": self.pack_id,
                    "Direction": direction,
                    "OwnerGeneration": self.generation,
                    "Proof": "{}",
                    "ProofDigest": digest_text("{}"),
                    "PreviousReceiptId": previous or None,
                    "WrittenAt": datetime.now(UTC),
                    "WrittenBy": "tests",
                }
            ],
        )
        return self.receipt_id

    def route(self, kind: str | None = None, **rule: Any) -> str:
        """Insert the pack's route, or another kind's; return its id. `rule` is what the pack says of it."""
        route_id = self.route_id if kind is None else new_id()
        kind = kind or self.kind
        values = {"event": kind, "version": 1, "flow": {"name": self.flow, "version": 1}, **rule}
        definition = canonical_json(RouteRule.model_validate(values).model_dump(mode="json"))
        insert(
            "_System_ConnectorRoute",
            [
                {
                    "RouteId": route_id,
                    "PackInstallId": self.pack_id,
                    "EventKind": kind,
                    "RouteVersion": 1,
                    "Provider": "demo",
                    "WorkType": "connector_event",
                    "ExecutionClass": "per_event",
                    "FlowName": self.flow,
                    "FlowVersion": self.flow_version,
                    "Status": "live",
                    "LiveKey": f"{self.namespace}:{kind}",
                    "Definition": definition,
                    "CreatedAt": datetime.now(UTC),
                }
            ],
        )
        return route_id

    def event_values(self, payload: Row, **over: Any) -> Row:
        """Return the row of one more Event, its payload sealed; `over` overrides columns."""
        self.ordinal += 1
        event_id = new_id()
        return {
            "EventId": event_id,
            "OrgId": self.org_id,
            "Namespace": self.namespace,
            "PackInstallId": self.pack_id,
            "RouteId": self.route_id,
            "RouteVersion": 1,
            "Provider": "demo",
            "EventKind": self.kind,
            "WorkType": "connector_event",
            "LaneOrdinal": self.ordinal,
            "IdempotencyKey": event_id,
            "ReceiptId": new_id(),
            "ReceiptIndex": 0,
            "Payload": seal(json.dumps(payload).encode(), row_aad(SealedColumn.EVENT_PAYLOAD, event_id)),
            "PayloadHash": "a" * 64,
            "ReceivedAt": datetime.now(UTC) - timedelta(seconds=5),
            **over,
        }

    def item_values(self, event_id: str, **over: Any) -> Row:
        """Return the row of an Event's WorkItem, due now, with the columns of the first vintage; `over` overrides."""
        now = datetime.now(UTC) - timedelta(seconds=5)
        return {
            "WorkId": new_id(),
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
            "FlowName": self.flow,
            "FlowVersion": self.flow_version,
            "EventKind": self.kind,
            "CatalogDigest": "c" * 64,
            "State": "pending",
            "RunAfter": now,
            "MaxAttempts": 3,
            "CreatedAt": now,
            "UpdatedAt": now,
            **over,
        }

    def admit(self, count: int = 1, *, payload: Row | None = None, **over: Any) -> list[str]:
        """Admit items and return their WorkIds; `over` overrides WorkItem columns."""
        lanes = {"SourceLane": over.get("SourceLane"), "TargetLane": over.get("TargetLane")}
        events = [self.event_values(payload or {"n": 1}, **lanes) for _ in range(count)]
        items = [
            self.item_values(event["EventId"], **{"LaneOrdinal": event["LaneOrdinal"], **over}) for event in events
        ]
        insert("_System_ConnectorEvent", events)
        insert("_System_ConnectorWorkItem", items)
        return [str(item["WorkId"]) for item in items]
