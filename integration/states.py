"""The state machines, one table each: which transition exists, who makes it, what it is called.

The table is what the statements in `storage/sql` are held against: a pair of states that is not in it is
refused by the statement's WHERE, and a test asks the database about every pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from integration.errors import UnknownState

E = TypeVar("E", bound=StrEnum)


def stored(kind: type[E], text: str) -> E:
    """Return a state as the database holds it.

    Args:
        kind: The machine's states.
        text: The column's value.

    Returns:
        The member.

    Raises:
        UnknownState: Another build wrote it; names the machine and the value.
    """
    try:
        return kind(text)
    except ValueError:
        message = f"The database holds a {kind.__name__} that this build does not know; update the build."
        raise UnknownState(message, kind=kind.__name__, value=text) from None


class WorkItemState(StrEnum):
    """Where a generation stands. The order is the order in which an operator meets them."""

    #: Admitted, never claimed, or waiting for its `RunAfter`.
    PENDING = "pending"
    #: Claimed; a live lease token and ownership epoch decide whose it is.
    PROCESSING = "processing"
    #: Failed and will be claimed again after `RunAfter`.
    RETRY = "retry"
    #: Waits for the dependency that its flow declares.
    BLOCKED = "blocked"
    #: The flow finished.
    SUCCEEDED = "succeeded"
    #: The flow decided that there is nothing to do.
    SKIPPED = "skipped"
    #: Attempts are used up, or the flow rejected it.
    DEAD = "dead"
    #: An operator or a cutover cancelled it.
    CANCELLED = "cancelled"
    #: Fenced by a rollback; the legacy executor will decide.
    AWAITING_LEGACY_OUTCOME = "awaiting_legacy_outcome"
    #: The legacy executor decided; terminal and immutable.
    RECONCILED_LEGACY_TERMINAL = "reconciled_legacy_terminal"
    #: What the legacy executor did cannot be proved; blocks another cutover.
    LEGACY_OUTCOME_UNKNOWN = "legacy_outcome_unknown"


TERMINAL_STATES = frozenset(
    {
        WorkItemState.SUCCEEDED,
        WorkItemState.SKIPPED,
        WorkItemState.DEAD,
        WorkItemState.CANCELLED,
        WorkItemState.RECONCILED_LEGACY_TERMINAL,
    }
)
NONTERMINAL_STATES = frozenset(WorkItemState) - TERMINAL_STATES


class EventStatus(StrEnum):
    """The Event executor's own states; compatibility only once a WorkItem was claimed."""

    PENDING = "pending"
    PROCESSING = "processing"
    FAILED = "failed"
    PROCESSED = "processed"
    SKIPPED = "skipped"
    DEAD = "dead"


TERMINAL_EVENT_STATUSES = frozenset({EventStatus.PROCESSED, EventStatus.SKIPPED, EventStatus.DEAD})


class ExecutionOwner(StrEnum):
    """Who executes an Event's work: the Event executor before the claim, the WorkItem after it."""

    EVENT = "event"
    WORK_ITEM = "work_item"


class ExecutionClass(StrEnum):
    """How inputs become work: coalesced into a range, or one WorkItem for each Event."""

    SOURCE_PROJECTION = "source_projection"
    PER_EVENT = "per_event"


class WorkType(StrEnum):
    """The two work types of Event-backed work."""

    CONNECTOR_EVENT = "connector_event"
    WORKFLOW_ACTION_APPLY = "workflow_action_apply"


class ReceiptState(StrEnum):
    """Where a stored webhook stands."""

    RECEIVED = "received"
    MATERIALIZED = "materialized"
    QUARANTINED = "quarantined"


class PackStatus(StrEnum):
    """Where a pack incarnation stands."""

    INSTALLED = "installed"
    ACTIVE = "active"
    RETIRED = "retired"


class AttemptOutcome(StrEnum):
    """How a claimed execution ended, as the next claim or the WorkItem tells it."""

    RETRY = "retry"
    LOST = "lost"


class FailureClass(StrEnum):
    """The closed set of reasons for which an execution fails; kernel-made, never caller text."""

    #: The flow raised an error that says nothing more.
    FLOW_ERROR = "flow_error"
    #: The flow asked for a later try.
    FLOW_RETRY = "flow_retry"
    #: The flow rejected the input; no further try.
    FLOW_REJECTED = "flow_rejected"
    #: No flow of this name and version is registered in the process.
    FLOW_UNKNOWN = "flow_unknown"
    #: The payload cannot be opened or read.
    PAYLOAD_UNREADABLE = "payload_unreadable"
    #: The lease ran out before the execution finished.
    LEASE_LOST = "lease_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One permitted move of a WorkItem.

    Attributes:
        name: The verb, as in the audit and the logs.
        source: The state it leaves.
        target: The state it reaches.
        made_by: Who makes it: claimant, reaper, operator, resolver, event_executor, cutover or projector.
    """

    name: str
    source: WorkItemState
    target: WorkItemState
    made_by: str


def _moves(name: str, sources: tuple[WorkItemState, ...], target: WorkItemState, made_by: str) -> list[Transition]:
    return [Transition(name=name, source=source, target=target, made_by=made_by) for source in sources]


_S = WorkItemState
#: Every permitted move; whatever is not here is refused.
TRANSITIONS: tuple[Transition, ...] = (
    *_moves("claim", (_S.PENDING, _S.RETRY), _S.PROCESSING, "claimant"),
    *_moves("complete", (_S.PROCESSING,), _S.SUCCEEDED, "claimant"),
    *_moves("skip", (_S.PROCESSING,), _S.SKIPPED, "claimant"),
    *_moves("retry", (_S.PROCESSING,), _S.RETRY, "claimant"),
    *_moves("bury", (_S.PROCESSING,), _S.DEAD, "claimant"),
    *_moves("acknowledge_cancel", (_S.PROCESSING,), _S.CANCELLED, "claimant"),
    *_moves("cancel", (_S.PENDING, _S.RETRY, _S.BLOCKED), _S.CANCELLED, "operator"),
    *_moves("reap", (_S.PROCESSING,), _S.RETRY, "reaper"),
    *_moves("reap_exhausted", (_S.PROCESSING,), _S.DEAD, "reaper"),
    *_moves("block", (_S.PENDING,), _S.BLOCKED, "resolver"),
    *_moves("unblock", (_S.BLOCKED,), _S.PENDING, "resolver"),
    *_moves("terminalize_mirror", (_S.PENDING, _S.RETRY, _S.BLOCKED), _S.DEAD, "operator"),
    *_moves("converge_processed", (_S.PENDING,), _S.SUCCEEDED, "event_executor"),
    *_moves("converge_skipped", (_S.PENDING,), _S.SKIPPED, "event_executor"),
    *_moves("converge_dead", (_S.PENDING,), _S.DEAD, "event_executor"),
    *_moves("fence", (_S.PENDING, _S.RETRY), _S.AWAITING_LEGACY_OUTCOME, "cutover"),
    *_moves("reconcile", (_S.AWAITING_LEGACY_OUTCOME,), _S.RECONCILED_LEGACY_TERMINAL, "projector"),
    *_moves("lose_outcome", (_S.AWAITING_LEGACY_OUTCOME,), _S.LEGACY_OUTCOME_UNKNOWN, "projector"),
)
