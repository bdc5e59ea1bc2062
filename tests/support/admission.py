"""Admission of source projections for tests: receipts of the demo provider, and what became of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connections

from integration.catalog.documents import PackDocument
from integration.catalog.reads import find_webhook
from integration.errors import Busy
from integration.ingress.service import BATCH_SIZE, materialize_ready, store_receipt
from integration.projection.identity import ProjectionIdentity
from integration.storage.statements import all_statements
from integration.values import new_id
from tests.support import webhooks
from tests.support.work import Row, change, query

#: Coalesces; the demo's other kind stays per event, in the same lanes.
PROJECTED = "deal.created"
PER_EVENT = "deal.updated"
_FIRST = f"- event: {PROJECTED}\n    version: 1\n    execution: "
PROJECTION = (f"{_FIRST}per_event", f"{_FIRST}source_projection")
BOTH = ("execution: per_event", "execution: source_projection")
#: Bodies that are lists of events, each with an id of its own.
LISTS = ("    event_kind: event\n", "    event_kind: event\n    items: {value: '@', id: item}\n")
NEWER = ('version: "1.0.0"', 'version: "1.0.1"')
_TRIES = 50


def document(*replacements: tuple[str, str]) -> PackDocument:
    """Return the demo's pack with `deal.created` as a source projection."""
    return webhooks.variant("demo", PROJECTION, *replacements)


def activate(*replacements: tuple[str, str]) -> str:
    """Install and activate that pack; return the incarnation."""
    return webhooks.activate(document(*replacements))


def receive(body: bytes, delivery_id: str | None = None) -> str:
    """Store one receipt as the webhook does; return its id."""
    binding = find_webhook("demo", "deals")
    assert binding is not None
    found = store_receipt(binding, body=body, delivery_id=delivery_id or new_id(), safe_headers={})
    assert found.receipt_id is not None
    return str(found.receipt_id)


def materialize_patiently(limit: int = BATCH_SIZE) -> int:
    """Materialize what is stored, again while the database is busy, as the worker does; return how many receipts."""
    for _ in range(_TRIES):
        with suppress(Busy):
            return materialize_ready(limit)
    return materialize_ready(limit)


def inputs(*numbers: int, event: str = PROJECTED) -> list[str]:
    """Store one receipt for each deal number; return their ids."""
    return [receive(webhooks.deal(number, event=event)) for number in numbers]


def listed(*items: tuple[str, int], event: str = PROJECTED) -> bytes:
    """Return a body of several events, each an item id and a deal number."""
    return json.dumps([{"event": event, "item": item, "deal": {"id": deal}} for item, deal in items]).encode()


def receipt(receipt_id: str) -> tuple[str, str | None]:
    """Return a receipt's state and quarantine code."""
    (row,) = query("SELECT * FROM _System_ConnectorIngressReceipt WHERE ReceiptId = %s", receipt_id)
    return row["State"], row["QuarantineCode"]


def reopen(receipt_id: str) -> None:
    """Take a receipt back to where it was before its Events: as a writer leaves it that confirms it afterwards."""
    change(
        "UPDATE _System_ConnectorIngressReceipt SET State = 'received', MaterializedAt = NULL,"
        " MaterializedPackInstallId = NULL WHERE ReceiptId = %s",
        receipt_id,
    )


def generations(number: int | None = None) -> list[Row]:
    """Return the generations, of one deal or of all, in order of their intervals."""
    lane = "%" if number is None else f"deal:{number}"
    return query(
        "SELECT * FROM _System_ConnectorWorkItem WHERE ProjectionKey IS NOT NULL AND SourceLane LIKE %s"
        " ORDER BY PackInstallId, InputStartOrdinal",
        lane,
    )


def ranges(number: int | None = None) -> list[tuple[int, int, bool]]:
    """Return each generation's interval and whether it has the active key."""
    return [
        (row["InputStartOrdinal"], row["LaneOrdinal"], row["ProjectionActiveKey"] is not None)
        for row in generations(number)
    ]


def event_at(ordinal: int) -> Row:
    """Return the Event of an ordinal of the only incarnation."""
    (row,) = query("SELECT * FROM _System_ConnectorEvent WHERE LaneOrdinal = %s", ordinal)
    return row


