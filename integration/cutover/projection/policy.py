"""What a projection cutover refuses, and why. Pure: decisions on facts that were read.

An old-protocol generation has no lower bound, so that which inputs it executed was inferred. Nothing is inferred here:
an input is *direct* when a WorkItem names its Event, whatever that WorkItem came to, and *indirect* when none does,
since a later input of its projection took its place. For an indirect one its projection's ended WorkItems answer: up to
the greatest ordinal that one of them selects, the *completed boundary*. An Event's own status proves nothing: old
builds changed it before the execution was over. An ordinal of 0 or none is of the time before there were ordinals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from integration import errors
from integration.cutover.receipts import Direction
from integration.ingress.policy import EVERY_SCOPE
from integration.states import EventStatus, ExecutionOwner, PackStatus


class Reason(StrEnum):
    """Why a projection cutover is refused, in the order in which it is asked."""

    PACK_NOT_ACTIVE = "pack_not_active"
    HANDOFF_MISSING = "handoff_missing"
    FENCE_MISSING = "fence_missing"
    FENCE_EXPIRES = "fence_expires"
    FENCE_OVERRIDDEN = "fence_overridden"
    ORDINALS_BEHIND = "ordinals_behind"
    HISTORY_CHANGED = "history_changed"
    UNENDED_WORK = "unended_work"
    AMBIGUOUS_OWNER = "ambiguous_owner"
    IDENTITY_UNRESOLVED = "identity_unresolved"
    MISSING_OWNER = "missing_owner"
    MIXED_HISTORY = "mixed_history"
    BEYOND_BOUNDARY = "beyond_boundary"

    @property
    def sentence(self) -> str:
        """What was found."""
        return _WORDS[self][0]

    @property
    def next_step(self) -> str:
        """What the operator can do about it."""
        return _WORDS[self][1]


_RECOVERY: Final = (
    "This needs a recovery decision that is reviewed separately: do not change, delete or replay inputs to get past it."
    " What comes from now on is taken by a new incarnation of the pack, once one is activated."
)
_WORDS: Final[dict[Reason, tuple[str, str]]] = {
    Reason.PACK_NOT_ACTIVE: (
        "The incarnation is not the active one of its pack.",
        "Name the active incarnation. A retired one admits nothing: the old runtime ends what it has left.",
    ),
    Reason.HANDOFF_MISSING: (
        "The incarnation's newest cutover receipt does not give its work to the WorkItems.",
        "Make the inbound cutover forward first.",
    ),
    Reason.FENCE_MISSING: (
        "No admission fence over the whole namespace (scope *) is armed.",
        "Arm one without an expiry, and let the old workers drain behind it.",
    ),
    Reason.FENCE_EXPIRES: (
        "The admission fence over the namespace expires by itself.",
        "Arm one without an expiry.",
    ),
    Reason.FENCE_OVERRIDDEN: (
        "The admission fence has an override, or had one during the audit.",
        "Lift its overrides, wait until what they let in has ended, and start again.",
    ),
    Reason.ORDINALS_BEHIND: (
        "An Event of the incarnation has an ordinal that was not given yet.",
        "Set NextLaneOrdinal of the incarnation's row to one more than the greatest LaneOrdinal of its Events: a new"
        " input would be taken for one of the old protocol.",
    ),
    Reason.HISTORY_CHANGED: (
        "Inputs were admitted, or the fence was exchanged, while the history was audited.",
        "Find the writer that does not keep to the fence, stop it, and start again.",
    ),
    Reason.UNENDED_WORK: (
        "Projection work of the old protocol has not ended.",
        "Leave the fence armed and the old workers and resolvers running until it has ended; change no state by hand.",
    ),
    Reason.AMBIGUOUS_OWNER: ("Several WorkItems name the same input.", _RECOVERY),
    Reason.IDENTITY_UNRESOLVED: (
        "An input without a WorkItem does not say which projection it is of: its route or its source lane is missing.",
        _RECOVERY,
    ),
    Reason.MISSING_OWNER: (
        "No ended WorkItem of its projection is retained that could answer for an input, or the one that took it over"
        " is gone.",
        _RECOVERY,
    ),
    Reason.MIXED_HISTORY: (
        "An input without a WorkItem is of a projection with and without ordinals: where it stands cannot be told.",
        _RECOVERY,
    ),
    Reason.BEYOND_BOUNDARY: (
        "An input without a WorkItem comes after everything that its projection has completed.",
        f"Wait for unended work, if there is any, and start again. Otherwise: {_RECOVERY}",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFacts:
    """An armed admission fence.

    Attributes:
        fence_id: Its id.
        scope: `*` or an event kind.
        expires_at: When it ends by itself; None for never.
        is_overridden: It lets a scope through, or did since the audit began.
    """

    fence_id: str
    scope: str
    expires_at: datetime | None
    is_overridden: bool

    @property
    def holds(self) -> bool:
        """Whether a cutover may rely on it."""
        return self.scope == EVERY_SCOPE and self.expires_at is None and not self.is_overridden


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What has to hold besides the history, as of one moment.

    Attributes:
        status: The incarnation's.
        direction: Of its newest cutover receipt; None when it has none.
        fences: The namespace's armed fences.
        next_ordinal: The ordinal that its next input would get.
        highest_ordinal: The greatest that an Event of it has; 0 when none has one.
    """

    status: PackStatus
    direction: str | None
    fences: tuple[FenceFacts, ...]
    next_ordinal: int
    highest_ordinal: int

    @property
    def cutoff(self) -> int:
        """The last ordinal that the old protocol gave."""
        return self.next_ordinal - 1

    @property
    def fence_ids(self) -> frozenset[str]:
        """The fences that a cutover may rely on."""
        return frozenset(fence.fence_id for fence in self.fences if fence.holds)


