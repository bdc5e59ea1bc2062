"""Statements by which an operator cancels work: at once while it waits, by asking while it runs."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

CANCEL_WORK_ITEM = Statement(
    name="CANCEL_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'cancelled', Outcome = 'cancelled',
           CancelRequestedAt = COALESCE(CancelRequestedAt, UTC_TIMESTAMP(6)),
           CancelRequestedBy = COALESCE(CancelRequestedBy, %(actor_name)s),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           BlockedOn = NULL, BlockedSince = NULL, ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State IN ('pending', 'retry', 'blocked')
       AND OwnershipEpoch = %(epoch)s
       AND LeaseToken IS NULL
       AND RollbackExecutionFenceId IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

# No move: the claimant is told and ends the claim itself. Who asked first stays.
REQUEST_CANCEL = Statement(
    name="REQUEST_CANCEL",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET CancelRequestedAt = COALESCE(CancelRequestedAt, UTC_TIMESTAMP(6)),
           CancelRequestedBy = COALESCE(CancelRequestedBy, %(actor_name)s),
           UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s AND State = 'processing' AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

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

# What a worker asks about the claims that it holds.
LIST_CANCEL_REQUESTED = Statement(
    name="LIST_CANCEL_REQUESTED",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s AND State = 'processing' AND CancelRequestedAt IS NOT NULL
    """,
    returns=Returns.ROWS,
)

FIND_WORK_TO_CANCEL = Statement(
    name="FIND_WORK_TO_CANCEL",
    text="""
    SELECT WorkId, EventId, PackInstallId
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

LIST_WORK_OF_EVENT_TO_CANCEL = Statement(
    name="LIST_WORK_OF_EVENT_TO_CANCEL",
    text="""
    SELECT WorkId, EventId, PackInstallId
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
    """,
    returns=Returns.ROWS,
)