def members(generation: Row) -> list[int]:
    """Return the ordinals of the Events that a generation holds: its interval, and its exact identity."""
    identity = ProjectionIdentity.of_work_item(generation)
    assert identity.key() == generation["ProjectionKey"]
    rows = query(
        "SELECT LaneOrdinal FROM _System_ConnectorEvent WHERE PackInstallId = %s AND EventKind = %s"
        " AND SourceLane = %s AND RouteVersion = %s AND WorkType = %s AND LaneOrdinal BETWEEN %s AND %s"
        " ORDER BY LaneOrdinal",
        identity.pack_install_id,
        identity.event_kind,
        identity.source_lane,
        identity.route_version,
        identity.work_type,
        generation["InputStartOrdinal"],
        generation["LaneOrdinal"],
    )
    return [row["LaneOrdinal"] for row in rows]


def unowned_inputs() -> dict[str, Any]:
    """Return what breaks the invariant that every settled input is in exactly one generation; empty when nothing does."""
    held = Counter(
        (row["PackInstallId"], row["EventKind"], ordinal) for row in generations() for ordinal in members(row)
    )
    projected = {
        (row["PackInstallId"], row["EventKind"], row["LaneOrdinal"])
        for row in query(
            "SELECT e.PackInstallId, e.EventKind, e.LaneOrdinal FROM _System_ConnectorEvent e"
            " JOIN _System_ConnectorRoute r ON r.RouteId = e.RouteId WHERE r.ExecutionClass = 'source_projection'"
        )
    }
    faults: dict[str, Any] = {
        "nobody's": sorted(projected - set(held)),
        "several's": sorted(name for name, count in held.items() if count > 1),
        "keyless heads": [
            row["WorkId"]
            for row in generations()
            if row["ProjectionActiveKey"] is None
            and row["State"] in {"pending", "processing", "retry", "blocked"}
            and not any(other["ProjectionActiveKey"] == row["ProjectionKey"] for other in generations())
        ],
        "selected elsewhere": [
            row["WorkId"]
            for row in generations()
            if not query(
                "SELECT 1 FROM _System_ConnectorEvent WHERE EventId = %s AND LaneOrdinal = %s",
                row["EventId"],
                row["LaneOrdinal"],
            )
        ],
    }
    return {name: found for name, found in faults.items() if found}


def claim_row(work_id: str) -> None:
    """Claim a generation as the claim's statement leaves the rows."""
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'processing', Attempt = Attempt + 1,"
        " OwnershipEpoch = OwnershipEpoch + 1, LeaseToken = 'token', LeaseOwner = 'tests',"
        " LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE WorkId = %s",
        work_id,
    )
    change(
        "UPDATE _System_ConnectorEvent e JOIN _System_ConnectorWorkItem w ON w.EventId = e.EventId"
        " SET e.ExecutionOwner = 'work_item' WHERE w.WorkId = %s",
        work_id,
    )


def end_row(work_id: str, state: str = "succeeded") -> None:
    """End a claimed generation and hand its key on, as the handoff leaves the rows."""
    (row,) = query("SELECT ProjectionKey FROM _System_ConnectorWorkItem WHERE WorkId = %s", work_id)
    change(
        "UPDATE _System_ConnectorWorkItem SET State = %s, ProjectionActiveKey = NULL, LeaseToken = NULL,"
        " LeaseOwner = NULL, LeaseUntil = NULL, TerminalAt = UTC_TIMESTAMP(6) WHERE WorkId = %s",
        state,
        work_id,
    )
    change(
        "UPDATE _System_ConnectorWorkItem SET ProjectionActiveKey = ProjectionKey"
        " WHERE ProjectionKey = %s AND State = 'pending' AND Attempt = 0 AND ProjectionActiveKey IS NULL",
        row["ProjectionKey"],
    )


@contextmanager
def counted_statements() -> Iterator[Counter[str]]:
    """Count the program's statements that are sent, by name; others count as `other`."""
    names = {statement.text: name for _, name, statement in all_statements()}
    counts: Counter[str] = Counter()

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        counts[names.get(sql, "other")] += 1
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(count):
        yield counts
