"""Lock-free reads of live and ended work for the operator pages.

Every list is paged by key and every count stops at a cap, so that a page costs the same at a thousand rows
and at a hundred million.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from integration.errors import InvalidInput, WorkItemNotFound
from integration.projection.inputs import InputsMissing, count_inputs, read_generation
from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.states import WorkItemState, stored
from integration.storage import db
from integration.storage.probe import capabilities
from integration.storage.sql import operator_reads as sql
from integration.work.attempts import end_of, read_attempts
from integration.work.keys import Position, find_everywhere, find_in, key_of

#: Where counting a generation's inputs stops.
MOST_INPUTS: Final = 1000
_WAITING: Final = frozenset({WorkItemState.PENDING.value, WorkItemState.BLOCKED.value})


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
class InputRange:
    """Which inputs a projection's generation holds, by ordinal; nothing of what they say.

    Attributes:
        first: The lower bound, inclusive.
        last: The upper bound, inclusive.
        count: How many inputs lie between them, at most `MOST_INPUTS`.
        is_waiting: The generation is queued behind another one.
    """

    first: int
    last: int
    count: int
    is_waiting: bool

    @property
    def is_capped(self) -> bool:
        """Whether there may be more than were counted."""
        return self.count >= MOST_INPUTS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDetail:
    """One WorkItem with its attempts, neighbours in the lineage, and the receipt of the Event that it names."""

    row: WorkRow
    receipt_id: str | None
    org_id: str
    route_version: int
    flow: str
    target_lane: str | None
    lane_ordinal: int | None
    inputs: InputRange | None
    blocked_on: str | None
    blocked_since: datetime | None
    owner_generation: int
    failure_count: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    updated_at: datetime
    attempts: tuple[AttemptRow, ...]
    child_work_id: str | None
    child_state: str | None


def list_work(
    *,
    state: WorkItemState | None,
    cursor: str | None,
    limit: int = 50,
    within: Scope = EVERYWHERE,
    namespace: str | None = None,
) -> WorkPage:
    """Return one page of WorkItems.

    Args:
        state: Only this state; None for all, which a list of some namespaces cannot have.
        cursor: A neighbour's cursor of an earlier page; None for the first page.
        limit: Rows on the page.
        within: Where the reader may look; one statement for each namespace, at most 20.
        namespace: Only this namespace.

    Returns:
        All states by id, newest first; an ended state by its end, newest first; a waiting state in the order
        in which it is claimed, of some namespaces in the order in which it came.

    Raises:
        InvalidInput: the cursor is not one of this list, or the reader has to name a namespace or a state.
    """
    names, position, reader = names_to_read(within, namespace), Position.parse(cursor), db.read()
    if names is None:
        found = find_everywhere(reader, state, position, limit + 1)
    elif state is None:
        message = "A list of some namespaces is of one state: name the state."
        raise InvalidInput(message, field="state")
    else:
        found = find_in(reader, names, state, position, limit + 1)
    more = len(found) > limit
    found = found[:limit]
    if position.is_back:
        found.reverse()
    packs = pack_names(row["PackInstallId"] for row in found)
    rows = tuple(_work_row(row, packs) for row in found)
    if not found:
        return WorkPage(rows=(), newer=None, older=None)
    has_newer = more if position.is_back else cursor is not None
    has_older = True if position.is_back else more
    return WorkPage(
        rows=rows,
        newer="<" + key_of(state, found[0]) if has_newer else None,
        older=">" + key_of(state, found[-1]) if has_older else None,
    )


def get_work(work_id: str, *, within: Scope = EVERYWHERE) -> WorkDetail:
    """Return one WorkItem with its attempts and its replay child.

    Args:
        work_id: The WorkItem.
        within: Where the reader may look; a row elsewhere is none.

    Raises:
        WorkItemNotFound: there is none of this id.
    """
    reader = db.read()
    row = reader.fetch_one(sql.GET_WORK_ITEM, {"work_id": work_id})
    if row is None or not within.covers(row["Namespace"]):
        raise WorkItemNotFound
    child = reader.fetch_one(sql.FIND_REPLAY_CHILD, {"work_id": work_id})
    event = reader.fetch_one(sql.FIND_RECEIPT_OF_EVENT, {"event_id": row["EventId"]})
    return WorkDetail(
        row=_work_row(row, pack_names([row["PackInstallId"]])),
        receipt_id=event["ReceiptId"] if event else None,
        org_id=row["OrgId"],
        route_version=row["RouteVersion"],
        flow=f"{row['FlowName']} {row['FlowVersion']}",
        target_lane=row["TargetLane"],
        lane_ordinal=row["LaneOrdinal"],
        inputs=_input_range(row) if row["ProjectionKey"] is not None else None,
        blocked_on=row["BlockedOn"],
        blocked_since=row["BlockedSince"],
        owner_generation=row["OwnerGeneration"],
        failure_count=row["FailureCount"],
        first_failed_at=row["FirstFailedAt"],
        last_failed_at=row["LastFailedAt"],
        updated_at=row["UpdatedAt"],
        attempts=tuple(_attempt(entry, row) for entry in read_attempts(reader, work_id)),
        child_work_id=child["WorkId"] if child else None,
        child_state=child["State"] if child else None,
    )


def _input_range(row: dict[str, Any]) -> InputRange | None:
    """Return a generation's range, or None where its row spells none."""
    if not capabilities().has_ranges:
        return None
    reader = db.read()
    try:
        generation = read_generation(reader, row["WorkId"])
    except InputsMissing:
        return None
    return InputRange(
        first=generation.first,
        last=generation.last,
        count=count_inputs(reader, generation, cap=MOST_INPUTS),
        is_waiting=row["ProjectionActiveKey"] is None and row["State"] in _WAITING,
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


def _attempt(entry: dict[str, Any], item: dict[str, Any]) -> AttemptRow:
    outcome, finished_at = end_of(
        entry,
        attempt=item["Attempt"],
        state=item["State"],
        terminal_at=item["TerminalAt"],
        last_failed_at=item["LastFailedAt"],
    )
    return AttemptRow(
        attempt=entry["Attempt"],
        started_at=entry["StartedAt"],
        finished_at=finished_at,
        outcome=outcome or str(item["State"]),
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
        state=stored(WorkItemState, row["State"]),
        run_after=row["RunAfter"],
        attempt=row["Attempt"],
        max_attempts=row["MaxAttempts"],
        created_at=row["CreatedAt"],
        terminal_at=row["TerminalAt"],
        replayed_at=row["ReplayedAt"],
        replay_of_work_id=row["ReplayOfWorkId"],
        cancel_requested_at=row["CancelRequestedAt"],
    )
