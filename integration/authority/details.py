"""One row as an operator opens it: its owner, attempts, receipt, lineage and the fences that bear on it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from integration import errors
from integration.authority import facts as reading
from integration.authority import gather
from integration.authority.gate import decide_owner
from integration.authority.lineage import NO_ROW, lineage_of
from integration.authority.listing import (
    AttemptSummary,
    DeadDetail,
    DeadRow,
    EventContext,
    ReceiptSummary,
)
from integration.authority.values import Owner, OwnerAmbiguous, OwnerKind, Ref, RefKind
from integration.scopes import EVERYWHERE, Scope
from integration.states import WorkItemState
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import dead_letters, replay_facts
from integration.work.attempts import end_of, read_attempts

_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def looks_like_id(text: str) -> bool:
    """Return whether a text has an id's form."""
    return _ID.fullmatch(text) is not None


def get_detail(ref: Ref, *, within: Scope = EVERYWHERE, using: str = "default") -> DeadDetail:
    """Return everything an operator may see of one row, whatever its state.

    Args:
        ref: The row.
        within: Where the reader may look; a row elsewhere is none.
        using: The database alias.

    Returns:
        Fixed-shape metadata and immutable context; no payload, token, worker or failure text.

    Raises:
        EventNotFound: There is no such row.
        OwnerAmbiguous: More than one WorkItem names its Event.

    Locks: none.
    Rule: A-38.
    """
    reader = db.read(using)
    found = capabilities(using)
    event_id = gather.find_event_id(reader, ref, has_work_items=found.has_work_items)
    event = None if event_id is None else reading.read_event(reader, event_id)
    if event is None or not within.covers(event.namespace):
        raise errors.EventNotFound(NO_ROW)
    items = reading.read_work_items(reader, event.event_id) if found.has_additive else ()
    owner = decide_owner(event, items, has_additive=found.has_additive)
    if owner.kind is OwnerKind.AMBIGUOUS:
        message = f"{owner.why.sentence} It cannot be opened or replayed."
        raise OwnerAmbiguous(message, event_id=event.event_id, work_ids=[item.work_id for item in items])
    event_row = reader.fetch_one(replay_facts.READ_EVENT_FACTS, {"event_id": event.event_id})
    shown = _read_shown_row(reader, owner, event.event_id)
    if event_row is None or shown is None:
        raise errors.EventNotFound(NO_ROW)
    candidates = read_candidates(reader, [event.event_id], has_additive=found.has_additive)
    row = make_row(shown, candidates.get(event.event_id, []))
    start = (
        reader.fetch_one(dead_letters.READ_INPUT_START, {"work_id": owner.work_id})
        if owner.work_id is not None and found.has_ranges
        else None
    )
    return DeadDetail(
        row=row,
        owner=owner,
        event=EventContext(
            execution_owner=event_row["ExecutionOwner"],
            status=event_row["Status"],
            retry_count=event_row["RetryCount"],
            terminal_at=event_row["TerminalAt"],
            replayed_at=event_row["ReplayedAt"],
        ),
        route_id=shown["RouteId"],
        run_after=shown.get("RunAfter") if row.terminal_at is None else None,
        cancel_requested_at=shown.get("CancelRequestedAt"),
        input_start_ordinal=None if start is None else start["InputStartOrdinal"],
        attempts=_read_attempts(reader, row) if owner.kind is OwnerKind.WORK_ITEM else (),
        receipt=_read_receipt(reader, event_row),
        lineage=lineage_of(reader, owner.work_id, event.event_id, has_additive=found.has_additive),
        fences=reading.list_fences(reader, event.namespace, event.event_kind),
    )


def _read_shown_row(reader: Reader, owner: Owner, event_id: str) -> Row | None:
    if owner.kind is OwnerKind.WORK_ITEM:
        return reader.fetch_one(dead_letters.READ_WORK_ROW, {"work_id": owner.work_id})
    return reader.fetch_one(dead_letters.READ_EVENT_ROW, {"event_id": event_id})


def _read_attempts(reader: Reader, row: DeadRow) -> tuple[AttemptSummary, ...]:
    if row.work_id is None:
        return ()
    return tuple(_attempt(entry, row) for entry in reversed(read_attempts(reader, row.work_id)))


def _attempt(entry: Row, row: DeadRow) -> AttemptSummary:
    outcome, finished_at = end_of(
        entry,
        attempt=row.attempt,
        state=row.state,
        terminal_at=row.terminal_at,
        last_failed_at=row.last_failed_at,
    )
    return AttemptSummary(
        attempt=entry["Attempt"],
        ownership_epoch=entry["OwnershipEpoch"],
        started_at=entry["StartedAt"],
        dispatched_at=entry["DispatchedAt"],
        finished_at=finished_at,
        outcome=outcome,
    )


