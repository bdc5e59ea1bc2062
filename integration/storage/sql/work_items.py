"""Statements on `_System_ConnectorWorkItem`, rank 30: the port's, and those that only Event-backed work has."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from integration.storage.sql.work_port import WorkTable, pack_statements_of, statements_of
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

# The one statement that locks through a join: it matches two rows for each item that is won, none for one that
# another has. Everything that the claim relies on stands in its WHERE. The Event's executor fields stay as they
# are; only its owner changes. The items of one call have one epoch, so that each winner's new epoch is known.
_FIRST_CLAIM: Final = """
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
    """

# What a database holds of these rows grew over time; a column that a vintage lacks stands in none of its statements.
FIRST_CLAIM = Statement(
    name="FIRST_CLAIM", text=_FIRST_CLAIM, returns=Returns.COUNT, locks=(LockRank.EVENT, LockRank.WORK_ITEM)
)
FIRST_CLAIM_OF_OLD_SCHEMA = Statement(
    name="FIRST_CLAIM_OF_OLD_SCHEMA",
    text=_FIRST_CLAIM.replace("\n       AND w.RollbackExecutionFenceId IS NULL", ""),
    returns=Returns.COUNT,
    locks=(LockRank.EVENT, LockRank.WORK_ITEM),
)

CURRENT: Final = WorkTable(
    table="_System_ConnectorWorkItem",
    suffix="",
    candidate_columns="EventId, PackInstallId, RouteId, EventKind, LanePosition, ProjectionKey",
    position="LanePosition",
    same_lane="AND p.PackInstallId = w.PackInstallId",
    lane_name="CONCAT(PackInstallId, '/', SourceLane)",
    closed="\n        AND PackInstallId NOT IN %(closed_packs)s",
    ready="\n        AND (ProjectionKey IS NULL OR ProjectionActiveKey IS NOT NULL)",
    claim_index="IX_WorkItem_Claim",
    lane_index="IX_WorkItem_LanePosition",
    target_index="UX_WorkItem_TargetLaneActive",
    active_key="ProjectionActiveKey",
    projection_key="ProjectionKey",
    pack="PackInstallId",
    of_family="",
    # A projection's end hands its active key on in a transaction of its own.
    many_end="",
    many_guard="\n       AND ProjectionKey IS NULL",
)
#: Without input ranges and rollback fences: a lane is ordered by its ordinals, and found by the pack's index.
ADDITIVE: Final = replace(
    CURRENT,
    suffix="_OF_ADDITIVE",
    candidate_columns="EventId, PackInstallId, RouteId, EventKind, LaneOrdinal AS LanePosition, ProjectionKey",
    position="LaneOrdinal",
    lane_index="IX_WorkItem_Pack",
    has_fences=False,
)
#: Without failure and replay facts, too.
LEGACY: Final = replace(ADDITIVE, suffix="_OF_LEGACY", has_facts=False)

CONNECTOR = statements_of(CURRENT, first_claim=FIRST_CLAIM)
CONNECTOR_OF_ADDITIVE = statements_of(ADDITIVE, first_claim=FIRST_CLAIM_OF_OLD_SCHEMA)
CONNECTOR_OF_LEGACY = statements_of(LEGACY, first_claim=FIRST_CLAIM_OF_OLD_SCHEMA)
PACKS = pack_statements_of(CURRENT)
PACKS_OF_ADDITIVE = pack_statements_of(ADDITIVE)
PACKS_OF_LEGACY = pack_statements_of(LEGACY)
LIST_PACK_CANDIDATES = PACKS.list_candidates
LIST_STOPPED = PACKS.list_stopped
FIND_UNFINISHED_IN_OLDER_INCARNATIONS = PACKS.find_unfinished_in_older
LIST_PAGE_ENDS = CONNECTOR.list_page_ends
LIST_CLAIM_CANDIDATES = CONNECTOR.list_candidates
LIST_HEAD_POSITIONS = CONNECTOR.list_head_positions
LIST_BUSY_TARGET_LANES = CONNECTOR.list_busy_target_lanes
LIST_CLAIMED_BY_TOKEN = CONNECTOR.list_claimed_by_token
LATER_CLAIM = CONNECTOR.later_claim
RENEW_LEASE = CONNECTOR.renew_lease
COMPLETE_WORK_ITEM = CONNECTOR.complete
COMPLETE_WORK_ITEMS = CONNECTOR.complete_many
SKIP_WORK_ITEM = CONNECTOR.skip
SKIP_WORK_ITEMS = CONNECTOR.skip_many
LIST_ENDED = CONNECTOR.list_ended
RELEASE_WORK_ITEM = CONNECTOR.release
RETRY_WORK_ITEM = CONNECTOR.retry
BURY_WORK_ITEM = CONNECTOR.bury
ACKNOWLEDGE_CANCEL = CONNECTOR.acknowledge_cancel
LIST_EXPIRED_LEASES = CONNECTOR.list_expired_leases
REAP_WORK_ITEM = CONNECTOR.reap
REAP_EXHAUSTED_WORK_ITEM = CONNECTOR.reap_exhausted
READ_CLAIM_FACTS = CONNECTOR.read_claim_facts
FIND_UNFINISHED_WORK = CONNECTOR.find_unfinished

# A retired incarnation admits nothing more: once the answer is none, it stays so.
FIND_UNFINISHED_OF_PACK = Statement(
    name="FIND_UNFINISHED_OF_PACK",
    text="""
    SELECT WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s
       AND State IN ('pending', 'processing', 'retry', 'blocked', 'awaiting_legacy_outcome', 'legacy_outcome_unknown')
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
