"""Decisions of the Event executor that need no database. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from integration.states import EventStatus, FailureClass, WorkItemState, stored
from integration.storage.sql import legacy
from integration.storage.statements import Statement
from integration.work.finish import SUMMARIES, Ended

Row = Mapping[str, Any]


class HeldBack(StrEnum):
    """Why an Event that is due is not executed; each fails closed and leaves every row as it is."""

    #: WorkItems of both work types name it.
    AMBIGUOUS = "ambiguous_owner"
    #: Its WorkItem was claimed, has ended, is fenced or waits to be tried again.
    MIRROR = "mirror_conflict"
    #: Its mirror waits for the dependency that its route names.
    BLOCKED = "blocked"
    #: An earlier generation of its projection has not ended.
    QUEUED = "queued_successor"
    #: An earlier Event of its source lane has not ended.
    LANE = "earlier_in_lane"


#: In which states a WorkItem that was never claimed still waits for its Event.
_WAITING: Final = frozenset({WorkItemState.PENDING, WorkItemState.BLOCKED})


def decide_hold(mirrors: Sequence[Row], *, rollback_fence_id: str | None = None) -> HeldBack | None:
    """Decide whether an Event's WorkItems let the Event executor claim it.

    Args:
        mirrors: Its WorkItems under both work types, as LOCK_MIRRORS returns them under the lock.
        rollback_fence_id: The fence of the rollback that gave the pack to the executor; then the rows name theirs.

    Returns:
        Why not, or None: there is none, or one that was never claimed, waits and is first of its projection, or one
        that this very rollback handed over.

    Rule: C-10.
    """
    if not mirrors:
        return None
    if len(mirrors) > 1:
        return HeldBack.AMBIGUOUS
    (mirror,) = mirrors
    state = stored(WorkItemState, mirror["State"])
    if state is WorkItemState.AWAITING_LEGACY_OUTCOME and rollback_fence_id is not None:
        return None if mirror["RollbackExecutionFenceId"] == rollback_fence_id else HeldBack.MIRROR
    if mirror["Attempt"] != 0 or mirror["LeaseToken"] is not None or state not in _WAITING:
        return HeldBack.MIRROR
    if state is WorkItemState.BLOCKED:
        return HeldBack.BLOCKED
    is_queued = mirror["ProjectionKey"] is not None and mirror["ProjectionActiveKey"] is None
    return HeldBack.QUEUED if is_queued else None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an execution of an Event ends.

    Attributes:
        status: `processed`, `skipped`, `dead`, or `failed` for a later try.
        failure: Why it failed; None when it did not.
    """

    status: EventStatus
    failure: FailureClass | None = None

    @property
    def last_error(self) -> str | None:
        """The kernel's own words for the row; nothing that a flow says is stored."""
        return None if self.failure is None else SUMMARIES[self.failure]


def decide_end(ended: Ended, failure: FailureClass | None, *, attempt: int, max_attempts: int) -> End:
    """Decide what an execution's verdict means to the Event.

    Args:
        ended: The verdict.
        failure: Why it failed, if it did.
        attempt: The number of the attempt, from 1.
        max_attempts: How many the route permits.
    """
    match ended:
        case Ended.COMPLETE:
            return End(status=EventStatus.PROCESSED)
        case Ended.SKIP:
            return End(status=EventStatus.SKIPPED)
        case Ended.BURY:
            return End(status=EventStatus.DEAD, failure=failure or FailureClass.FLOW_ERROR)
        case Ended.RETRY | Ended.ACKNOWLEDGE_CANCEL:
            # An Event cannot be cancelled while it is executed, so that nobody asked for it.
            status = EventStatus.FAILED if attempt < max_attempts else EventStatus.DEAD
            return End(status=status, failure=failure or FailureClass.FLOW_ERROR)


_CONVERGENCE: Final[dict[EventStatus, tuple[Statement, Statement]]] = {
    EventStatus.PROCESSED: (legacy.CONVERGE_PROCESSED, legacy.CONVERGE_PROCESSED_BASE),
    EventStatus.SKIPPED: (legacy.CONVERGE_SKIPPED, legacy.CONVERGE_SKIPPED_BASE),
    EventStatus.DEAD: (legacy.CONVERGE_DEAD, legacy.CONVERGE_DEAD_BASE),
}


def convergence_of(status: EventStatus, *, has_outcome: bool) -> Statement:
    """Return the move by which a mirror follows an Event that ended.

    Args:
        status: How the Event ended.
        has_outcome: The table has the additive columns.
    """
    whole, base = _CONVERGENCE[status]
    return whole if has_outcome else base


#: What waits, whatever for. What a rollback holds is told by a receipt of its own.
_FOLLOWING: Final = frozenset({WorkItemState.PENDING, WorkItemState.RETRY, WorkItemState.BLOCKED})


def is_left_behind(mirror: Row) -> bool:
    """Return whether a WorkItem of an Event that ended has to follow it: never claimed, and not ended."""
    return (
        mirror["Attempt"] == 0 and mirror["LeaseToken"] is None and stored(WorkItemState, mirror["State"]) in _FOLLOWING
    )
