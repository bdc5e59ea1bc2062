"""Statements by which dead work is replayed: what else stands in a source scope, the reservations, the child."""

from __future__ import annotations

from typing import Final

from integration.storage.statements import LockRank, Returns, Statement

#: What every vintage of the WorkItem table has.
_OLD_COLUMNS: Final = "WorkId, WorkType, EventId, PackInstallId, RouteVersion, ProjectionKey, State, Attempt"
_COLUMNS: Final = f"{_OLD_COLUMNS}, TerminalAt, ReplayedAt, ReplayOfWorkId"

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

# A schema without ranges has no interval that could hold an Event: whatever the Event executor has still to run counts.
LIST_UNENDED_EVENTS_OF_SCOPE = Statement(
    name="LIST_UNENDED_EVENTS_OF_SCOPE",
    text="""
    SELECT EventId
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Scope)
     WHERE Namespace = %(namespace)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
       AND Status IN ('pending', 'processing', 'failed')
       AND ExecutionOwner = 'event'
     ORDER BY EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)


def _lock(name: str, key: str, columns: str) -> Statement:
    return Statement(
        name=name,
        text=f"""
    SELECT {columns}
      FROM _System_ConnectorWorkItem
     WHERE {key}
     ORDER BY WorkId
       FOR UPDATE
    """,
        returns=Returns.ROWS,
        locks=(LockRank.WORK_ITEM,),
    )


# Those that name one Event; of a projection, with the generations of its scope, in one statement: a transaction locks
# a rank once.
LOCK_REPLAYED_ITEMS = _lock("LOCK_REPLAYED_ITEMS", "EventId = %(event_id)s", _COLUMNS)
LOCK_REPLAYED_SCOPE = _lock("LOCK_REPLAYED_SCOPE", "WorkId IN %(work_ids)s", _COLUMNS)
LOCK_REPLAYED_ITEMS_OF_OLD_SCHEMA = _lock("LOCK_REPLAYED_ITEMS_OF_OLD_SCHEMA", "EventId = %(event_id)s", _OLD_COLUMNS)
LOCK_REPLAYED_SCOPE_OF_OLD_SCHEMA = _lock("LOCK_REPLAYED_SCOPE_OF_OLD_SCHEMA", "WorkId IN %(work_ids)s", _OLD_COLUMNS)

# The reservation of what the Event has authority over: whoever sets ReplayedAt makes the one child.
RESERVE_EVENT_REPLAY = Statement(
    name="RESERVE_EVENT_REPLAY",
    text="""
    UPDATE _System_ConnectorEvent
       SET ReplayedAt = %(now)s
     WHERE EventId = %(event_id)s AND Status = 'dead' AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

# A replayed Event's mirror ends with it, before the child exists: nothing of the original can be claimed any more.
END_MIRROR = Statement(
    name="END_MIRROR",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'dead', Outcome = 'dead', TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL, BlockedOn = NULL, BlockedSince = NULL, ReplayedAt = %(now)s
     WHERE WorkId = %(work_id)s
       AND EventId = %(event_id)s
       AND State IN ('pending', 'retry', 'blocked')
       AND Attempt = 0
       AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

# A mirror that died with its Event keeps its end.
RESERVE_DEAD_MIRROR = Statement(
    name="RESERVE_DEAD_MIRROR",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET TerminalAt = COALESCE(TerminalAt, UTC_TIMESTAMP(6)), ReplayedAt = %(now)s,
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s AND EventId = %(event_id)s AND State = 'dead' AND Attempt = 0 AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

# The same without the columns that hold an end and a replay: the Event alone keeps them then.
END_MIRROR_OF_OLD_SCHEMA = Statement(
    name="END_MIRROR_OF_OLD_SCHEMA",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'dead', UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL, BlockedOn = NULL, BlockedSince = NULL
     WHERE WorkId = %(work_id)s
       AND EventId = %(event_id)s
       AND State IN ('pending', 'retry', 'blocked')
       AND Attempt = 0
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
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
