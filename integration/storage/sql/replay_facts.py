"""Lock-free statements that a replay's plan reads its facts by; the replay reads the same under locks.

None of them reads a payload, a token, a worker's name or a failure text.
"""

from __future__ import annotations

from integration.storage.statements import Returns, Statement

FIND_EVENT_OF_WORK_ITEM = Statement(
    name="FIND_EVENT_OF_WORK_ITEM",
    text="SELECT EventId FROM _System_ConnectorWorkItem WHERE WorkId = %(work_id)s",
    returns=Returns.ROW,
)

READ_EVENT_FACTS = Statement(
    name="READ_EVENT_FACTS",
    text="""
    SELECT EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion, RouteSnapshot, Provider, EventKind,
           WorkType, SourceLane, TargetLane, LaneOrdinal, IdempotencyKey, ReceiptId, ReceiptIndex, ReceivedAt,
           ReplayOfEventId, ExecutionOwner, Status, RetryCount, TerminalAt, ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
    """,
    returns=Returns.ROW,
)

READ_WORK_ITEM_FACTS = Statement(
    name="READ_WORK_ITEM_FACTS",
    text="""
    SELECT WorkId, WorkType, EventId, PackInstallId, RouteVersion, ProjectionKey, State, Attempt, TerminalAt,
           ReplayedAt, ReplayOfWorkId
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
    """,
    returns=Returns.ROWS,
)

# A schema without the failure and replay columns cannot say more of a WorkItem.
READ_WORK_ITEM_FACTS_OF_OLD_SCHEMA = Statement(
    name="READ_WORK_ITEM_FACTS_OF_OLD_SCHEMA",
    text="""
    SELECT WorkId, WorkType, EventId, PackInstallId, RouteVersion, ProjectionKey, State, Attempt
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
    """,
    returns=Returns.ROWS,
)

READ_PACK_FACTS = Statement(
    name="READ_PACK_FACTS",
    text="""
    SELECT PackInstallId, Namespace, PackName, PackVersion, Incarnation, Status, CatalogRevision, CatalogDigest
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

FIND_ACTIVE_PACK = Statement(
    name="FIND_ACTIVE_PACK",
    text="""
    SELECT PackInstallId, Namespace, PackName, PackVersion, Incarnation, Status, CatalogRevision, CatalogDigest
      FROM _System_ConnectorPackInstall
     WHERE Namespace = %(namespace)s AND PackName = %(pack_name)s AND Status = 'active'
     ORDER BY Incarnation DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

FIND_LIVE_ROUTE = Statement(
    name="FIND_LIVE_ROUTE",
    text="""
    SELECT RouteId, PackInstallId, EventKind, RouteVersion, Provider, WorkType, ExecutionClass, FlowName, FlowVersion,
           CompanionPackName, CompanionPackVersion, Definition
      FROM _System_ConnectorRoute
     WHERE PackInstallId = %(pack_install_id)s AND EventKind = %(event_kind)s AND Status = 'live'
     ORDER BY RouteVersion DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

LIST_FENCES_OVER = Statement(
    name="LIST_FENCES_OVER",
    text="""
    SELECT f.FenceId, f.Scope, f.ArmedAt, f.ArmedBy, f.ExpiresAt,
           EXISTS (SELECT 1 FROM _System_ConnectorAdmissionOverride AS v
                    WHERE v.FenceId = f.FenceId AND v.LiftedAt IS NULL AND v.Scope IN ('*', %(event_kind)s)
                      AND (v.ExpiresAt IS NULL OR v.ExpiresAt > UTC_TIMESTAMP(6))) AS IsOverridden
      FROM _System_ConnectorAdmissionFence AS f
     WHERE f.Namespace = %(namespace)s AND f.LiftedAt IS NULL AND f.Scope IN ('*', %(event_kind)s)
       AND (f.ExpiresAt IS NULL OR f.ExpiresAt > UTC_TIMESTAMP(6))
     ORDER BY f.ArmedAt, f.FenceId
    """,
    returns=Returns.ROWS,
)

READ_LINEAGE_WORK_ITEM = Statement(
    name="READ_LINEAGE_WORK_ITEM",
    text="""
    SELECT WorkId, EventId, State, Attempt, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

READ_LINEAGE_CHILD = Statement(
    name="READ_LINEAGE_CHILD",
    text="""
    SELECT WorkId, EventId, State, Attempt, CreatedAt, TerminalAt, ReplayedAt, ReplayOfWorkId
      FROM _System_ConnectorWorkItem
     WHERE ReplayOfWorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

READ_LINEAGE_EVENT = Statement(
    name="READ_LINEAGE_EVENT",
    text="""
    SELECT EventId, Status AS State, RetryCount AS Attempt, ReceivedAt AS CreatedAt, TerminalAt, ReplayedAt,
           ReplayOfEventId
      FROM _System_ConnectorEvent
     WHERE EventId = %(event_id)s
    """,
    returns=Returns.ROW,
)

READ_REPLAY_EVENT = Statement(
    name="READ_REPLAY_EVENT",
    text="""
    SELECT EventId, Status AS State, RetryCount AS Attempt, ReceivedAt AS CreatedAt, TerminalAt, ReplayedAt,
           ReplayOfEventId, PackInstallId, RouteId, RouteVersion, LaneOrdinal
      FROM _System_ConnectorEvent
     WHERE ReplayOfEventId = %(event_id)s
    """,
    returns=Returns.ROW,
)

READ_RECEIPT_SUMMARY = Statement(
    name="READ_RECEIPT_SUMMARY",
    text="""
    SELECT ReceiptId, RouteKey, State, ReceivedAt, MaterializedAt
      FROM _System_ConnectorIngressReceipt
     WHERE ReceiptId = %(receipt_id)s
    """,
    returns=Returns.ROW,
)

#: Who reserved a row first: the trail's one `done` entry about it.
FIND_REPLAY_ENTRY = Statement(
    name="FIND_REPLAY_ENTRY",
    text="""
    SELECT actor_id AS ActorId, actor_name AS ActorName, at AS At, facts AS Facts
      FROM console_auditentry
     WHERE ref_id = %(ref_id)s AND action IN ('work_item.replayed', 'event.replayed') AND outcome = 'done'
     ORDER BY at, id
     LIMIT 1
    """,
    returns=Returns.ROW,
)

READ_LANE_PLACE = Statement(
    name="READ_LANE_PLACE",
    text="""
    SELECT Namespace, SourceLane, PackInstallId, LanePosition, RouteId, ReplayedAt
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

# What stands behind a place of a lane: ended or not, each counted up to the cap.
COUNT_LANE_AFTER = Statement(
    name="COUNT_LANE_AFTER",
    text="""
    SELECT 0 AS IsEnded, COUNT(*) AS Found
      FROM (SELECT WorkId
              FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_LanePosition)
             WHERE Namespace = %(namespace)s AND SourceLane = %(source_lane)s
               AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome',
                             'legacy_outcome_unknown')
               AND PackInstallId = %(pack_install_id)s AND LanePosition > %(position)s
             LIMIT %(cap)s) AS waiting
    UNION ALL
    SELECT 1 AS IsEnded, COUNT(*) AS Found
      FROM (SELECT WorkId
              FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_LanePosition)
             WHERE Namespace = %(namespace)s AND SourceLane = %(source_lane)s
               AND State IN ('succeeded', 'skipped', 'dead', 'cancelled', 'reconciled_legacy_terminal')
               AND PackInstallId = %(pack_install_id)s AND LanePosition > %(position)s
             LIMIT %(cap)s) AS ended
    """,
    returns=Returns.ROWS,
)
