"""Lock-free figures for the operator pages: counts that stop at a cap, hours, workers, fences."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from integration.states import TERMINAL_STATES, ReceiptState, WorkItemState, stored
from integration.storage import db
from integration.storage.sql import namespace_lists
from integration.storage.sql import operator_reads as sql

COUNT_CAP: Final = 10_000
HOUR_CAP: Final = 2_000
#: How many of the rows that died last are asked whether somebody replayed them.
DEAD_WINDOW: Final = 500
_QUEUE: Final = (WorkItemState.PENDING, WorkItemState.PROCESSING, WorkItemState.RETRY, WorkItemState.BLOCKED)
#: A process that has not been heard of for this long does not count as alive.
ALIVE_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """A count that stopped at its cap.

    Attributes:
        value: What was counted, at most the cap.
        capped: There are more.
    """

    value: int
    capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForOperators:
    """What calls for an operator.

    Attributes:
        dead: WorkItems that died and that nobody replayed, among those that died last.
        quarantined: Receipts that cannot become work.
    """

    dead: Capped
    quarantined: Capped


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """What arrived, ended well and died within one hour."""

    start: datetime
    arrived: Capped
    succeeded: Capped
    died: Capped


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """An armed admission fence: what it stops, since when, by whom."""

    fence_id: str
    namespace: str
    scope: str
    expires_at: datetime | None
    armed_at: datetime
    armed_by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many claim processes are alive, as sums."""

    alive: int
    slots: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What became of a run's webhooks.

    Attributes:
        ready_receipts: Receipts that are not work yet.
        states: How many WorkItems stand in each state.
    """

    ready_receipts: int
    states: dict[WorkItemState, int]

    @property
    def unfinished(self) -> int:
        """How many receipts and WorkItems are still to be worked on."""
        return self.ready_receipts + sum(count for state, count in self.states.items() if state not in TERMINAL_STATES)


def count_in_state(state: WorkItemState, *, cap: int = COUNT_CAP) -> Capped:
    """Count the WorkItems in a state, up to a cap.

    Args:
        state: The state.
        cap: Where counting stops, in rows.

    Returns:
        The capped count.
    """
    return _capped(
        db.read().fetch_one(sql.COUNT_WORK_IN_STATE, {"state": str(state), "cap": cap + 1}),
        cap,
    )


def count_receipts(state: ReceiptState, *, cap: int = COUNT_CAP) -> Capped:
    """Count the receipts in a state, up to a cap."""
    return _capped(
        db.read().fetch_one(sql.COUNT_RECEIPTS_IN_STATE, {"state": str(state), "cap": cap + 1}),
        cap,
    )


def count_states(names: Collection[str], *, cap: int = COUNT_CAP) -> dict[str, Capped]:
    """Count what waits in some namespaces, by state; each count stops at a cap.

    Args:
        names: The namespaces; one statement for each.
        cap: Where counting stops, in rows.

    Returns:
        Of WorkItems `pending`, `processing`, `retry` and `blocked`, of receipts `received` and `quarantined`.

    Locks: none.
    """
    found: Counter[str] = Counter()
    for name in names:
        rows = db.read().fetch_all(namespace_lists.COUNT_STATES_OF_NAMESPACE, {"namespace": name, "cap": cap + 1})
        found.update({row["What"]: int(row["Found"]) for row in rows})
    states = (*_QUEUE, ReceiptState.RECEIVED, ReceiptState.QUARANTINED)
    return {str(state): Capped(value=min(found[state], cap), capped=found[state] > cap) for state in states}


def waiting_for_operators(*, cap: int, window: int | None = None) -> WaitingForOperators:
    """Count what calls for an operator, in one round trip.

    Args:
        cap: Where each count stops, in rows.
        window: How many of the rows that died last are asked whether somebody replayed them; `DEAD_WINDOW` when None.

    Returns:
        Dead WorkItems that were not replayed, and quarantined receipts.

    Locks: none.
    """
    window = window or DEAD_WINDOW
    row = db.read().fetch_all(sql.COUNT_WAITING_FOR_OPERATORS, {"cap": cap + 1, "window": window})[0]
    found, seen = int(row["Dead"]), int(row["Seen"])
    return WaitingForOperators(
        dead=Capped(value=min(found, cap), capped=found > cap or seen >= window),
        quarantined=_capped({"Found": row["Quarantined"]}, cap),
    )


def oldest_dead_at() -> datetime | None:
    """Return when the oldest dead WorkItem died, or None if none is dead."""
    row = db.read().fetch_one(sql.OLDEST_DEAD)
    return row["TerminalAt"] if row else None


def oldest_due_at() -> datetime | None:
    """Return since when the longest waiting due WorkItem could have been claimed, or None."""
    row = db.read().fetch_one(sql.OLDEST_DUE)
    return row["RunAfter"] if row else None


def workers_alive(now: datetime) -> Workers:
    """Return the sums over the claim processes heard of lately.

    Args:
        now: The present moment, aware UTC.
    """
    row = db.read().fetch_one(sql.SUM_RUNNING_PROCESSES, {"since": now - timedelta(seconds=ALIVE_SECONDS)})
    found = row or {"Alive": 0, "Slots": 0, "InFlight": 0}
    return Workers(
        alive=int(found["Alive"]),
        slots=int(found["Slots"]),
        in_flight=int(found["InFlight"]),
    )


def progress_since(namespace: str, moment: datetime) -> Progress:
    """Return what became of the webhooks that a namespace received since a moment; for a run of known size.

    Args:
        namespace: The namespace.
        moment: The start of the run, aware UTC.
    """
    reader = db.read()
    span = {"namespace": namespace, "first_id": _first_id_at(moment)}
    ready = reader.fetch_one(sql.COUNT_READY_RECEIPTS_SINCE, span)
    states = reader.fetch_all(sql.COUNT_WORK_SINCE_BY_STATE, span)
    return Progress(
        ready_receipts=int(ready["Found"]) if ready else 0,
        states={stored(WorkItemState, row["State"]): int(row["Found"]) for row in states},
    )


def armed_fences() -> tuple[Fence, ...]:
    """Return the admission fences that are armed now, newest first, at most fifty."""
    return tuple(
        Fence(
            fence_id=row["FenceId"],
            namespace=row["Namespace"],
            scope=row["Scope"],
            expires_at=row["ExpiresAt"],
            armed_at=row["ArmedAt"],
            armed_by=row["ArmedBy"],
            reason=row["Reason"],
        )
        for row in db.read().fetch_all(sql.LIST_FENCES_FOR_OPERATORS)
    )


def namespaces() -> tuple[str, ...]:
    """Return the first two hundred namespaces by name, for suggestions."""
    return tuple(row["Namespace"] for row in db.read().fetch_all(sql.LIST_NAMESPACES))


def hours(now: datetime) -> tuple[Hour, ...]:
    """Return what arrived, succeeded and died in each of the last twelve hours, oldest first, in one round trip.

    Args:
        now: The present moment, aware; the last hour is the one that it is in, by the clock of its zone.
    """
    top = now.replace(minute=0, second=0, microsecond=0).astimezone(UTC)
    starts = [top - timedelta(hours=sql.HOURS - 1 - number) for number in range(sql.HOURS + 1)]
    params: dict[str, Any] = {"cap": HOUR_CAP + 1}
    params |= {f"at_{number}": start for number, start in enumerate(starts)}
    params |= {f"id_{number}": _first_id_at(start) for number, start in enumerate(starts)}
    found = {(row["Hour"], row["What"]): row for row in db.read().fetch_all(sql.READ_HOURS, params)}
    return tuple(
        Hour(
            start=starts[number],
            arrived=_capped(found[number, "arrived"], HOUR_CAP),
            succeeded=_capped(found[number, WorkItemState.SUCCEEDED.value], HOUR_CAP),
            died=_capped(found[number, WorkItemState.DEAD.value], HOUR_CAP),
        )
        for number in range(sql.HOURS)
    )


def answers() -> bool:
    """Return True when the database answers a statement."""
    return db.read().fetch_one(sql.ANSWER_ONE) is not None


def _capped(row: dict[str, Any] | None, cap: int) -> Capped:
    found = int(row["Found"]) if row else 0
    return Capped(value=min(found, cap), capped=found > cap)


def _first_id_at(moment: datetime) -> str:
    """Return the smallest UUIDv7 of a moment."""
    return str(uuid.UUID(int=int(moment.timestamp() * 1000) << 80))
