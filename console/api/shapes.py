"""The shapes of what the API tells beside Events: fixed, so that what a service's values hold besides never leaves."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from integration.cutover.fences.values import FenceState
from integration.states import ReceiptState, WorkItemState

PAGE_ROWS = 50
LARGEST_PAGE = 200


class PageQuery(Schema):
    """Which page of a list."""

    cursor: str | None = Field(None, max_length=400)
    limit: int = Field(PAGE_ROWS, ge=1, le=LARGEST_PAGE)


class ItemsQuery(Schema):
    """Which rows of a bulk replay: those behind a position."""

    after: int = Field(0, ge=0, le=10**9)
    limit: int = Field(PAGE_ROWS, ge=1, le=LARGEST_PAGE)


class WorkQuery(PageQuery):
    """Which WorkItems."""

    state: WorkItemState | None = None
    namespace: str | None = Field(None, max_length=128)


class ReceiptQuery(PageQuery):
    """Which receipts."""

    state: ReceiptState | None = None
    namespace: str | None = Field(None, max_length=128)


class PackQuery(Schema):
    """Which incarnations of packs."""

    namespace: str | None = Field(None, max_length=128)
    cursor: str | None = Field(None, max_length=600)
    limit: int = Field(PAGE_ROWS, ge=1, le=LARGEST_PAGE)


class AuditQuery(Schema):
    """Which entries of the trail."""

    actor: str | None = Field(None, max_length=150)
    action: str | None = Field(None, max_length=64)
    outcome: Literal["done", "refused", "lost"] | None = None
    ref: str | None = Field(None, max_length=64)
    namespace: str | None = Field(None, max_length=128)
    cursor: str | None = Field(None, max_length=400)


class PackOut(Schema):
    """An incarnation of a pack."""

    pack_install_id: str
    namespace: str
    name: str
    version: str
    incarnation: int
    status: str


class OwnerReceiptOut(Schema):
    """The newest receipt of who owns an incarnation's work."""

    receipt_id: str
    direction: str
    owner_generation: int
    written_at: datetime
    written_by: str


class PackRowOut(PackOut):
    """An incarnation in a list, with who executes its work; `newest` is null while that is the Event executor."""

    org_id: str
    activated_at: datetime | None
    retired_at: datetime | None
    is_projecting: bool
    is_forward: bool
    newest: OwnerReceiptOut | None


class PackPageOut(Schema):
    """One page of incarnations, by namespace, pack and number."""

    items: list[PackRowOut]
    older: str | None


class WorkRowOut(Schema):
    """One WorkItem in a list."""

    work_id: str
    event_id: str
    work_type: str
    namespace: str
    pack: PackOut | None
    event_kind: str
    source_lane: str | None
    state: str
    run_after: datetime
    attempt: int
    max_attempts: int
    created_at: datetime
    terminal_at: datetime | None
    replayed_at: datetime | None
    replay_of_work_id: str | None
    cancel_requested_at: datetime | None


class WorkPageOut(Schema):
    """One page of WorkItems."""

    items: list[WorkRowOut]
    newer: str | None
    older: str | None


class WorkAttemptOut(Schema):
    """One claimed execution."""

    attempt: int
    started_at: datetime
    finished_at: datetime | None
    outcome: str


class InputRangeOut(Schema):
    """Which inputs a projection's generation holds, by ordinal."""

    first: int
    last: int
    count: int
    is_waiting: bool


class WorkOut(Schema):
    """One WorkItem with its attempts and its replay child."""

    row: WorkRowOut
    org_id: str
    route_version: int
    flow: str
    target_lane: str | None
    lane_ordinal: int | None
    inputs: InputRangeOut | None
    blocked_on: str | None
    blocked_since: datetime | None
    owner_generation: int
    failure_count: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    updated_at: datetime
    attempts: list[WorkAttemptOut]
    child_work_id: str | None
    child_state: str | None


class ReceiptRowOut(Schema):
    """One stored webhook; never its body."""

    receipt_id: str
    namespace: str
    route_key: str
    provider: str
    delivery_id: str | None
    state: str
    quarantine_code: str | None
    quarantine_sentence: str
    received_at: datetime
    materialized_at: datetime | None


class ReceiptPageOut(Schema):
    """One page of receipts."""

    items: list[ReceiptRowOut]
    older: str | None


class ReceiptEventOut(Schema):
    """An Event that a receipt became."""

    event_id: str
    event_kind: str
    index: int


class ReceiptDetailOut(Schema):
    """One receipt, its size and digest, and its Events."""

    row: ReceiptRowOut
    body_hash: str
    stored_bytes: int
    events: list[ReceiptEventOut]


class OverrideOut(Schema):
    """A scope that a fence lets through."""

    override_id: str
    scope: str
    state: str
    expires_at: datetime | None
    granted_at: datetime
    granted_by: str
    reason: str
    lifted_at: datetime | None
    lifted_by: str | None


class AdmissionFenceOut(Schema):
    """One admission fence."""

    fence_id: str
    namespace: str
    scope: str
    state: FenceState
    expires_at: datetime | None
    armed_at: datetime
    armed_by: str
    reason: str
    lifted_at: datetime | None
    lifted_by: str | None
    overrides: list[OverrideOut]


class FencePageOut(Schema):
    """Every armed fence, and one page of those that are over."""

    armed: list[AdmissionFenceOut]
    items: list[AdmissionFenceOut]
    older: str | None


class CutoverReceiptOut(Schema):
    """One receipt of who owns a pack's work."""

    receipt_id: str
    direction: str
    owner_generation: int
    kind: str
    written_at: datetime
    written_by: str
    proof_digest: str


class FaultOut(Schema):
    """One thing that a receipt has wrong."""

    code: str
    receipt_id: str
    owner_generation: int
    sentence: str


class AgreementOut(Schema):
    """One thing that the newest receipt proved, held against the rows of now."""

    name: str
    agrees: bool
    sentence: str


class CutoversOut(Schema):
    """A pack's receipts, oldest first, and what they are worth."""

    pack_install_id: str
    holds: bool
    receipts: list[CutoverReceiptOut]
    faults: list[FaultOut]
    agreements: list[AgreementOut]


class AuditEntryOut(Schema):
    """One entry of the trail."""

    id: str
    stream: str
    seq: int
    digest: str
    previous_digest: str
    at: datetime
    actor_id: int | None
    actor_name: str
    via: str
    remote_addr: str | None
    action: str
    outcome: str
    ref_kind: str
    ref_id: str
    org_id: str | None
    namespace: str | None
    pack_install_id: str | None
    event_kind: str | None
    reason: str
    facts: dict[str, Any]


class AuditPageOut(Schema):
    """One page of the trail, newest first."""

    items: list[AuditEntryOut]
    newer: str | None
    older: str | None
