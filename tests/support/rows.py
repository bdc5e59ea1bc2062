"""Rows of the system tables for pages: small, named after what an operator would see."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections

from integration.catalog.documents import RouteRule
from integration.ingress.crypto import SealedColumn, row_aad, seal
from integration.values import canonical_json, digest_text, new_id

#: Texts that must never reach an operator; each column that may hold one is filled with its own.
CANARIES = {
    "payload": "canary-payload-5f1c",
    "body": "canary-body-91ab",
    "headers": "canary-headers-77d0",
    "lease_token": "canary-lease-token-c3e8",
    "lease_owner": "canary-worker-0d4f",
    "claim_token": "canary-claim-token-ae21",
    "claimed_by": "canary-claimed-by-b7c4",
    "failure_class": "canary-failure-class-3b9d",
    "failure_summary": "canary-failure-summary-e6f2",
    "last_error": "canary-last-error-8a15",
    "host": "canary-host-42c7",
}

#: What a provider sent, sealed as the ingress seals it.
PAYLOAD = ('{"data": {"id": 7, "secret": "' + CANARIES["payload"] + '"}}').encode()


def insert(table: str, **values: Any) -> None:
    """Insert one row; times are aware UTC and stored without their zone."""
    columns = ", ".join(f"`{name}`" for name in values)
    marks = ", ".join(["%s"] * len(values))
    with connections["default"].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO `{table}` ({columns}) VALUES ({marks})",
            [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in values.values()],
        )


def id_at(moment: datetime) -> str:
    """Return a UUIDv7 of a moment, as work admitted then would bear."""
    milliseconds = int(moment.timestamp() * 1000)
    tail = new_id()[14:]
    head = f"{milliseconds:012x}"
    return f"{head[:8]}-{head[8:]}-{tail}"


@dataclass(kw_only=True)
class Installation:
    """One namespace with an active pack and one live route for a kind."""

    namespace: str = "acme-sales"
    pack_name: str = "outreach"
    kind: str = "prospect.updated"
    provider: str = "outreach"
    flow: str = "tests.noop"
    org_id: str = field(default_factory=new_id)
    pack_id: str = field(default_factory=new_id)
    route_id: str = field(default_factory=new_id)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    ordinal: int = 0

    def __post_init__(self) -> None:
        """Insert the namespace, the pack and the route."""
        insert(
            "_System_ConnectorNamespace",
            Namespace=self.namespace,
            OrgId=self.org_id,
            CreatedAt=self.now,
        )
        insert(
            "_System_ConnectorPackInstall",
            PackInstallId=self.pack_id,
            OrgId=self.org_id,
            AppInstallationId=new_id(),
            Namespace=self.namespace,
            PackName=self.pack_name,
            PackVersion="1.4.0",
            Incarnation=4,
            Status="active",
            ActiveKey=f"{self.namespace}:{self.pack_name}",
            NextLaneOrdinal=100_000,
            CatalogRevision=1,
            CatalogDigest="c" * 64,
            Definition="{}",
            InstalledAt=self.now,
            ActivatedAt=self.now,
        )
        insert(
            "_System_ConnectorCutoverReceipt",
            ReceiptId=new_id(),
            PackInstallId=self.pack_id,
            Direction="forward",
            OwnerGeneration=1,
            Proof="{}",
            ProofDigest="d" * 64,
            WrittenAt=self.now,
            WrittenBy="system",
        )
        insert(
            "_System_ConnectorRoute",
            RouteId=self.route_id,
            PackInstallId=self.pack_id,
            EventKind=self.kind,
            RouteVersion=12,
            Provider=self.provider,
            WorkType="connector_event",
            ExecutionClass="per_event",
            FlowName=self.flow,
            FlowVersion="1",
            Status="live",
            LiveKey=f"{self.namespace}:{self.kind}",
            Definition=self.definition(),
            CreatedAt=self.now,
        )

    def definition(self) -> str:
        """Return the live route's stored definition."""
        values = {
            "event": self.kind,
            "version": 12,
            "execution": "per_event",
            "flow": {"name": self.flow, "version": 1},
            "source_lane": "data.id",
            "retry": {"max_attempts": 5},
        }
        return canonical_json(RouteRule.model_validate(values).model_dump(mode="json"))

    def work(
        self,
        state: str = "dead",
        *,
        ended_ago: timedelta | None = timedelta(minutes=12),
        **over: Any,
    ) -> str:
        """Insert a receipt, its Event and its WorkItem with attempts; return the WorkId."""
        self.ordinal += 1
        lane = over.pop("SourceLane", f"prospect:{88_000 + self.ordinal}")
        attempt = over.pop("Attempt", 0 if state == "pending" else 5)
        ended = self.now - ended_ago if ended_ago is not None and state not in LIVE else None
        received = (ended or self.now) - timedelta(minutes=70)
        event_id, receipt_id = id_at(received), id_at(received)
        work_id = over.pop("WorkId", None) or id_at(received)
        insert(
            "_System_ConnectorIngressReceipt",
            ReceiptId=receipt_id,
            PackInstallId=self.pack_id,
            Namespace=self.namespace,
            RouteKey="outreach",
            Provider=self.provider,
            DeliveryId=f"d-{receipt_id[-12:]}",
            IdempotencyKey=(receipt_id.replace("-", "") * 2)[:64],
            BodyHash="b" * 64,
            Body=CANARIES["body"].encode(),
            SafeHeaders='{"x": "' + CANARIES["headers"] + '"}',
            State="materialized",
            ReceivedAt=received,
            MaterializedAt=received,
        )
        insert(
            "_System_ConnectorEvent",
            EventId=event_id,
            OrgId=self.org_id,
            Namespace=self.namespace,
            PackInstallId=self.pack_id,
            RouteId=self.route_id,
            RouteVersion=12,
            Provider=self.provider,
            EventKind=self.kind,
            WorkType="connector_event",
            SourceLane=lane,
            LaneOrdinal=self.ordinal,
            IdempotencyKey=f"k-{event_id}",
            DeliveryId=f"d-{receipt_id[-12:]}",
            ReceiptId=receipt_id,
            ReceiptIndex=0,
            RouteSnapshot=self.definition(),
            Payload=seal(PAYLOAD, row_aad(SealedColumn.EVENT_PAYLOAD, event_id)),
            PayloadHash=digest_text(PAYLOAD.decode()),
            OccurredAt=received,
            ReceivedAt=received,
            ExecutionOwner="work_item" if attempt else "event",
            Status="pending",
            ClaimToken=CANARIES["claim_token"],
            ClaimedBy=CANARIES["claimed_by"],
            LastError=CANARIES["last_error"],
        )
        values: dict[str, Any] = {
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
            "RouteVersion": 12,
            "FlowName": self.flow,
            "FlowVersion": "1",
            "EventKind": self.kind,
            "CatalogDigest": "c" * 64,
            "SourceLane": lane,
            "LaneOrdinal": self.ordinal,
            "State": state,
            "RunAfter": received,
            "Attempt": attempt,
            "MaxAttempts": 5,
            "LeaseOwner": CANARIES["lease_owner"],
            "LeaseToken": CANARIES["lease_token"],
            "FailureClass": CANARIES["failure_class"],
            "FailureSummary": CANARIES["failure_summary"],
            "FailureCount": attempt,
            "FirstFailedAt": received if attempt else None,
            "LastFailedAt": ended or (received if attempt else None),
            "CreatedAt": received,
            "UpdatedAt": ended or received,
            "TerminalAt": ended,
        }
        insert("_System_ConnectorWorkItem", **{**values, **over})
        for number in range(1, attempt + 1):
            last = number == attempt
            started = received + timedelta(minutes=number * 12)
            insert(
                "_System_ConnectorExecutionAttempt",
                WorkId=work_id,
                Attempt=number,
                OwnershipEpoch=number,
                StartedAt=started,
                FinishedAt=None if last else started + timedelta(seconds=1),
                Outcome=None if last else ("lost" if number == 3 else "retry"),
            )
        return work_id

    def quarantined(self, code: str = "route_not_found") -> str:
        """Insert a receipt that could not become work; return its id."""
        receipt_id = new_id()
        insert(
            "_System_ConnectorIngressReceipt",
            ReceiptId=receipt_id,
            PackInstallId=self.pack_id,
            Namespace=self.namespace,
            RouteKey="outreach",
            Provider=self.provider,
            DeliveryId=f"d-{receipt_id[-12:]}",
            IdempotencyKey=(receipt_id.replace("-", "") * 2)[:64],
            BodyHash="b" * 64,
            Body=CANARIES["body"].encode(),
            State="quarantined",
            QuarantineCode=code,
            ReceivedAt=self.now,
        )
        return receipt_id

    def worker(self) -> None:
        """Insert a claim process that was heard of just now."""
        insert(
            "_System_ConnectorClaimProcess",
            ProcessId=new_id(),
            Kind="work_item",
            BuildVersion="1",
            Host=CANARIES["host"],
            StartedAt=self.now,
            HeartbeatAt=datetime.now(UTC),
            Roles="claim,materialize",
            Concurrency=4,
            InFlight=1,
        )

    def fence(self, scope: str = "prospect.deleted", **over: Any) -> str:
        """Arm an admission fence; return its id."""
        fence_id = new_id()
        values = {
            "FenceId": fence_id,
            "Namespace": self.namespace,
            "Scope": scope,
            "ArmedAt": self.now - timedelta(hours=3),
            "ArmedBy": "ana",
            "Reason": "Stage names are being renamed at the provider",
        }
        insert("_System_ConnectorAdmissionFence", **{**values, **over})
        return fence_id

    def override(self, fence_id: str, scope: str = "*", **over: Any) -> str:
        """Let a scope through a fence; return the override's id."""
        override_id = new_id()
        values = {
            "OverrideId": override_id,
            "FenceId": fence_id,
            "Scope": scope,
            "GrantedAt": self.now - timedelta(hours=1),
            "GrantedBy": "ana",
            "Reason": "One customer waits for it",
        }
        insert("_System_ConnectorAdmissionOverride", **{**values, **over})
        return override_id


LIVE = frozenset({"pending", "processing", "retry", "blocked"})
