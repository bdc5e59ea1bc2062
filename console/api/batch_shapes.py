"""The shapes of bulk replays: what is sent to make and steer one, and what is told of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field

from console.api.schemas import DeadQuery
from integration.batches.values import HALT_AFTER, LARGEST, LARGEST_BY_ID


class BatchFilters(DeadQuery):
    """What a bulk replay takes of the dead rows; those that were replayed are left out by themselves."""

    model_config = ConfigDict(extra="forbid")


class BatchIn(Schema):
    """A bulk replay's request: a filter or ids, and how it goes."""

    model_config = ConfigDict(extra="forbid")

    reason: str
    filter: BatchFilters | None = None
    ids: list[str] | None = Field(None, min_length=1, max_length=LARGEST_BY_ID)
    canary: int = Field(0, ge=0, le=LARGEST)
    halt_after: int = Field(HALT_AFTER, ge=1, le=1_000)
    per_minute: int = Field(0, ge=0, le=60_000)
    expected_digest: str | None = Field(None, max_length=64)


class BatchStep(Schema):
    """Why a bulk replay is let go on or cancelled, if that is to be said."""

    model_config = ConfigDict(extra="forbid")

    reason: str = ""


class TotalsOut(Schema):
    """How many rows ended how; together they are the batch's total."""

    replayed: int
    lost_race: int
    refused: int
    vanished: int
    left: int


class BatchOut(Schema):
    """One bulk replay."""

    id: str
    state: str
    created_at: datetime
    created_by_name: str
    reason: str
    selection: dict[str, Any]
    selection_digest: str
    total: int
    is_capped: bool
    left_out: int
    canary: int
    is_past_canary: bool
    halt_after: int
    per_minute: int
    resumed_at: datetime
    ended_at: datetime | None
    halt_code: str
    totals: TotalsOut


class BatchPageOut(Schema):
    """One page of bulk replays, newest first."""

    items: list[BatchOut]
    older: str | None


class BatchItemOut(Schema):
    """One row of a bulk replay."""

    position: int
    ref: str
    namespace: str | None
    event_kind: str | None
    source_lane: str | None
    outcome: str
    code: str
    child_work_id: str | None
    child_event_id: str | None
    ended_at: datetime | None


class BatchItemsOut(Schema):
    """Rows of a bulk replay in their order, and the position to go on from."""

    items: list[BatchItemOut]
    after: int | None
