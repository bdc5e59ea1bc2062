"""Incarnations of the old projection protocol: no lower bounds, no protocol row, a forward receipt, a fence to arm."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from integration.values import new_id
from tests.support.projections import Source
from tests.support.work import Pack, Row, change, insert, query

KIND = "contact.changed"
FLOW = "tests.inputs"
#: How a writer left a row that a later input had superseded: as it was, or skipped.
SUPERSEDED = ("pending", "failed", "skipped")


@dataclass(kw_only=True)
class OldPack(Pack):
    """One incarnation whose inputs of one kind are projected, as old builds left it."""

    kind: str = KIND
    flow: str = FLOW

    def __post_init__(self) -> None:
        """Insert the pack, its receipt, and the route that projects."""
        super().__post_init__()
        self.route()
        change(
            "UPDATE _System_ConnectorRoute SET ExecutionClass = 'source_projection' WHERE RouteId = %s", self.route_id
        )

    def lane(self, number: int = 1, **over: Any) -> OldLane:
        """Return a source of the pack."""
        return OldLane(pack=self, lane=f"contact:{number}", kind=self.kind, flow=self.flow, **over)

    def event(self, **over: Any) -> Row:
        """Insert an Event that no lane helps with."""
        row = self.event_values({"n": 1}, **over)
        insert("_System_ConnectorEvent", [row])
        return row

    def arm(self, **over: Any) -> str:
        """Arm a fence over the whole namespace; return its id."""
        fence_id = new_id()
        row = {
            "FenceId": fence_id,
            "Namespace": self.namespace,
            "Scope": "*",
            "ArmedAt": datetime.now(UTC) - timedelta(minutes=5),
            "ArmedBy": "ana",
            "Reason": "projection cutover",
            **over,
        }
        insert("_System_ConnectorAdmissionFence", [row])
        return fence_id

    def override(self, fence_id: str, **over: Any) -> None:
        """Let a kind through a fence."""
        row = {
            "OverrideId": new_id(),
            "FenceId": fence_id,
            "Scope": "deal.changed",
            "GrantedAt": datetime.now(UTC) - timedelta(minutes=1),
            "GrantedBy": "ana",
            "Reason": "one deal",
            **over,
        }
        insert("_System_ConnectorAdmissionOverride", [row])

    def settle(self, *, armed: bool = True) -> str:
        """Set the counter behind the last ordinal, arm a fence unless told otherwise; return the incarnation."""
        change(
            "UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s WHERE PackInstallId = %s",
            self.ordinal + 1,
            self.pack_id,
        )
        if armed:
            self.arm()
        return self.pack_id


@dataclass(kw_only=True)
class OldLane(Source):
    """One source: what an old build admitted into it."""

    def indirect(self, **over: Any) -> Row:
        """Insert an input that no WorkItem names, pending as it was admitted."""
        return self.event(**over)

    def task(self, event: Row, state: str = "succeeded", **over: Any) -> str:
        """Insert the WorkItem that selects an Event, without a lower bound; return its id."""
        is_first = state in {"pending", "blocked"}
        values = {
            "State": state,
            "InputStartOrdinal": None,
            "Attempt": 0 if is_first else 1,
            "SourceScopeKey": None,
            "TerminalAt": self.now if state in {"succeeded", "skipped", "dead", "cancelled"} else None,
            **over,
        }
        if values["Attempt"]:
            change(
                "UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item' WHERE EventId = %s", event["EventId"]
            )
        return self.generation([event], active=False, **values)

    def coalesced(self, count: int = 3, state: str = "succeeded", **over: Any) -> list[Row]:
        """Insert inputs of which the last one's WorkItem took all; return the Events."""
        events = [self.indirect(Status=SUPERSEDED[place % 3], **over) for place in range(count - 1)]
        events.append(self.event(**over))
        self.task(events[-1], state)
        return events


def protocol_rows() -> list[Row]:
    """Return every checkpoint."""
    return query("SELECT * FROM _System_ConnectorProjectionProtocol ORDER BY PackInstallId")


def history() -> list[list[Row]]:
    """Return every Event and WorkItem, whole, and the pack rows: what a cutover may not change."""
    return [
        query("SELECT * FROM _System_ConnectorEvent ORDER BY EventId"),
        query("SELECT * FROM _System_ConnectorWorkItem ORDER BY WorkId"),
        query("SELECT * FROM _System_ConnectorPackInstall ORDER BY PackInstallId"),
        query("SELECT * FROM _System_ConnectorCutoverReceipt ORDER BY ReceiptId"),
    ]


def audit_rows() -> list[tuple[str, str]]:
    """Return what the trail says of cutovers: action and outcome."""
    rows = query("SELECT action, outcome FROM console_auditentry WHERE action = 'projection.cut_over' ORDER BY id")
    return [(row["action"], row["outcome"]) for row in rows]
