"""Statements on the generations of source projections: how the admission finds, locks, extends and stores them."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

# With the newest one of a key, all that can be nonterminal: two point reads, whatever history is retained.
LIST_ACTIVE_GENERATIONS = Statement(
    name="LIST_ACTIVE_GENERATIONS",
    text="""
    SELECT WorkId, EventId, ProjectionKey, LaneOrdinal, State, Attempt
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_ProjectionActive)
     WHERE ProjectionActiveKey IN %(projection_keys)s
    """,
    returns=Returns.ROWS,
)

# The newest generation of a key is the queued one, if there is one: a single index entry whatever the history.
# A plain read: what decides is the statement after it. While the pack or the ended row is locked, nobody queues one.
FIND_NEWEST_OF_PROJECTION = Statement(
    name="FIND_NEWEST_OF_PROJECTION",
    text="""
    SELECT WorkId, EventId, ProjectionKey, ProjectionActiveKey, LaneOrdinal, State, Attempt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_ProjectionOrder)
     WHERE ProjectionKey = %(projection_key)s
     ORDER BY LaneOrdinal DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# Without the payload, which an admission has no use for.
LOCK_SELECTED_EVENTS = Statement(
    name="LOCK_SELECTED_EVENTS",
    text="""
    SELECT EventId, PackInstallId, LaneOrdinal, ExecutionOwner, Status, ClaimToken, ReplayedAt
      FROM _System_ConnectorEvent
     WHERE EventId IN %(event_ids)s
     ORDER BY EventId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.EVENT,),
)

LOCK_GENERATIONS = Statement(
    name="LOCK_GENERATIONS",
    text="""
    SELECT WorkId, WorkType, EventId, PackInstallId, ProjectionKey, ProjectionActiveKey, InputStartOrdinal, LaneOrdinal,
           State, Attempt, LeaseToken
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

# The swap: whoever claimed the generation, or moved its upper bound, has changed what the WHERE names. The target
# lane is the selected Event's. A generation that lost its key with nobody ahead of it gets it back.
EXTEND_GENERATION = Statement(
    name="EXTEND_GENERATION",
    text="""
    UPDATE _System_ConnectorWorkItem FORCE INDEX (PRIMARY)
       SET EventId = %(event_id)s, LaneOrdinal = %(lane_ordinal)s, TargetLane = %(target_lane)s,
           ProjectionActiveKey = COALESCE(ProjectionActiveKey, %(missing_active_key)s),
           UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s
       AND EventId = %(superseded_event_id)s
       AND ProjectionKey = %(projection_key)s
       AND State = 'pending'
       AND Attempt = 0
       AND LeaseToken IS NULL
       AND LaneOrdinal < %(lane_ordinal)s
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

SKIP_SUPERSEDED_EVENTS = Statement(
    name="SKIP_SUPERSEDED_EVENTS",
    text="""
    UPDATE _System_ConnectorEvent
       SET Status = 'skipped', TerminalAt = UTC_TIMESTAMP(6)
     WHERE EventId IN %(event_ids)s
       AND ExecutionOwner = 'event'
       AND Status IN ('pending', 'failed')
       AND ClaimToken IS NULL
       AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

# Every value is a parameter: with anything else among them the driver sends the batch row by row.
INSERT_GENERATIONS = Statement(
    name="INSERT_GENERATIONS",
    text="""
    INSERT INTO _System_ConnectorWorkItem
           (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId, Namespace, PackInstallId, RouteId,
            RouteVersion, FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, CatalogRevision,
            CatalogDigest, PayloadSchemaVersion, EngineCapability, QueueClass, SourceLane, TargetLane, LaneOrdinal,
            ProjectionKey, ProjectionActiveKey, SourceScopeKey, InputStartOrdinal, State, RunAfter, Attempt,
            MaxAttempts, OwnershipEpoch, OwnerGeneration, CreatedAt, UpdatedAt)
    VALUES (%(work_id)s, %(work_family)s, %(work_type)s, %(subject_kind)s, %(subject_id)s, %(event_id)s, %(org_id)s,
            %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s, %(flow_name)s, %(flow_version)s,
            %(companion_pack_name)s, %(companion_pack_version)s, %(event_kind)s, %(catalog_revision)s,
            %(catalog_digest)s, %(payload_schema_version)s, %(engine_capability)s, %(queue_class)s, %(source_lane)s,
            %(target_lane)s, %(lane_ordinal)s, %(projection_key)s, %(projection_active_key)s, %(source_scope_key)s,
            %(input_start_ordinal)s, %(state)s, %(now)s, %(attempt)s, %(max_attempts)s, %(ownership_epoch)s,
            %(owner_generation)s, %(now)s, %(now)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
    many=True,
)

# The intervals of one identity follow each other, so that only the first one that ends at or above an ordinal can
# hold it: a point read an Event, whatever history is retained.
LIST_COVERING_STARTS = Statement(
    name="LIST_COVERING_STARTS",
    text="""
    SELECT e.EventId, e.LaneOrdinal,
           (SELECT w.InputStartOrdinal
              FROM _System_ConnectorWorkItem w FORCE INDEX (IX_WorkItem_ProjectionOrder)
             WHERE w.ProjectionKey = %(projection_key)s AND w.LaneOrdinal >= e.LaneOrdinal
             ORDER BY w.LaneOrdinal
             LIMIT 1) AS InputStartOrdinal
      FROM _System_ConnectorEvent e
     WHERE e.EventId IN %(event_ids)s
    """,
    returns=Returns.ROWS,
)