def decide_conditions(found: Conditions) -> Iterator[Reason]:
    """Yield what refuses a cutover, whatever the history.

    Rule: P-14.
    """
    if found.status is not PackStatus.ACTIVE:
        yield Reason.PACK_NOT_ACTIVE
    if found.direction != Direction.FORWARD:
        yield Reason.HANDOFF_MISSING
    fence = _decide_fences(found.fences)
    if fence is not None:
        yield fence
    if found.highest_ordinal >= found.next_ordinal:
        yield Reason.ORDINALS_BEHIND


def _decide_fences(fences: Sequence[FenceFacts]) -> Reason | None:
    wide = [fence for fence in fences if fence.scope == EVERY_SCOPE]
    if any(fence.holds for fence in wide):
        return None
    if not wide:
        return Reason.FENCE_MISSING
    # Of several, the one that comes closest: an override can be lifted, an expiry stays.
    return Reason.FENCE_OVERRIDDEN if any(fence.expires_at is None for fence in wide) else Reason.FENCE_EXPIRES


def decide_unchanged(audited: Conditions, found: Conditions) -> Reason | None:
    """Decide whether what was audited without locks is all there is.

    A fence that was armed before the audit and still is, and let nothing through meanwhile, has kept everything out
    that keeps to fences; the counter shows what did not.

    Args:
        audited: As it was read before the audit.
        found: As it is under the locks, which nobody can pass who admits or replays.
    """
    if audited.fence_ids & found.fence_ids and audited.next_ordinal == found.next_ordinal:
        return None
    return Reason.HISTORY_CHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """What is retained of a projection's WorkItems.

    Attributes:
        boundary: The greatest ordinal that an ended one selects; None when there is none.
        has_zero: One has no ordinal.
        has_positive: One has an ordinal.
    """

    boundary: int | None = None
    has_zero: bool = False
    has_positive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A projection: its retained WorkItems, and whether any of its Events has an ordinal, or none.

    Attributes:
        boundary: As of its `Owners`.
        is_mixed: Some Event or WorkItem has an ordinal, and some has none.
    """

    boundary: int | None
    is_mixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input of a source projection.

    Attributes:
        event_id: Its Event.
        event_kind: The event kind.
        ordinal: Its ordinal; 0 for none.
        owner: Who executes it, by the Event.
        status: The Event's.
        task_count: How many WorkItems name the Event.
    """

    event_id: str
    event_kind: str
    ordinal: int
    owner: ExecutionOwner
    status: EventStatus
    task_count: int

    @property
    def is_indirect(self) -> bool:
        """Whether its projection's history has to answer for it."""
        return decide_alone(self) is None and self.task_count == 0


def decide_alone(found: Input) -> Reason | None:
    """Decide about an input by what it says itself, as far as that refuses it.

    Rule: P-14.
    """
    if found.task_count > 1:
        return Reason.AMBIGUOUS_OWNER
    if found.owner is ExecutionOwner.EVENT and found.status is EventStatus.PROCESSING:
        return Reason.UNENDED_WORK
    if found.owner is ExecutionOwner.WORK_ITEM and found.task_count == 0:
        return Reason.MISSING_OWNER
    return None


def decide_indirect(ordinal: int, history: History) -> Reason | None:
    """Decide whether its projection's history answers for an indirect input.

    Args:
        ordinal: The input's; 0 for none.
        history: The whole projection's.

    Rule: P-14, P-15.
    """
    if history.boundary is None:
        return Reason.MISSING_OWNER
    if history.is_mixed:
        return Reason.MIXED_HISTORY
    return Reason.BEYOND_BOUNDARY if ordinal > history.boundary else None


class CutoverRefused(errors.Refused):
    """The projection cutover is refused; nothing was written."""

    def __init__(self, reason: Reason, **data_fields: object) -> None:
        """Keep the reason that comes first."""
        self.reason = reason
        super().__init__(f"{reason.sentence} {reason.next_step}", reason=reason.value, **data_fields)
