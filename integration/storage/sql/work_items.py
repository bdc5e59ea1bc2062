"""Statements on `_System_ConnectorWorkItem`, rank 30."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_WORK_ITEMS_OF_EVENT = Statement(
    name="LOCK_WORK_ITEMS_OF_EVENT",
    text="""
    SELECT WorkId, WorkFamily, WorkType, SubjectKind, EventId, OrgId, Namespace, PackInstallId, RouteId, RouteVersion,
           FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, SourceLane, TargetLane,
           LaneOrdinal, ProjectionKey, ProjectionActiveKey, State, Attempt, MaxAttempts, OwnershipEpoch,
           OwnerGeneration, TerminalAt, ReplayedAt, ReplayOfWorkId, InputStartOrdinal
      FROM _System_ConnectorWorkItem
     WHERE EventId = %(event_id)s
     ORDER BY WorkId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.WORK_ITEM,),
)

# Lock-free: what it returns may be gone a moment later, and the claim's own WHERE decides. Both ranges are
# read in the order of the index, so that the limit bounds them.
LIST_CLAIM_CANDIDATES = Statement(
    name="LIST_CLAIM_CANDIDATES",
    text="""
    (SELECT WorkId, EventId, OrgId, WorkType, PackInstallId, RouteId, Namespace, EventKind, FlowName, FlowVersion,
            QueueClass, SourceLane, TargetLane, LanePosition, ProjectionKey, State, RunAfter, Attempt, MaxAttempts,
            OwnershipEpoch, FailureClass, LastFailedAt, CancelRequestedAt
       FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
      WHERE State = 'pending' AND RunAfter <= UTC_TIMESTAMP(6)
        AND (ProjectionKey IS NULL OR ProjectionActiveKey IS NOT NULL)
        AND PackInstallId NOT IN %(closed_packs)s
        AND COALESCE(CONCAT(PackInstallId, '/', SourceLane), '') NOT IN %(blocked_lanes)s
        AND COALESCE(CONCAT(Namespace, '/', TargetLane), '') NOT IN %(busy_targets)s
      ORDER BY RunAfter, QueueClass, WorkId
      LIMIT %(limit)s)
    UNION ALL
    (SELECT WorkId, EventId, OrgId, WorkType, PackInstallId, RouteId, Namespace, EventKind, FlowName, FlowVersion,
            QueueClass, SourceLane, TargetLane, LanePosition, ProjectionKey, State, RunAfter, Attempt, MaxAttempts,
            OwnershipEpoch, FailureClass, LastFailedAt, CancelRequestedAt
       FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
      WHERE State = 'retry' AND RunAfter <= UTC_TIMESTAMP(6)
        AND PackInstallId NOT IN %(closed_packs)s
        AND COALESCE(CONCAT(PackInstallId, '/', SourceLane), '') NOT IN %(blocked_lanes)s
        AND COALESCE(CONCAT(Namespace, '/', TargetLane), '') NOT IN %(busy_targets)s
      ORDER BY RunAfter, QueueClass, WorkId
      LIMIT %(limit)s)
    """,
    returns=Returns.ROWS,
)

