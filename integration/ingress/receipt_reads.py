"""Lock-free reads of stored receipts for the operator pages; never the body or its headers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from integration.errors import InvalidInput, NotFound
from integration.ingress.policy import QuarantineCode
from integration.scopes import EVERYWHERE, Scope, names_to_read
from integration.states import ReceiptState
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.probe import capabilities
from integration.storage.sql import namespace_lists
from integration.storage.sql import operator_reads as sql

_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)

#: What a quarantine code means and what to do about it; an unknown code still shows as itself.
QUARANTINE_SENTENCES: Final[dict[str, str]] = {
    QuarantineCode.BODY_NOT_JSON: "The body is not UTF-8 JSON with finite numbers, at most 200 deep. The provider must "
    "send it again.",
    QuarantineCode.BODY_NOT_OBJECT: "The body or an event in it is not an object; the provider must send it again.",
    QuarantineCode.ITEM_COUNT: "The body carries no event, or more than 1,000.",
    QuarantineCode.EVENT_KIND_UNRESOLVED: "The pack finds no event kind in the body. Correct its event_kind.",
    QuarantineCode.ROUTE_NOT_LIVE: "No live route takes this event kind. Install a pack that has one.",
    QuarantineCode.LANE_UNRESOLVED: "The route finds no lane in the body. Correct its lane expression.",
    QuarantineCode.SOURCE_LANE_UNRESOLVED: "The route finds no source lane in the body. Correct its source_lane.",
    QuarantineCode.LANE_TOO_LONG: "The lane that the route finds in the body has more than 255 characters.",
    QuarantineCode.BODY_UNREADABLE: "The stored body does not open: it was changed, or belongs to another row.",
    QuarantineCode.EVENT_CONFLICT: "Another writer stored an Event with the same identity.",
    QuarantineCode.COVERAGE_MISSING: "It repeats an input that no generation holds, so that nobody knows whether it "
    "was executed. Decide on a recovery before anything is replayed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """One stored webhook, as an operator may see it."""

    receipt_id: str
    namespace: str
    route_key: str
    provider: str
    delivery_id: str | None
    state: str
    quarantine_code: str | None
    quarantine_sentence: str
    received_at: datetime
    materialized_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptPage:
    """A page of receipts and the cursor of the next; None at the end."""

    rows: tuple[ReceiptRow, ...]
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWork:
    """A WorkItem that names an Event."""

    work_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptEvent:
    """An Event that a receipt became.

    Attributes:
        event_id: The Event.
        event_kind: Its kind.
        index: Its place in the receipt.
        work: The WorkItems that name it; none where a later input took its place, or where the Event executor runs it.
    """

    event_id: str
    event_kind: str
    index: int
    work: tuple[EventWork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptDetail:
    """One receipt, its size and digest, and the Events made of it."""

    row: ReceiptRow
    body_hash: str
    stored_bytes: int
    events: tuple[ReceiptEvent, ...]


def list_receipts(
    *,
    state: ReceiptState | None,
    cursor: str | None,
    limit: int = 50,
    within: Scope = EVERYWHERE,
    namespace: str | None = None,
) -> ReceiptPage:
    """Return one page of receipts, newest first; of one state in all namespaces by namespace, in each newest first.

    Args:
        state: Only this state; None for all.
        cursor: The cursor of an earlier page; None for the first.
        limit: Rows on the page.
        within: Where the reader may look; one statement for each namespace, at most 20.
        namespace: Only this namespace.

    Raises:
        InvalidInput: the cursor is not one of this list, or the reader has to name a namespace.
    """
    names, position = names_to_read(within, namespace), None if cursor is None else _parse(cursor)
    if names is None:
        found = _find_everywhere(state, position, limit + 1)
    else:
        found = _find_in(names, state, position, limit + 1)
    rows = tuple(_row(entry) for entry in found[:limit])
    older = None
    if len(found) > limit:
        last = rows[-1]
        older = "~".join((last.received_at.isoformat(), last.receipt_id, last.namespace))
    return ReceiptPage(rows=rows, older=older)


def _find_everywhere(state: ReceiptState | None, position: dict[str, Any] | None, limit: int) -> list[Row]:
    params: dict[str, Any] = {"limit": limit}
    if state is None:
        # Ids are UUIDv7: their order is the one in which the receipts came.
        params["receipt_id"] = _LAST_ID if position is None else position["receipt_id"]
        statement = sql.LIST_RECEIPTS
    elif position is None:
        params["state"] = str(state)
        statement = sql.FIRST_RECEIPTS_IN_STATE
    else:
        params |= {"state": str(state), **position}
        statement = sql.LIST_RECEIPTS_IN_STATE
    return db.read().fetch_all(statement, params)


def _find_in(
    names: Collection[str], state: ReceiptState | None, position: dict[str, Any] | None, limit: int
) -> list[Row]:
    """Return the receipts of some namespaces that follow a position, one statement for each."""
    params: dict[str, Any] = {**(position or {"moment": _FAR, "receipt_id": _LAST_ID}), "limit": limit}
    statement = namespace_lists.LIST_RECEIPTS_OF_NAMESPACE_IN_ANY_STATE
    if state is not None:
        params["state"], statement = str(state), namespace_lists.LIST_RECEIPTS_OF_NAMESPACE
    reader = db.read()
    found = [row for name in names for row in reader.fetch_all(statement, {**params, "namespace": name})]
    found.sort(key=lambda row: (row["ReceivedAt"], row["ReceiptId"]), reverse=True)
    return found[:limit]


def get_receipt(receipt_id: str, *, within: Scope = EVERYWHERE) -> ReceiptDetail:
    """Return one receipt's facts.

    Args:
        receipt_id: The receipt.
        within: Where the reader may look; a receipt elsewhere is none.

    Raises:
        NotFound: there is none of this id.
    """
    reader = db.read()
    entry = reader.fetch_one(sql.GET_RECEIPT_FACTS, {"receipt_id": receipt_id})
    if entry is None or not within.covers(entry["Namespace"]):
        raise NotFound
    events = reader.fetch_all(sql.LIST_EVENTS_OF_RECEIPT, {"receipt_id": receipt_id})
    work = _work_of(reader, [event["EventId"] for event in events])
    return ReceiptDetail(
        row=_row(entry),
        body_hash=entry["BodyHash"],
        stored_bytes=entry["BodyBytes"],
        events=tuple(
            ReceiptEvent(
                event_id=event["EventId"],
                event_kind=event["EventKind"],
                index=event["ReceiptIndex"],
                work=tuple(work.get(event["EventId"], ())),
            )
            for event in events
        ),
    )


def _work_of(reader: Reader, event_ids: Sequence[str]) -> dict[str, list[EventWork]]:
    """Return the WorkItems that name Events; none where the schema holds no WorkItems."""
    found: dict[str, list[EventWork]] = {}
    if event_ids and capabilities().has_work_items:
        for row in reader.fetch_all(sql.LIST_WORK_NAMING_EVENTS, {"event_ids": tuple(event_ids)}):
            found.setdefault(row["EventId"], []).append(EventWork(work_id=row["WorkId"], state=row["State"]))
    return found


def _row(entry: dict[str, Any]) -> ReceiptRow:
    code = entry["QuarantineCode"]
    return ReceiptRow(
        receipt_id=entry["ReceiptId"],
        namespace=entry["Namespace"],
        route_key=entry["RouteKey"],
        provider=entry["Provider"],
        delivery_id=entry["DeliveryId"],
        state=entry["State"],
        quarantine_code=code,
        quarantine_sentence=QUARANTINE_SENTENCES.get(code or "", ""),
        received_at=entry["ReceivedAt"],
        materialized_at=entry["MaterializedAt"],
    )


def _parse(cursor: str) -> dict[str, Any]:
    parts = cursor.split("~", 2)
    try:
        moment = datetime.fromisoformat(parts[0])
        # An id's column is ASCII; MariaDB refuses to compare it with anything else.
        if len(parts) != 3 or moment.tzinfo is None or len(cursor) > 300 or not parts[1].isascii():
            raise ValueError(cursor)  # noqa: TRY301 - one message for every fault of a cursor
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        message = "The page's cursor is not one of this list."
        raise InvalidInput(message) from error
    return {"moment": moment, "receipt_id": parts[1], "namespace": parts[2]}
