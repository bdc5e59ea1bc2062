"""Statements by which a source projection is replayed: what else stands in its source scope, and its child."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

# By columns, not by SourceScopeKey alone: an old writer left that empty. It spans incarnations, routes, work types and
# projections, and finds queued generations like claimed ones.
LIST_NONTERMINAL_OF_SCOPE = Statement(
    name="LIST_NONTERMINAL_OF_SCOPE",
    text="""
    SELECT WorkId, PackInstallId, State
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Scope)
     WHERE Namespace = %(namespace)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
       AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome', 'legacy_outcome_unknown')
     ORDER BY WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# An Event that is still to be executed and that no WorkItem executes: none names it, none holds it in its interval.
LIST_EVENT_ONLY_OF_SCOPE = Statement(
    name="LIST_EVENT_ONLY_OF_SCOPE",
    text="""
    SELECT e.EventId
      FROM _System_ConnectorEvent e FORCE INDEX (IX_Event_Scope)
           LEFT JOIN _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event) ON w.EventId = e.EventId
     WHERE e.Namespace = %(namespace)s AND e.EventKind = %(event_kind)s AND e.SourceLane = %(source_lane)s
       AND e.Status IN ('pending', 'processing', 'failed')
       AND e.ExecutionOwner = 'event'
       AND e.ReplayedAt IS NULL
       AND w.WorkId IS NULL
       AND NOT EXISTS (SELECT 1
                         FROM _System_ConnectorWorkItem g FORCE INDEX (IX_WorkItem_Scope)
                        WHERE g.Namespace = e.Namespace AND g.EventKind = e.EventKind AND g.SourceLane = e.SourceLane
                          AND g.PackInstallId = e.PackInstallId AND g.RouteVersion = e.RouteVersion
                          AND g.WorkType = e.WorkType AND g.ProjectionKey IS NOT NULL
                          AND e.LaneOrdinal BETWEEN g.InputStartOrdinal AND g.LaneOrdinal)
     ORDER BY e.EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# The original and the generations of its scope in one statement: a transaction locks a rank once.
LOCK_WORK_ITEMS_OF_SCOPE = Statement(
    name="LOCK_WORK_ITEMS_OF_SCOPE",
    text="""
    SELECT WorkId, WorkFamily, WorkType, SubjectKind, EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion,
           FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, SourceLane, TargetLane,
           LaneOrdinal, ProjectionKey, ProjectionActiveKey, State, Attempt, MaxAttempts, OwnershipEpoch,
           OwnerGeneration, TerminalAt, ReplayedAt, ReplayOfWorkId, InputStartOrdinal
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

INSERT_REPLAY_GENERATION = Statement(
    name="INSERT_REPLAY_GENERATION",
    text="""
    INSERT INTO _System_ConnectorWorkItem
           (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId, Namespace, PackInstallId, RouteId,
            RouteVersion, FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, CatalogRevision,
            CatalogDigest, PayloadSchemaVersion, EngineCapability, QueueClass, SourceLane, TargetLane, LaneOrdinal,
            InputStartOrdinal, ProjectionKey, ProjectionActiveKey, SourceScopeKey, State, RunAfter, Attempt,
            MaxAttempts, OwnershipEpoch, OwnerGeneration, CreatedAt, UpdatedAt, ReplayOfWorkId)
    VALUES (%(work_id)s, %(work_family)s, %(work_type)s, %(subject_kind)s, %(subject_id)s, %(event_id)s, %(org_id)s,
            %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s, %(flow_name)s, %(flow_version)s,
            %(companion_pack_name)s, %(companion_pack_version)s, %(event_kind)s, %(catalog_revision)s,
            %(catalog_digest)s, %(payload_schema_version)s, %(engine_capability)s, %(queue_class)s, %(source_lane)s,
            %(target_lane)s, %(lane_ordinal)s, %(lane_ordinal)s, %(projection_key)s, %(projection_key)s,
            %(source_scope_key)s, 'pending', %(now)s, 0, %(max_attempts)s, 0, %(owner_generation)s, %(now)s, %(now)s,
            %(replay_of_work_id)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