# The oldest of one pack, for a pack that another pack's backlog keeps out of the window.
LIST_PACK_CANDIDATES = Statement(
    name="LIST_PACK_CANDIDATES",
    text="""
    SELECT WorkId, EventId, OrgId, WorkType, PackInstallId, RouteId, Namespace, EventKind, FlowName, FlowVersion,
           QueueClass, SourceLane, TargetLane, LanePosition, ProjectionKey, State, RunAfter, Attempt, MaxAttempts,
           OwnershipEpoch, FailureClass, LastFailedAt, CancelRequestedAt
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s AND State = 'pending' AND RunAfter <= UTC_TIMESTAMP(6)
       AND (ProjectionKey IS NULL OR ProjectionActiveKey IS NOT NULL)
       AND COALESCE(CONCAT(PackInstallId, '/', SourceLane), '') NOT IN %(blocked_lanes)s
       AND COALESCE(CONCAT(Namespace, '/', TargetLane), '') NOT IN %(busy_targets)s
     ORDER BY LaneOrdinal
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# A lane is one namespace's; within it the order is (incarnation, position), so an older incarnation's item
# is ahead whatever its position. Lock-free and yet free of races: positions never change, they are given
# under the pack's lock in commit order, and a terminal item never comes back. Each branch reads the first
# entry of one range of the index, however long the lane is.
LIST_HEAD_POSITIONS = Statement(
    name="LIST_HEAD_POSITIONS",
    text="""
    SELECT w.WorkId,
           LEAST(
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = 'pending'
                          AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition),
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = 'processing'
                          AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition),
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = 'retry'
                          AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition),
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane AND p.State = 'blocked'
                          AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition),
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane
                          AND p.State = 'awaiting_legacy_outcome' AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition),
             COALESCE((SELECT p.LanePosition FROM _System_ConnectorWorkItem p FORCE INDEX (IX_WorkItem_LanePosition)
                        WHERE p.Namespace = w.Namespace AND p.SourceLane = w.SourceLane
                          AND p.State = 'legacy_outcome_unknown' AND p.PackInstallId = w.PackInstallId
                        ORDER BY p.LanePosition LIMIT 1), w.LanePosition)) AS HeadPosition
      FROM _System_ConnectorWorkItem w FORCE INDEX (PRIMARY)
     WHERE w.WorkId IN %(work_ids)s
    """,
    returns=Returns.ROWS,
)

# The dead ones ahead of each item whose route stops its lane for them, until they are replayed. Read after the heads:
# what died in between is seen as the one or as the other. An item of such a lane can only die when the one before it
# was replayed, so that the range holds what operators have had in hand.
LIST_STOPPED = Statement(
    name="LIST_STOPPED",
    text="""
    SELECT w.WorkId,
           (SELECT d.WorkId FROM _System_ConnectorWorkItem d FORCE INDEX (IX_WorkItem_LanePosition)
             WHERE d.Namespace = w.Namespace AND d.SourceLane = w.SourceLane AND d.State = 'dead'
               AND d.PackInstallId IN %(pack_install_ids)s
               AND (d.PackInstallId <> w.PackInstallId OR d.LanePosition < w.LanePosition)
               AND d.RouteId IN %(route_ids)s AND d.ReplayedAt IS NULL
             LIMIT 1) AS StoppedBy
      FROM _System_ConnectorWorkItem w FORCE INDEX (PRIMARY)
     WHERE w.WorkId IN %(work_ids)s
    """,
    returns=Returns.ROWS,
)

FIND_UNFINISHED_IN_OLDER_INCARNATIONS = Statement(
    name="FIND_UNFINISHED_IN_OLDER_INCARNATIONS",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_LanePosition)
     WHERE Namespace = %(namespace)s AND SourceLane = %(source_lane)s
       AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome', 'legacy_outcome_unknown')
       AND PackInstallId IN %(older_pack_install_ids)s
     LIMIT 1
    """,
    returns=Returns.ROWS,
)

LIST_BUSY_TARGET_LANES = Statement(
    name="LIST_BUSY_TARGET_LANES",
    text="""
    SELECT TargetLaneActiveKey
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_TargetLaneActive)
     WHERE TargetLaneActiveKey IN %(target_lane_keys)s
    """,
    returns=Returns.ROWS,
)

# The one statement that locks through a join: it matches two rows for each item that is won, none for one that
# another has. Everything that the claim relies on stands in its WHERE. The Event's executor fields stay as they
# are; only its owner changes. The items of one call have one epoch, so that each winner's new epoch is known.
FIRST_CLAIM = Statement(
    name="FIRST_CLAIM",
    text="""
    UPDATE _System_ConnectorEvent e
           STRAIGHT_JOIN _System_ConnectorWorkItem w FORCE INDEX (UX_WorkItem_Event) ON w.EventId = e.EventId
       SET e.ExecutionOwner = 'work_item',
           w.State = 'processing',
           w.Attempt = w.Attempt + 1,
           w.OwnershipEpoch = w.OwnershipEpoch + 1,
           w.LeaseOwner = %(process_id)s,
           w.LeaseToken = %(lease_token)s,
           w.LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND,
           w.TargetLaneActiveKey = SHA2(
             CONCAT('target-lane/1/', w.OrgId, '/', CHAR_LENGTH(w.Namespace), '/', w.Namespace, '/', w.TargetLane),
             256),
           w.UpdatedAt = UTC_TIMESTAMP(6)
     WHERE e.EventId IN %(event_ids)s
       AND w.WorkId IN %(work_ids)s
       AND w.State = 'pending'
       AND w.Attempt = 0
       AND w.OwnershipEpoch = %(epoch)s
       AND w.RunAfter <= UTC_TIMESTAMP(6)
       AND w.LeaseToken IS NULL
       AND w.TargetLaneActiveKey IS NULL
       AND (w.ProjectionKey IS NULL OR w.ProjectionActiveKey IS NOT NULL)
       AND w.RollbackExecutionFenceId IS NULL
       AND e.ExecutionOwner = 'event'
       AND e.Status IN ('pending', 'failed')
       AND e.ClaimToken IS NULL
       AND e.ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.EVENT, LockRank.WORK_ITEM),
)

LIST_CLAIMED_BY_TOKEN = Statement(
    name="LIST_CLAIMED_BY_TOKEN",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s AND LeaseToken = %(lease_token)s
    """,
    returns=Returns.ROWS,
)

