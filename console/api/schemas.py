"""The shapes of the API: fixed, so that whatever a service's values hold besides never leaves."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field

from integration.authority.reads import LARGEST_PAGE, PAGE_ROWS


class DeadQuery(Schema):
    """What a list of dead rows is narrowed to."""

    namespace: str | None = None
    event_kind: str | None = None
    provider: str | None = None
    replayed: bool | None = None
    org: str | None = None
    pack: str | None = None
    work_type: str | None = None
    owner: Literal["work_item", "event"] | None = None
    execution_class: str | None = None
    source_lane: str | None = None
    min_attempts: int | None = Field(None, ge=0, le=1_000_000)
    max_attempts: int | None = Field(None, ge=0, le=1_000_000)
    died_after: AwareDatetime | None = None
    died_before: AwareDatetime | None = None
    search: str | None = None


class ListQuery(DeadQuery):
    """What a list is narrowed to, and which page of it."""

    cursor: str | None = Field(None, max_length=400)
    limit: int = Field(PAGE_ROWS, ge=1, le=LARGEST_PAGE)


class ReplayIn(Schema):
    """A replay's request."""

    model_config = ConfigDict(extra="forbid")

    reason: str
    route_version: int | None = Field(None, ge=0, le=2**31 - 1)


class EventOut(Schema):
    """One Event, in the published shape."""

    event_id: str
    status: str
    org_id: str | None = None
    namespace: str | None = None
    pack_install_id: str | None = None
    provider: str | None = None
    event_kind: str | None = None
    work_type: str | None = None
    route_version: int | None = None
    source_lane: str | None = None
    retry_count: int | None = None
    idempotency_key: str | None = None
    delivery_id: str | None = None
    delivery_sequence: int | None = None
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    terminal_at: datetime | None = None
    replayed_at: datetime | None = None
    replay_of_event_id: str | None = None


class WorkItemOut(Schema):
    """The row as its owner has it; `work_id` is null where no WorkItem owns or mirrors it."""

    ref: str
    owner: str
    note: str | None
    work_id: str | None
    state: str
    execution_class: str | None
    pack_name: str | None
    pack_version: str | None
    incarnation: int | None
    target_lane: str | None
    lane_ordinal: int | None
    attempt: int
    max_attempts: int | None
    failure_count: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    terminal_at: datetime | None
    replayed_at: datetime | None
    replay_of_work_id: str | None


class RowOut(EventOut):
    """One Event and, from a service that has it, its work."""

    work_item: WorkItemOut | None = None


class RejectedOut(Schema):
    """Dead rows that name one Event and were left out."""

    event_id: str
    work_ids: list[str]
    sentence: str


class PageOut(Schema):
    """One page, latest death first."""

    items: list[RowOut]
    newer: str | None = None
    older: str | None = None
    searched_back_to: datetime | None = None
    rejected: list[RejectedOut] = []


class WhyOut(Schema):
    """The rule that decided an owner, and what it read."""

    rule: int
    code: str
    sentence: str
    facts: dict[str, Any]


class OwnerOut(Schema):
    """Who owns a row, and why."""

    kind: str
    work_id: str | None
    why: WhyOut


class EventRecordOut(Schema):
    """The Event's own record."""

    execution_owner: str
    status: str
    retry_count: int
    terminal_at: datetime | None
    replayed_at: datetime | None


class AttemptOut(Schema):
    """One claimed execution."""

    attempt: int
    ownership_epoch: int
    started_at: datetime
    dispatched_at: datetime | None
    finished_at: datetime | None
    outcome: str | None


class ReceiptOut(Schema):
    """The delivery that an Event came from."""

    receipt_id: str
    receipt_index: int | None
    route_key: str
    state: str
    received_at: datetime
    materialized_at: datetime | None


class NodeOut(Schema):
    """One generation of a replay chain."""

    work_id: str | None
    event_id: str
    state: str
    attempt: int
    created_at: datetime
    terminal_at: datetime | None
    replayed_at: datetime | None


class LineageOut(Schema):
    """A replay chain around one row."""

    ancestors: list[NodeOut]
    descendants: list[NodeOut]
    is_cut: bool


class FenceOut(Schema):
    """An admission fence over the row."""

    fence_id: str
    scope: str
    armed_at: datetime
    armed_by: str
    expires_at: datetime | None
    is_overridden: bool


class ContextOut(Schema):
    """What a service with the addition tells of one row besides."""

    owner: OwnerOut
    event: EventRecordOut
    route_id: str
    run_after: datetime | None
    cancel_requested_at: datetime | None
    input_start_ordinal: int | None
    attempts: list[AttemptOut]
    receipt: ReceiptOut | None
    lineage: LineageOut
    fences: list[FenceOut]


class DetailOut(RowOut):
    """One Event, its work and its context."""

    context: ContextOut | None = None


class VerdictOut(Schema):
    """One rule's answer."""

    code: str
    ruling: str
    sentence: str
    facts: dict[str, Any]
    next_step: str


class WinnerOut(Schema):
    """Whose replay was first."""

    actor_name: str | None
    at: datetime | None
    child_work_id: str | None
    child_event_id: str | None


class RefusalOut(Schema):
    """Why a replay does not happen."""

    code: str
    sentence: str
    next_step: str
    facts: dict[str, Any]
    winner: WinnerOut | None


class TargetOut(Schema):
    """Where a replay goes."""

    pack_install_id: str | None
    pack_name: str | None
    pack_version: str | None
    incarnation: int | None
    route_id: str | None
    route_version: int | None
    execution_class: str | None
    flow: str | None


class PlanOut(Schema):
    """What a replay would do: every rule in the order in which it is asked."""

    ref: str
    owner: OwnerOut | None
    verdicts: list[VerdictOut]
    refusal: RefusalOut | None
    target: TargetOut | None
    lock_order: list[str]
    notes: list[str]


class ReplayedOut(Schema):
    """A replay that happened; `child_work_id` is null where no WorkItem was made or the service tells of none."""

    outcome: Literal["replayed"] = "replayed"
    original_event_id: str
    child_event_id: str
    child_work_id: str | None = None
    pack_install_id: str | None = None
    route_version: int | None = None
    replayed_at: datetime
    is_repeat: bool
