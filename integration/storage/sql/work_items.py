"""Statements on `_System_ConnectorWorkItem`, rank 30."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_WORK_ITEMS_OF_EVENT = Statement(
    name="LOCK_WORK_ITEMS_OF_EVENT",
    text="""
    SELECT WorkId, WorkType, EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, FlowName, FlowVersion,
           CompanionPackName, CompanionPackVersion, EventKind, SourceLane, TargetLane, LaneOrdinal, ProjectionKey,
           ProjectionActiveKey, State, Attempt, MaxAttempts, OwnershipEpoch, OwnerGeneration, TerminalAt, ReplayedAt,
           ReplayOfWorkId, InputStartOrdinal
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)
