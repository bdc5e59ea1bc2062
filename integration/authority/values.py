"""The frozen values that the authority reads, decides and answers with. Nothing here reads or writes.

No value carries a payload, a token, a worker's name or what a caller wrote about a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from integration import errors

VIEW_PERMISSION: Final = "integration.view_connector_event"
REPLAY_PERMISSION: Final = "integration.replay_connector_event"

#: What an operator needs to replay.
BOTH_PERMISSIONS: Final = frozenset({VIEW_PERMISSION, REPLAY_PERMISSION})

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class OwnerAmbiguous(errors.Refused):
    """More than one WorkItem claims this Event; it cannot be shown, reserved or replayed."""

    code = "ambiguous_owner"


class OwnerKind(StrEnum):
    """Who has authority over a row's state, terminal time and replay."""

    WORK_ITEM = "work_item"
    EVENT = "event"
    AMBIGUOUS = "ambiguous"


class RefKind(StrEnum):
    """What an id was said to name."""

    ANY = "any"
    WORK_ITEM = "work_item"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """What an operator points at: a WorkId, or an EventId where no WorkItem has authority.

    Attributes:
        id: The id, 36 lowercase characters.
        kind: What it was said to be; ANY is looked up as a WorkId first.
    """

    id: str
    kind: RefKind = RefKind.ANY

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `<id>`, `work_item:<id>` or `event:<id>`.

        Raises:
            InvalidInput: It is none of these.
        """
        prefix, separator, rest = text.strip().rpartition(":")
        identity = rest.lower()
        if not _UUID.fullmatch(identity) or (separator and prefix not in {RefKind.WORK_ITEM, RefKind.EVENT}):
            message = "A reference is a WorkId or an EventId: 36 characters, optionally after work_item: or event:."
            raise errors.InvalidInput(message, field="ref")
        return cls(id=identity, kind=RefKind(prefix) if separator else RefKind.ANY)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return self.id if self.kind is RefKind.ANY else f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The gate's rule that decided an owner, and the facts that it read.

    Attributes:
        rule: The rule's number in the ownership gate, 1 to 5.
        code: Its stable name.
        sentence: What it says, for the operator.
        facts: What was read, by name.
    """

    rule: int
    code: str
    sentence: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns an Event's work.

    Attributes:
        kind: The owner.
        work_id: The WorkItem that owns it or mirrors it; None without one, or when ambiguous.
        why: The rule and the facts.
    """

    kind: OwnerKind
    work_id: str | None
    why: Why


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
        search: A WorkId, an EventId or an idempotency key.
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
    """One page of dead rows, latest death first.

    Attributes:
        rows: The rows, by terminal time and id, descending.
        rejected: Duplicates that were left out.
        newer: The cursor of the page before this one, None on the first.
        older: The cursor of the page after this one, None on the last.
        searched_back_to: Set when a filtered search stopped at its bound: the terminal time that it reached.
            `older` goes on from there.
    """

    rows: tuple[DeadRow, ...]
    rejected: tuple[RejectedRows, ...]
    newer: str | None
    older: str | None
    searched_back_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedCount:
    """A count that stops counting.

    Attributes:
        count: Rows counted.
        is_capped: There may be more: the cap or the bound of the search was reached.
    """

    count: int
    is_capped: bool

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


class Ruling(StrEnum):
    """What a rule says of the facts."""

    OK = "ok"
    REFUSED = "refused"
    #: A fact that the rule needs was not there to read, since an earlier rule refuses.
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rule's answer.

    Attributes:
        code: The refusal's stable code, the rule's name as well.
        ruling: Whether it lets the replay through.
        sentence: What was found, for the operator.
        facts: What the rule read, by name.
        next_step: What the operator can do about a refusal; empty otherwise.
    """

    code: str
    ruling: Ruling
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Whose replay was first.

    Attributes:
        actor_name: Who asked for it; None if the audit does not know.
        at: When the row was reserved, aware UTC.
        child_work_id: The generation that it made, None if it made none that can be found.
        child_event_id: The replay Event of that generation.
    """

    actor_name: str | None
    at: datetime | None
    child_work_id: str | None
    child_event_id: str | None


_HTTP_STATUS: Final = {"not_found": 404, "permission_denied": 403}
_EXIT_CODE: Final = {"not_found": errors.EXIT_NOT_FOUND, "permission_denied": errors.EXIT_NOT_ALLOWED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A replay that did not happen; nothing but an audit entry was written.

    Attributes:
        code: The stable code.
        sentence: Why, for the operator.
        next_step: What to do about it.
        winner: Whose replay was first, for `already_replayed` and `lost_race`.
        facts: What the refusing rule read.
    """

    code: str
    sentence: str
    next_step: str
    winner: Winner | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def http_status(self) -> int:
        """The HTTP status that says this."""
        return _HTTP_STATUS.get(self.code, 409)

    @property
    def exit_code(self) -> int:
        """The exit code that says this."""
        return _EXIT_CODE.get(self.code, errors.EXIT_REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A replay that happened.

    Attributes:
        original: The row that was replayed.
        original_event_id: Its Event.
        child_work_id: The new generation.
        child_event_id: The new Event.
        pack_install_id: The incarnation that admitted the child.
        route_id: The route that it follows.
        route_version: That route's version.
        lane_ordinal: The child's place in its incarnation's order.
        replayed_at: When the original was reserved, aware UTC.
        is_repeat: The same request was answered before; this call wrote nothing.
    """

    original: Ref
    original_event_id: str
    child_work_id: str
    child_event_id: str
    pack_install_id: str
    route_id: str
    route_version: int
    lane_ordinal: int | None
    replayed_at: datetime
    is_repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a replay goes: the active incarnation and its live route, as far as they were found."""

    pack_install_id: str | None
    pack_name: str | None
    pack_version: str | None
    incarnation: int | None
    route_id: str | None
    route_version: int | None
    execution_class: str | None
    flow: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The dry run of a replay: every rule with its verdict, from the replay's own list.

    Attributes:
        ref: What was asked about.
        owner: The owner and why; None if the row was not read.
        verdicts: Every rule, in the order in which the replay asks them.
        refusal: What the replay would answer now; None if it would go through.
        target: Where it would go.
        lock_order: The ranks that the replay locks, in order.
        notes: What the operator should know besides, one sentence each.
    """

    ref: Ref
    owner: Owner | None
    verdicts: tuple[Verdict, ...]
    refusal: Refused | None
    target: Target | None
    lock_order: tuple[str, ...]
    notes: tuple[str, ...] = ()
