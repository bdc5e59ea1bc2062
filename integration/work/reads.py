"""Lock-free reads of live and ended work for the operator pages.

Every list is paged by key and every count stops at a cap, so that a page costs the same at a thousand rows
and at a hundred million.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from integration.errors import InvalidInput, WorkItemNotFound
from integration.states import (
    TERMINAL_STATES,
    AttemptOutcome,
    ReceiptState,
    WorkItemState,
)
from integration.storage import db
from integration.storage.sql import operator_reads as sql
from integration.storage.statements import Statement

COUNT_CAP: Final = 10_000
HOUR_CAP: Final = 2_000
HOURS_SHOWN: Final = 12
#: A process that has not been heard of for this long does not count as alive.
ALIVE_SECONDS: Final = 30
_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LONG_AGO: Final = datetime(1970, 1, 2, tzinfo=UTC)


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
        dead: Dead WorkItems.
        quarantined: Receipts that cannot become work.
    """

    dead: Capped
    quarantined: Capped


@dataclass(frozen=True, slots=True, kw_only=True)
class PackName:
    """What an operator calls an incarnation."""

    pack_install_id: str
    namespace: str
    name: str
    version: str
    incarnation: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """One line of the work list; nothing in it was written by a caller but names and lanes."""

    work_id: str
    event_id: str
    work_type: str
    namespace: str
    pack: PackName | None
    event_kind: str
    source_lane: str | None
    state: WorkItemState
    run_after: datetime
    attempt: int
    max_attempts: int
    created_at: datetime
    terminal_at: datetime | None
    replayed_at: datetime | None
    replay_of_work_id: str | None
    cancel_requested_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPage:
    """A page of work and the cursors of its neighbours; None where there is no neighbour."""

    rows: tuple[WorkRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One claimed execution. `outcome` of the last one is the WorkItem's own state."""

    attempt: int
    started_at: datetime
    finished_at: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDetail:
    """One WorkItem with its attempts and neighbours in the lineage."""

    row: WorkRow
    org_id: str
    route_version: int
    flow: str
    target_lane: str | None
    lane_ordinal: int | None
    owner_generation: int
    failure_count: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    updated_at: datetime
    attempts: tuple[AttemptRow, ...]
    child_work_id: str | None
    child_state: str | None


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


def waiting_for_operators(*, cap: int) -> WaitingForOperators:
    """Count what calls for an operator, in one round trip.

    Args:
        cap: Where each count stops, in rows.

    Returns:
        Dead WorkItems and quarantined receipts.

    Locks: none.
    """
    row = db.read().fetch_all(sql.COUNT_WAITING_FOR_OPERATORS, {"cap": cap + 1})[0]
    return WaitingForOperators(
        dead=_capped({"Found": row["Dead"]}, cap), quarantined=_capped({"Found": row["Quarantined"]}, cap)
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
        states={WorkItemState(row["State"]): int(row["Found"]) for row in states},
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
        for row in db.read().fetch_all(sql.LIST_ARMED_FENCES)
    )


def namespaces() -> tuple[str, ...]:
    """Return the first two hundred namespaces by name, for suggestions."""
    return tuple(row["Namespace"] for row in db.read().fetch_all(sql.LIST_NAMESPACES))


def hours(now: datetime, *, count: int = HOURS_SHOWN) -> tuple[Hour, ...]:
    """Return what arrived, succeeded and died in each of the last hours, oldest first.

    Args:
        now: The present moment, aware UTC; the last hour is the one that it is in.
        count: How many hours.
    """
    reader = db.read()
    top = now.replace(minute=0, second=0, microsecond=0)
    found = []
    for back in range(count - 1, -1, -1):
        start = top - timedelta(hours=back)
        end = start + timedelta(hours=1)
        span = {"start": start, "end": end, "cap": HOUR_CAP + 1}
        ids = {
            "first_id": _first_id_at(start),
            "end_id": _first_id_at(end),
            "cap": HOUR_CAP + 1,
        }
        found.append(
            Hour(
                start=start,
                arrived=_capped(reader.fetch_one(sql.COUNT_ARRIVED_IN_HOUR, ids), HOUR_CAP),
                succeeded=_capped(
                    reader.fetch_one(
                        sql.COUNT_ENDED_IN_HOUR,
                        {**span, "state": str(WorkItemState.SUCCEEDED)},
                    ),
                    HOUR_CAP,
                ),
                died=_capped(
                    reader.fetch_one(
                        sql.COUNT_ENDED_IN_HOUR,
                        {**span, "state": str(WorkItemState.DEAD)},
                    ),
                    HOUR_CAP,
                ),
            )
        )
    return tuple(found)


def list_work(*, state: WorkItemState | None, cursor: str | None, limit: int = 50) -> WorkPage:
    """Return one page of WorkItems.

    Args:
        state: Only this state; None for all.
        cursor: A neighbour's cursor of an earlier page; None for the first page.
        limit: Rows on the page.

    Returns:
        All states by id, newest first; an ended state by its end, newest first; a waiting state in the order
        in which it is claimed.

    Raises:
        InvalidInput: the cursor is not one of this list.
    """
    backwards, key = _parse_cursor(cursor)
    statement, params = _list_statement(state, key, backwards=backwards)
    found = db.read().fetch_all(statement, {**params, "limit": limit + 1})
    more = len(found) > limit
    found = found[:limit]
    if backwards:
        found.reverse()
    packs = pack_names(row["PackInstallId"] for row in found)
    rows = tuple(_work_row(row, packs) for row in found)
    if not found:
        return WorkPage(rows=(), newer=None, older=None)
    has_newer = more if backwards else cursor is not None
    has_older = True if backwards else more
    return WorkPage(
        rows=rows,
        newer="<" + _key(state, found[0]) if has_newer else None,
        older=">" + _key(state, found[-1]) if has_older else None,
    )


def get_work(work_id: str) -> WorkDetail:
    """Return one WorkItem with its attempts and its replay child.

    Raises:
        WorkItemNotFound: there is none of this id.
    """
    reader = db.read()
    row = reader.fetch_one(sql.GET_WORK_ITEM, {"work_id": work_id})
    if row is None:
        raise WorkItemNotFound
    child = reader.fetch_one(sql.FIND_REPLAY_CHILD, {"work_id": work_id})
    attempts = reader.fetch_all(sql.LIST_ATTEMPTS_OF_WORK, {"work_id": work_id})
    return WorkDetail(
        row=_work_row(row, pack_names([row["PackInstallId"]])),
        org_id=row["OrgId"],
        route_version=row["RouteVersion"],
        flow=f"{row['FlowName']} {row['FlowVersion']}",
        target_lane=row["TargetLane"],
        lane_ordinal=row["LaneOrdinal"],
        owner_generation=row["OwnerGeneration"],
        failure_count=row["FailureCount"],
        first_failed_at=row["FirstFailedAt"],
        last_failed_at=row["LastFailedAt"],
        updated_at=row["UpdatedAt"],
        attempts=tuple(_attempt(entry, row) for entry in attempts),
        child_work_id=child["WorkId"] if child else None,
        child_state=child["State"] if child else None,
    )


def pack_names(ids: Iterable[str]) -> dict[str, PackName]:
    """Return the names of incarnations by their id; ids that do not exist are left out."""
    wanted = tuple(sorted(set(ids)))
    if not wanted:
        return {}
    return {
        row["PackInstallId"]: PackName(
            pack_install_id=row["PackInstallId"],
            namespace=row["Namespace"],
            name=row["PackName"],
            version=row["PackVersion"],
            incarnation=row["Incarnation"],
            status=row["Status"],
        )
        for row in db.read().fetch_all(sql.LIST_PACK_NAMES, {"pack_install_ids": wanted})
    }


def answers() -> bool:
    """Return True when the database answers a statement."""
    return db.read().fetch_one(sql.ANSWER_ONE) is not None


def _attempt(entry: dict[str, Any], item: dict[str, Any]) -> AttemptRow:
    # Retry and completion write the WorkItem alone, so the newest attempt's end is read from there.
    newest = entry["Attempt"] == item["Attempt"]
    outcome = entry["Outcome"] or (item["State"] if newest else AttemptOutcome.LOST)
    finished = entry["FinishedAt"]
    if newest and finished is None and item["State"] != WorkItemState.PROCESSING:
        finished = item["TerminalAt"] or item["LastFailedAt"]
    return AttemptRow(
        attempt=entry["Attempt"],
        started_at=entry["StartedAt"],
        finished_at=finished,
        outcome=str(outcome),
    )


def _work_row(row: dict[str, Any], packs: dict[str, PackName]) -> WorkRow:
    return WorkRow(
        work_id=row["WorkId"],
        event_id=row["EventId"],
        work_type=row["WorkType"],
        namespace=row["Namespace"],
        pack=packs.get(row["PackInstallId"]),
        event_kind=row["EventKind"],
        source_lane=row["SourceLane"],
        state=WorkItemState(row["State"]),
        run_after=row["RunAfter"],
        attempt=row["Attempt"],
        max_attempts=row["MaxAttempts"],
        created_at=row["CreatedAt"],
        terminal_at=row["TerminalAt"],
        replayed_at=row["ReplayedAt"],
        replay_of_work_id=row["ReplayOfWorkId"],
        cancel_requested_at=row["CancelRequestedAt"],
    )


def _list_statement(
    state: WorkItemState | None, key: tuple[str, ...], *, backwards: bool
) -> tuple[Statement, dict[str, Any]]:
    if state is None:
        start = key[0] if key else _LAST_ID
        return (sql.LIST_WORK_BY_ID_NEWER if backwards else sql.LIST_WORK_BY_ID_OLDER), {"work_id": start}
    if state in TERMINAL_STATES:
        moment, work_id = (_moment(key), key[-1]) if key else (_FAR, _LAST_ID)
        statement = sql.LIST_ENDED_WORK_NEWER if backwards else sql.LIST_ENDED_WORK_OLDER
        return statement, {"state": str(state), "moment": moment, "work_id": work_id}
    moment, queue, work_id = (_moment(key), key[1], key[-1]) if key else (_LONG_AGO, "", _FIRST_ID)
    statement = sql.LIST_WAITING_WORK_SOONER if backwards else sql.LIST_WAITING_WORK_LATER
    return statement, {
        "state": str(state),
        "moment": moment,
        "queue_class": queue,
        "work_id": work_id,
    }


def _key(state: WorkItemState | None, row: dict[str, Any]) -> str:
    if state is None:
        return str(row["WorkId"])
    if state in TERMINAL_STATES:
        return "~".join((row["TerminalAt"].isoformat(), row["WorkId"]))
    return "~".join((row["RunAfter"].isoformat(), row["QueueClass"], row["WorkId"]))


def _parse_cursor(cursor: str | None) -> tuple[bool, tuple[str, ...]]:
    if cursor is None:
        return False, ()
    # The columns are ASCII; MariaDB refuses to compare them with anything else.
    if cursor[:1] not in {"<", ">"} or len(cursor) > 200 or not cursor.isascii():
        message = "The page's cursor is not one of this list."
        raise InvalidInput(message)
    return cursor[0] == "<", tuple(cursor[1:].split("~"))


def _moment(key: tuple[str, ...]) -> datetime:
    try:
        moment = datetime.fromisoformat(key[0])
        if moment.tzinfo is None or len(key) < 2:
            raise ValueError(key)  # noqa: TRY301 - one message for every fault of a cursor
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = "The page's cursor is not one of this list."
        raise InvalidInput(message) from error
    return moment


def _capped(row: dict[str, Any] | None, cap: int) -> Capped:
    found = int(row["Found"]) if row else 0
    return Capped(value=min(found, cap), capped=found > cap)


def _first_id_at(moment: datetime) -> str:
    """Return the smallest UUIDv7 of a moment."""
    return str(uuid.UUID(int=int(moment.timestamp() * 1000) << 80))
