"""Statements by which an operator cancels work: at once while it waits, by asking while it runs."""

from __future__ import annotations

from integration.storage.sql.work_items import CONNECTOR
from integration.storage.statements import LockRank, Returns, Statement

CANCEL_WORK_ITEM = CONNECTOR.cancel

REQUEST_CANCEL = CONNECTOR.request_cancel

# The Event of an item that was never claimed is still the Event executor's; it must not run it either.
SKIP_CANCELLED_EVENT = Statement(
    name="SKIP_CANCELLED_EVENT",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'skipped', TerminalAt = UTC_TIMESTAMP(6)
     WHERE EventId = %(event_id)s
       AND ExecutionOwner = 'event'
       AND Status IN ('pending', 'failed')
       AND ClaimToken IS NULL
       AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

LIST_CANCEL_REQUESTED = CONNECTOR.list_cancel_requested

FIND_WORK_TO_CANCEL = Statement(
    name="FIND_WORK_TO_CANCEL",
    text="""
    SELECT WorkId, EventId, Namespace, PackInstallId
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

LIST_WORK_OF_EVENT_TO_CANCEL = Statement(
    name="LIST_WORK_OF_EVENT_TO_CANCEL",
    text="""
    SELECT WorkId, EventId, Namespace, PackInstallId
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
    """,
    returns=Returns.ROWS,
)
