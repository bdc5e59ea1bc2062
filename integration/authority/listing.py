"""What the list and a row's page show: sanitized, fixed in shape, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration import errors
from integration.authority.values import Owner, OwnerKind, Ref

_ASCII_FILTERS: Final = frozenset({"org", "work_type", "execution_class", "owner"})
_TEXT_FILTERS: Final = (
    *sorted(_ASCII_FILTERS),
    "namespace",
    "pack",
    "provider",
    "event_kind",
    "source_lane",
    "search",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilters:
    """What a list of dead rows is narrowed to; None means everything.

    Attributes:
        org: An OrgId.
        namespace: A namespace, exact.
        pack: A pack's name, or a PackInstallId for one incarnation.
        provider: A provider's name, exact.
        event_kind: An event kind, exact.
        work_type: A work type.
        owner: `work_item` or `event`.
        execution_class: `source_projection` or `per_event`.
        source_lane: A source lane, exact.
        min_attempts: At least so many attempts.
        max_attempts: At most so many attempts.
        died_after: Died at this time or later, aware UTC.
        died_before: Died before this time, aware UTC.
        replayed: Only rows that were replayed, or only rows that were not.
        search: A WorkId or an EventId, whole or its first eight characters or more, or an idempotency key.
    """

    org: str | None = None
    namespace: str | None = None
    pack: str | None = None
    provider: str | None = None
    event_kind: str | None = None
    work_type: str | None = None
    owner: str | None = None
    execution_class: str | None = None
    source_lane: str | None = None
    min_attempts: int | None = None
    max_attempts: int | None = None
    died_after: datetime | None = None
    died_before: datetime | None = None
    replayed: bool | None = None
    search: str | None = None

    @property
    def is_any_time(self) -> bool:
        """Whether a row that does not tell when it ended may be among them."""
        return self.died_after is None and self.died_before is None

    def __post_init__(self) -> None:
        """Refuse what cannot match or cannot be compared."""
        for name in ("died_after", "died_before"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                message = f"{name} needs a time zone."
                raise errors.InvalidInput(message, field=name)
        for name in _TEXT_FILTERS:
            text = getattr(self, name)
            # MariaDB refuses to compare its ascii columns with anything else; no column holds half a character.
            is_comparable = text is None or (
                text.isascii()
                if name in _ASCII_FILTERS
                else not any("\ud800" <= character <= "\udfff" for character in text)
            )
            if not is_comparable:
                message = f"{name} holds a character that no row's has."
                raise errors.InvalidInput(message, field=name)
        if self.owner is not None and self.owner not in {OwnerKind.WORK_ITEM, OwnerKind.EVENT}:
            message = "owner is work_item or event."
            raise errors.InvalidInput(message, field="owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRow:
    """One row of work and its immutable Event context, in fixed shape.

    Attributes:
        ref: What `plan` and `replay` take.
        owner: Who has authority over it.
        note: A code that tells why the row cannot be replayed whatever its plan says, or None.
        work_id: The owning or mirroring WorkItem, None without one.
        event_id: The Event.
        state: The owner's state.
        pack_name: The pack that admitted it; with version and incarnation, None if the pack row is gone.
        attempt: Executions claimed under the owner.
        max_attempts: The most it may have; None on the Event executor's rows.
        failure_count: Failures recorded under the owner.
        terminal_at: When the owner ended, aware UTC.
        replayed_at: When it was replayed, aware UTC.
        replay_of_work_id: The generation that it replays.
        replay_of_event_id: The Event that it replays.
    """

    ref: Ref
    owner: OwnerKind
    note: str | None
    work_id: str | None
    event_id: str
    state: str
    work_type: str
    org_id: str
    namespace: str
    pack_install_id: str
    pack_name: str | None
    pack_version: str | None
    incarnation: int | None
    provider: str
    event_kind: str
    route_version: int
    execution_class: str | None
    source_lane: str | None
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
    replay_of_event_id: str | None
    idempotency_key: str
    delivery_id: str | None
    delivery_sequence: int | None
    occurred_at: datetime | None
    received_at: datetime

    @property
    def is_actionable(self) -> bool:
        """Return whether nothing in the row itself forbids a replay; the plan decides."""
        return self.note is None and self.replayed_at is None and self.owner is not OwnerKind.AMBIGUOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Duplicate dead rows of one Event: reported, never actionable."""

    event_id: str
    work_ids: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadPage:
    """One page of dead rows.

    Attributes:
        rows: The rows, by terminal time and id, in the order that was asked for.
        rejected: Duplicates that were left out.
        newer: The cursor of the page with newer rows, None without one.
        older: The cursor of the page with older rows, None without one.
        searched_back_to: Set when a filtered search stopped at its bound: the terminal time that it reached. The
            cursor in its direction goes on from there.
        is_search_cut: A search by the first characters of an id stopped at its bound: more ids begin so.
    """

    rows: tuple[DeadRow, ...]
    rejected: tuple[RejectedRows, ...]
    newer: str | None
    older: str | None
    searched_back_to: datetime | None
    is_search_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedCount:
    """A count that stops counting.

    Attributes:
        count: Rows counted.
        is_capped: There may be more: the cap or the bound of the search was reached.
        searched: How many of the latest dead rows were looked at, where the bound stopped the search; else None.
        read_at: The database's time when counting began; None where nothing was counted but a page found.
    """

    count: int
    is_capped: bool
    searched: int | None = None
    read_at: datetime | None = None

    def __str__(self) -> str:
        """Return the count with a plus sign if there may be more."""
        return f"{self.count:,}+" if self.is_capped else f"{self.count:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSummary:
    """One claimed execution. The last one's end is derived from the WorkItem; `outcome` None means running."""

    attempt: int
    ownership_epoch: int
    started_at: datetime
    dispatched_at: datetime | None
    finished_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptSummary:
    """The verified delivery that the Event came from, without its body."""

    receipt_id: str
    receipt_index: int | None
    route_key: str
    state: str
    received_at: datetime
    materialized_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext:
    """The Event's own record: the executor that was, and its replay fence. No authority over a WorkItem's row."""

    execution_owner: str
    status: str
    retry_count: int
    terminal_at: datetime | None
    replayed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceSummary:
    """An armed admission fence whose scope covers the row; `is_overridden` lets this event kind through."""

    fence_id: str
    scope: str
    armed_at: datetime
    armed_by: str
    expires_at: datetime | None
    is_overridden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """One generation of a replay chain; `work_id` is None for an Event that never had a WorkItem."""

    work_id: str | None
    event_id: str
    state: str
    attempt: int
    created_at: datetime
    terminal_at: datetime | None
    replayed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """A replay chain around one generation.

    Attributes:
        ancestors: What it replays, oldest first.
        descendants: What replays it, oldest first.
        is_cut: The chain is longer than what is shown.
    """

    ancestors: tuple[LineageNode, ...] = ()
    descendants: tuple[LineageNode, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadDetail:
    """Everything an operator may see of one row, in any state.

    Attributes:
        row: Identity, state, counts and times.
        owner: The owner and why.
        event: The Event's own record.
        route_id: The route that admitted it.
        run_after: When it may be claimed, for a row that is not terminal.
        cancel_requested_at: When a cancel was asked for.
        input_start_ordinal: Where a projection's input range starts.
        attempts: Claimed executions, first to last.
        receipt: The delivery, None without one.
        lineage: The replay chain.
        fences: Armed fences that cover it.
    """

    row: DeadRow
    owner: Owner
    event: EventContext
    route_id: str
    run_after: datetime | None
    cancel_requested_at: datetime | None
    input_start_ordinal: int | None
    attempts: tuple[AttemptSummary, ...]
    receipt: ReceiptSummary | None
    lineage: Lineage
    fences: tuple[FenceSummary, ...]
