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


class ReduceBy(StrEnum):
    """How the inputs of a projection's generation become the payload that its flow is given."""

    #: The last input's payload.
    LAST = "last"
    #: Field by field, a later value in place of an earlier one.
    MERGE = "merge"
    #: A function that an app registers.
    CUSTOM = "custom"


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
    #: Given back by a draining process before it ran.
    RELEASED = "released"


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
    #: An input of the generation's range is not there.
    INPUTS_MISSING = "inputs_missing"
    #: The lease ran out before the execution finished.
    LEASE_LOST = "lease_lost"
    #: No failure: a draining process gave it back before it ran.
    RELEASED = "released"


class Maker(StrEnum):
    """Who may make a transition."""

    #: The process whose lease token and ownership epoch the row holds, or installs.
    CLAIMANT = "claimant"
    #: A process that takes back what a lost claimant holds.
    REAPER = "reaper"
    #: A person with the permission, through a service that audits.
    OPERATOR = "operator"
    #: A worker that compares what an item waits for with what there is.
    RESOLVER = "resolver"
    #: The Event executor of earlier builds.
    EVENT_EXECUTOR = "event_executor"
    #: A rollback.
    CUTOVER = "cutover"
    #: What carries the Event executor's outcome over to the WorkItem.
    PROJECTOR = "projector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One permitted move of a WorkItem.

    Attributes:
        name: The verb, as in the audit and the logs.
        source: The state it leaves.
        target: The state it reaches.
        made_by: Who makes it.
        guard: What must hold besides the state; each is a condition of the statement's WHERE.
        writes: What it writes besides the state.
    """

    name: str
    source: WorkItemState
    target: WorkItemState
    made_by: Maker
    guard: tuple[str, ...]
    writes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the move as a diagram writes it."""
        return f"{self.name}: {self.source} -> {self.target}"


_S = WorkItemState
_LIVE: tuple[str, ...] = ("live token", "live epoch")
_LEASE_NEW = ("new token", "epoch + 1", "attempt + 1", "lease owner", "lease end", "target lane key")
_LEASE_GONE = ("no lease", "no target lane key")
_END = ("outcome", "end", "no projection key")
_FAILURE = ("failure class", "failure count", "failure times")
_HELD, _FREED = ("its rollback fence", "no rollback receipt"), ("no rollback fence",)
_WAITING: tuple[str, ...] = ("read epoch", "no token", "no rollback fence")


def _moves(
    name: str,
    sources: tuple[WorkItemState, ...],
    target: WorkItemState,
    made_by: Maker,
    *,
    guard: tuple[str, ...],
    writes: tuple[str, ...],
) -> list[Transition]:
    return [
        Transition(name=name, source=source, target=target, made_by=made_by, guard=guard, writes=writes)
        for source in sources
    ]


def _ends(name: str, target: WorkItemState, *guard: str, writes: tuple[str, ...] = ()) -> list[Transition]:
    """Return the move by which a claimant ends its own live claim."""
    return _moves(
        name,
        (_S.PROCESSING,),
        target,
        Maker.CLAIMANT,
        guard=(*_LIVE, *guard),
        writes=(*writes, *_END, *_LEASE_GONE),
    )


def _converges(name: str, target: WorkItemState) -> list[Transition]:
    """Return the move by which a mirror follows its Event."""
    guard = ("attempt 0", "no token", "Event ended so", "Event executor owns the Event")
    return _moves(
        name,
        (_S.PENDING, _S.RETRY, _S.BLOCKED),
        target,
        Maker.EVENT_EXECUTOR,
        guard=guard,
        writes=(*_END, "no dependency", "no target lane key"),
    )