def _read_receipt(reader: Reader, event_row: Row) -> ReceiptSummary | None:
    if event_row["ReceiptId"] is None:
        return None
    row = reader.fetch_one(replay_facts.READ_RECEIPT_SUMMARY, {"receipt_id": event_row["ReceiptId"]})
    if row is None:
        return None
    return ReceiptSummary(
        receipt_id=row["ReceiptId"],
        receipt_index=event_row["ReceiptIndex"],
        route_key=row["RouteKey"],
        state=row["State"],
        received_at=row["ReceivedAt"],
        materialized_at=row["MaterializedAt"],
    )


def event_ids_of(reader: Reader, ref: Ref, *, has_additive: bool) -> tuple[str, ...]:
    """Return the Event that an id leads to, as a tuple for an IN list; empty without one."""
    event_id = gather.find_event_id(reader, ref, has_work_items=has_additive)
    return () if event_id is None else (event_id,)


def read_candidates(reader: Reader, event_ids: Iterable[str], *, has_additive: bool) -> dict[str, list[Row]]:
    """Read the WorkItems that name some Events, by Event; none on a schema without them."""
    wanted = tuple(sorted(set(event_ids)))
    candidates: dict[str, list[Row]] = defaultdict(list)
    if wanted and has_additive:
        for item in reader.fetch_all(dead_letters.LIST_CANDIDATES_OF_EVENTS, {"event_ids": wanted}):
            candidates[item["EventId"]].append(item)
    return candidates


def is_owning(item: Row) -> bool:
    """Return whether a WorkItem has authority by the gate's first rule."""
    return bool(item["Attempt"] > 0 or item["State"] == WorkItemState.RECONCILED_LEGACY_TERMINAL)


def is_dead_candidate(item: Row) -> bool:
    """Return whether a WorkItem is a dead row of its own."""
    return bool(item["State"] == WorkItemState.RECONCILED_LEGACY_TERMINAL) or bool(
        item["State"] == WorkItemState.DEAD and item["Attempt"] > 0
    )


def make_row(row: Row, candidates: list[Row]) -> DeadRow:
    """Make a row of what a list or detail statement returned and the WorkItems that name its Event."""
    is_event = row["Stream"] == "e"
    mirror = candidates[0] if is_event and len(candidates) == 1 else None
    owner = OwnerKind.EVENT if is_event else OwnerKind.WORK_ITEM
    if len(candidates) > 1:
        owner = OwnerKind.AMBIGUOUS
    values: dict[str, Any] = {
        "work_id": row["WorkId"] if mirror is None else mirror["WorkId"],
        "execution_class": row["ExecutionClass"] if mirror is None else mirror["ExecutionClass"],
        "replay_of_work_id": row["ReplayOfWorkId"] if mirror is None else mirror["ReplayOfWorkId"],
    }
    identity = row["EventId"] if is_event else row["WorkId"]
    return DeadRow(
        ref=Ref(id=identity, kind=RefKind.EVENT if is_event else RefKind.WORK_ITEM),
        owner=owner,
        note="legacy_reconciled" if row["State"] == WorkItemState.RECONCILED_LEGACY_TERMINAL else None,
        event_id=row["EventId"],
        state=row["State"],
        work_type=row["WorkType"],
        org_id=row["OrgId"],
        namespace=row["Namespace"],
        pack_install_id=row["PackInstallId"],
        pack_name=row["PackName"],
        pack_version=row["PackVersion"],
        incarnation=row["Incarnation"],
        provider=row["Provider"],
        event_kind=row["EventKind"],
        route_version=row["RouteVersion"],
        source_lane=row["SourceLane"],
        target_lane=row["TargetLane"],
        lane_ordinal=row["LaneOrdinal"],
        attempt=row["Attempt"],
        max_attempts=row["MaxAttempts"],
        failure_count=row["FailureCount"],
        first_failed_at=row["FirstFailedAt"],
        last_failed_at=row["LastFailedAt"],
        terminal_at=row["TerminalAt"],
        replayed_at=row["ReplayedAt"],
        replay_of_event_id=row["ReplayOfEventId"],
        idempotency_key=row["IdempotencyKey"],
        delivery_id=row["DeliveryId"],
        delivery_sequence=row["DeliverySequence"],
        occurred_at=row["OccurredAt"],
        received_at=row["ReceivedAt"],
        **values,
    )
