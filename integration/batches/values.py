"""What a bulk replay is: its states, its totals, its items. Nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from integration import errors

#: Rows of one bulk replay, at most.
LARGEST: Final = 10_000
#: Rows that may be named by id, at most: each is looked up by itself.
LARGEST_BY_ID: Final = 1_000
HALT_AFTER: Final = 10
#: The namespace of a row that was not found, or has no clear owner, when somebody named it who may look everywhere.
UNKNOWN: Final = ""


class BatchState(StrEnum):
    """Where a bulk replay stands."""

    RUNNING = "running"
    #: Somebody stopped it for a while; it goes on where it was when somebody resumes it.
    PAUSED = "paused"
    #: The canary is through; somebody has to say go.
    WAITING = "waiting"
    #: The same refusal, or the death of children, repeated; somebody has to say go or cancel.
    HALTED = "halted"
    CANCELLED = "cancelled"
    FINISHED = "finished"


ENDED: Final = frozenset({BatchState.CANCELLED, BatchState.FINISHED})


class ItemOutcome(StrEnum):
    """What became of one row."""

    LEFT = ""
    REPLAYED = "replayed"
    #: Somebody else replayed it first.
    LOST_RACE = "lost_race"
    #: A rule refused it; its code stands beside.
    REFUSED = "refused"
    #: It is there no more.
    VANISHED = "vanished"


class BatchNotFound(errors.NotFound):
    """There is no such bulk replay."""


class BatchStateRefused(errors.Refused):
    """The bulk replay is not in a state in which this can be done; nothing was changed."""

    code = "batch_state"


class SelectionDrifted(errors.Refused):
    """The selection is not the one that was looked at; nothing was made."""

    code = "selection_drifted"


class SelectionEmpty(errors.Refused):
    """Nothing that could be replayed is selected; nothing was made."""

    code = "selection_empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many items ended how; the sum of all five is the batch's total, always."""

    replayed: int = 0
    lost_race: int = 0
    refused: int = 0
    vanished: int = 0
    left: int = 0

    @property
    def done(self) -> int:
        """How many are not left."""
        return self.replayed + self.lost_race + self.refused + self.vanished

    @property
    def sum(self) -> int:
        """How many items the ledger holds; the batch's total, or the ledger is broken."""
        return self.done + self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One bulk replay.

    Attributes:
        id: Its id; later ones sort after earlier ones.
        state: Where it stands.
        created_by_id: Whose rights each item is replayed under, read anew for each.
        reason: Why; the reason of every item too.
        selection: What was asked for, by name; `{"ids": count}` for named rows.
        selection_digest: Over the frozen rows in their order.
        total: Rows selected.
        is_capped: More rows matched, or the search stopped at its bound.
        left_out: Matching rows that nothing could replay: replayed already, reconciled, ambiguous.
        canary: Rows that are replayed before somebody has to say go; 0 for none.
        is_past_canary: Somebody said go.
        halt_after: So many same refusals, or dead children, in a row stop it.
        per_minute: Replays a minute at most; 0 for as fast as they go.
        resumed_at: Since when it counts what repeats.
        halt_code: What repeated.
        totals: How many items ended how.
    """

    id: str
    state: BatchState
    created_at: datetime
    created_by_id: int | None
    created_by_name: str
    reason: str
    selection: Mapping[str, Any]
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
    totals: Totals

    @property
    def percent(self) -> int:
        """How much of it is done, 0 to 100."""
        return 100 * self.totals.done // self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One row of a bulk replay, at its place."""

    position: int
    ref: str
    namespace: str | None
    event_kind: str | None
    source_lane: str | None
    outcome: ItemOutcome
    code: str
    child_work_id: str | None
    child_event_id: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """A page of bulk replays, newest first; `older` is the id to go on from."""

    batches: tuple[Batch, ...]
    older: str | None