#: Every permitted move; whatever is not here is refused.
TRANSITIONS: tuple[Transition, ...] = (
    *_moves(
        "claim",
        (_S.PENDING,),
        _S.PROCESSING,
        Maker.CLAIMANT,
        guard=("due", "attempt 0", *_WAITING, "free target lane", "active projection key", "Event unclaimed"),
        writes=(*_LEASE_NEW, "Event owner"),
    ),
    *_moves(
        "claim",
        (_S.RETRY,),
        _S.PROCESSING,
        Maker.CLAIMANT,
        guard=("due", "attempts left", *_WAITING, "free target lane"),
        writes=_LEASE_NEW,
    ),
    *_ends("complete", _S.SUCCEEDED),
    *_ends("skip", _S.SKIPPED),
    *_moves(
        "retry",
        (_S.PROCESSING,),
        _S.RETRY,
        Maker.CLAIMANT,
        guard=(*_LIVE, "attempts left", "no cancellation asked for"),
        writes=("run after", *_FAILURE, *_LEASE_GONE),
    ),
    *_ends("bury", _S.DEAD, writes=_FAILURE),
    *_ends("acknowledge_cancel", _S.CANCELLED, "cancellation asked for"),
    *_moves(
        "cancel",
        (_S.PENDING, _S.RETRY, _S.BLOCKED),
        _S.CANCELLED,
        Maker.OPERATOR,
        guard=_WAITING,
        writes=("who asked", *_END, "no dependency"),
    ),
    *_moves(
        "release",
        (_S.PROCESSING,),
        _S.RETRY,
        Maker.CLAIMANT,
        guard=_LIVE,
        writes=("run after", "one attempt more", "failure class", *_LEASE_GONE),
    ),
    *_moves(
        "reap",
        (_S.PROCESSING,),
        _S.RETRY,
        Maker.REAPER,
        guard=(*_LIVE, "lease over, with slack", "attempts left"),
        writes=("run after", *_FAILURE, *_LEASE_GONE),
    ),
    *_moves(
        "reap_exhausted",
        (_S.PROCESSING,),
        _S.DEAD,
        Maker.REAPER,
        guard=(*_LIVE, "lease over, with slack", "no attempts left"),
        writes=(*_FAILURE, *_END, *_LEASE_GONE),
    ),
    *_moves(
        "block",
        (_S.PENDING,),
        _S.BLOCKED,
        Maker.RESOLVER,
        guard=("attempt 0", "no token", "no rollback fence", "dependency missing"),
        writes=("dependency", "since when"),
    ),
    *_moves(
        "unblock",
        (_S.BLOCKED,),
        _S.PENDING,
        Maker.RESOLVER,
        guard=("same dependency", "dependency met"),
        writes=("no dependency",),
    ),
    *_moves(
        "terminalize_mirror",
        (_S.PENDING, _S.RETRY, _S.BLOCKED),
        _S.DEAD,
        Maker.OPERATOR,
        guard=("attempt 0", "Event replayed in this transaction"),
        writes=(*_END, "replay mark", *_LEASE_GONE),
    ),
    *_converges("converge_processed", _S.SUCCEEDED),
    *_converges("converge_skipped", _S.SKIPPED),
    *_converges("converge_dead", _S.DEAD),
    *_moves(
        "fence",
        (_S.PENDING, _S.RETRY),
        _S.AWAITING_LEGACY_OUTCOME,
        Maker.CUTOVER,
        guard=("no token", "no ambiguous attempt"),
        writes=("rollback fence",),
    ),
    *_moves(
        "unfence", (_S.AWAITING_LEGACY_OUTCOME,), _S.PENDING, Maker.CUTOVER, guard=("attempt 0", *_HELD), writes=_FREED
    ),
    *_moves(
        "unfence_retry",
        (_S.AWAITING_LEGACY_OUTCOME,),
        _S.RETRY,
        Maker.CUTOVER,
        guard=("claimed before", *_HELD),
        writes=_FREED,
    ),
    *_moves(
        "reconcile",
        (_S.AWAITING_LEGACY_OUTCOME,),
        _S.RECONCILED_LEGACY_TERMINAL,
        Maker.PROJECTOR,
        guard=("its rollback fence", "outcome receipt"),
        writes=("receipt version and digest", "end"),
    ),
    *_moves(
        "lose_outcome",
        (_S.AWAITING_LEGACY_OUTCOME,),
        _S.LEGACY_OUTCOME_UNKNOWN,
        Maker.PROJECTOR,
        guard=("its rollback fence", "no outcome can be proved"),
        writes=(),
    ),
)