LATER_CLAIM = Statement(
    name="LATER_CLAIM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'processing',
           Attempt = Attempt + 1,
           OwnershipEpoch = OwnershipEpoch + 1,
           LeaseOwner = %(process_id)s,
           LeaseToken = %(lease_token)s,
           LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND,
           TargetLaneActiveKey = SHA2(
             CONCAT('target-lane/1/', OrgId, '/', CHAR_LENGTH(Namespace), '/', Namespace, '/', TargetLane), 256),
           UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId IN %(work_ids)s
       AND State = 'retry'
       AND Attempt = %(attempt)s
       AND Attempt < MaxAttempts
       AND OwnershipEpoch = %(epoch)s
       AND RunAfter <= UTC_TIMESTAMP(6)
       AND LeaseToken IS NULL
       AND TargetLaneActiveKey IS NULL
       AND RollbackExecutionFenceId IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

RENEW_LEASE = Statement(
    name="RENEW_LEASE",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

COMPLETE_WORK_ITEM = Statement(
    name="COMPLETE_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'succeeded', Outcome = 'succeeded',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Many of one claim transaction. A projection's end hands its active key on, so it is never among them.
COMPLETE_WORK_ITEMS = Statement(
    name="COMPLETE_WORK_ITEMS",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'succeeded', Outcome = 'succeeded',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId IN %(work_ids)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND ProjectionKey IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

SKIP_WORK_ITEMS = Statement(
    name="SKIP_WORK_ITEMS",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'skipped', Outcome = 'skipped',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId IN %(work_ids)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND ProjectionKey IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

LIST_ENDED = Statement(
    name="LIST_ENDED",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s AND OwnershipEpoch = %(epoch)s AND State = %(state)s
    """,
    returns=Returns.ROWS,
)

# What was claimed and not run. The attempt's number is used up, the item's share of attempts is not.
RELEASE_WORK_ITEM = Statement(
    name="RELEASE_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'retry', RunAfter = UTC_TIMESTAMP(6), MaxAttempts = MaxAttempts + 1,
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s,
           UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

SKIP_WORK_ITEM = Statement(
    name="SKIP_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'skipped', Outcome = 'skipped',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

RETRY_WORK_ITEM = Statement(
    name="RETRY_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'retry',
           RunAfter = UTC_TIMESTAMP(6) + INTERVAL %(delay_microseconds)s MICROSECOND,
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND Attempt < MaxAttempts
       AND CancelRequestedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

BURY_WORK_ITEM = Statement(
    name="BURY_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'dead', Outcome = 'dead',
           FailureClass = %(failure_class)s, FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

ACKNOWLEDGE_CANCEL = Statement(
    name="ACKNOWLEDGE_CANCEL",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'cancelled', Outcome = 'cancelled',
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND CancelRequestedAt IS NOT NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# Bounded by the live claims: the index's prefix holds nothing else.
LIST_EXPIRED_LEASES = Statement(
    name="LIST_EXPIRED_LEASES",
    text="""
    SELECT WorkId, PackInstallId, ProjectionKey, LeaseToken, OwnershipEpoch, Attempt, MaxAttempts
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State = 'processing' AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

REAP_WORK_ITEM = Statement(
    name="REAP_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'retry', RunAfter = UTC_TIMESTAMP(6),
           FailureClass = 'lease_lost', FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
       AND Attempt < MaxAttempts
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

REAP_EXHAUSTED_WORK_ITEM = Statement(
    name="REAP_EXHAUSTED_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'dead', Outcome = 'dead',
           FailureClass = 'lease_lost', FailureSummary = %(failure_summary)s, FailureCount = FailureCount + 1,
           FirstFailedAt = COALESCE(FirstFailedAt, UTC_TIMESTAMP(6)), LastFailedAt = UTC_TIMESTAMP(6),
           TerminalAt = UTC_TIMESTAMP(6), UpdatedAt = UTC_TIMESTAMP(6),
           LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, TargetLaneActiveKey = NULL,
           ProjectionActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'processing'
       AND LeaseToken = %(lease_token)s
       AND OwnershipEpoch = %(epoch)s
       AND LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND
       AND Attempt >= MaxAttempts
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

# What settles a write whose COMMIT was not answered.
READ_CLAIM_FACTS = Statement(
    name="READ_CLAIM_FACTS",
    text="""
    SELECT WorkId, State, Attempt, OwnershipEpoch, LeaseToken, FailureClass, CancelRequestedAt
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

FIND_UNFINISHED_WORK = Statement(
    name="FIND_UNFINISHED_WORK",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Claim)
     WHERE State IN ('pending', 'processing', 'retry', 'blocked')
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# Every value is a parameter: with anything else among them the driver sends the batch row by row.
INSERT_WORK_ITEMS = Statement(
    name="INSERT_WORK_ITEMS",
    text="""
    INSERT INTO _System_ConnectorWorkItem
           (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId, Namespace, PackInstallId, RouteId,
            RouteVersion, FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, CatalogRevision,
            CatalogDigest, PayloadSchemaVersion, EngineCapability, QueueClass, SourceLane, TargetLane, LaneOrdinal,
            State, RunAfter, Attempt, MaxAttempts, OwnershipEpoch, OwnerGeneration, CreatedAt, UpdatedAt)
    VALUES (%(work_id)s, %(work_family)s, %(work_type)s, %(subject_kind)s, %(subject_id)s, %(event_id)s, %(org_id)s,
            %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s, %(flow_name)s, %(flow_version)s,
            %(companion_pack_name)s, %(companion_pack_version)s, %(event_kind)s, %(catalog_revision)s,
            %(catalog_digest)s, %(payload_schema_version)s, %(engine_capability)s, %(queue_class)s, %(source_lane)s,
            %(target_lane)s, %(lane_ordinal)s, %(state)s, %(now)s, %(attempt)s, %(max_attempts)s, %(ownership_epoch)s,
            %(owner_generation)s, %(now)s, %(now)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
    many=True,
)

# The reservation: whoever sets ReplayedAt makes the one child. Nothing else of the terminal row changes.
RESERVE_REPLAY = Statement(
    name="RESERVE_REPLAY",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET ReplayedAt = %(now)s
     WHERE WorkId = %(work_id)s AND EventId = %(event_id)s AND State = 'dead' AND Attempt > 0 AND ReplayedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

INSERT_REPLAY_WORK_ITEM = Statement(
    name="INSERT_REPLAY_WORK_ITEM",
    text="""
    INSERT INTO _System_ConnectorWorkItem
           (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId, Namespace, PackInstallId, RouteId,
            RouteVersion, FlowName, FlowVersion, CompanionPackName, CompanionPackVersion, EventKind, CatalogRevision,
            CatalogDigest, PayloadSchemaVersion, EngineCapability, QueueClass, SourceLane, TargetLane, LaneOrdinal,
            State, RunAfter, Attempt, MaxAttempts, OwnershipEpoch, OwnerGeneration, CreatedAt, UpdatedAt,
            ReplayOfWorkId)
    VALUES (%(work_id)s, %(work_family)s, %(work_type)s, %(subject_kind)s, %(subject_id)s, %(event_id)s, %(org_id)s,
            %(namespace)s, %(pack_install_id)s, %(route_id)s, %(route_version)s, %(flow_name)s, %(flow_version)s,
            %(companion_pack_name)s, %(companion_pack_version)s, %(event_kind)s, %(catalog_revision)s,
            %(catalog_digest)s, %(payload_schema_version)s, %(engine_capability)s, %(queue_class)s, %(source_lane)s,
            %(target_lane)s, %(lane_ordinal)s, 'pending', %(now)s, 0, %(max_attempts)s, 0, %(owner_generation)s,
            %(now)s, %(now)s, %(replay_of_work_id)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
