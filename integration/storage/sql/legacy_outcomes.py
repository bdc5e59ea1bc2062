"""Statements on `_System_ConnectorLegacyOutcomeReceipt`, a leaf, and on the WorkItems that its receipts end."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

# Written in the transaction that ends the Event. The same end again changes nothing; another one is kept beside the
# first. Each column is set from what was there, so that the order in which a server assigns them does not matter.
RECORD_LEGACY_OUTCOME = Statement(
    name="RECORD_LEGACY_OUTCOME",
    text="""
    INSERT INTO _System_ConnectorLegacyOutcomeReceipt
           (EventId, WorkType, RollbackFenceId, ReceiptVersion, Outcome, Digest, WrittenAt)
    VALUES (%(event_id)s, %(work_type)s, %(rollback_fence_id)s, %(receipt_version)s, %(outcome)s, %(digest)s,
            UTC_TIMESTAMP(6))
        ON DUPLICATE KEY UPDATE
           ConflictAt = IF(Digest = VALUES(Digest), ConflictAt, COALESCE(ConflictAt, UTC_TIMESTAMP(6))),
           ConflictDigest = IF(Digest = VALUES(Digest), ConflictDigest, COALESCE(ConflictDigest, VALUES(Digest)))
    """,
    returns=Returns.COUNT,
    holds=LockRank.EVENT,
)

# What the projector still owes a fence: null stands first in the index.
LIST_UNPROJECTED_OUTCOMES = Statement(
    name="LIST_UNPROJECTED_OUTCOMES",
    text="""
    SELECT o.EventId, o.WorkType, o.RollbackFenceId, o.ReceiptVersion, o.Outcome, o.Digest, o.ConflictDigest,
           o.ConflictAt, o.WrittenAt, w.WorkId, w.State, w.RollbackExecutionFenceId
      FROM _System_ConnectorLegacyOutcomeReceipt AS o FORCE INDEX (IX_LegacyOutcome_Fence)
           LEFT JOIN _System_ConnectorWorkItem AS w ON w.EventId = o.EventId AND w.WorkType = o.WorkType
     WHERE o.RollbackFenceId = %(fence_id)s AND o.ProjectedAt IS NULL
     ORDER BY o.EventId, o.WorkType
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# One statement sees the Event and its receipt as of one moment, and one transaction writes both: a terminal Event
# without a receipt has none.
LIST_AWAITING_ITEMS = Statement(
    name="LIST_AWAITING_ITEMS",
    text="""
    SELECT w.WorkId, e.Status AS EventStatus, o.EventId IS NOT NULL AS HasReceipt
      FROM _System_ConnectorWorkItem AS w FORCE INDEX (IX_WorkItem_RollbackFence)
           LEFT JOIN _System_ConnectorEvent AS e ON e.EventId = w.EventId
           LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o ON o.EventId = w.EventId AND o.WorkType = w.WorkType
     WHERE w.RollbackExecutionFenceId = %(fence_id)s AND w.WorkId > %(after)s
       AND w.State = 'awaiting_legacy_outcome'
     ORDER BY w.WorkId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# Whatever keeps a fence from being closed.
FIND_UNCONFIRMED_ITEM = Statement(
    name="FIND_UNCONFIRMED_ITEM",
    text="""
    SELECT w.WorkId, w.State
      FROM _System_ConnectorWorkItem AS w FORCE INDEX (IX_WorkItem_RollbackFence)
           LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o ON o.EventId = w.EventId AND o.WorkType = w.WorkType
     WHERE w.RollbackExecutionFenceId = %(fence_id)s
       AND (w.State <> 'reconciled_legacy_terminal' OR o.EventId IS NULL OR o.ConflictAt IS NOT NULL
            OR o.RollbackFenceId <> w.RollbackExecutionFenceId
            OR COALESCE(w.LegacyOutcomeReceiptDigest, '') <> o.Digest)
     LIMIT 1
    """,
    returns=Returns.ROW,
)

RECONCILE_WORK_ITEM = Statement(
    name="RECONCILE_WORK_ITEM",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'reconciled_legacy_terminal', Outcome = %(outcome)s,
           LegacyOutcomeReceiptVersion = %(receipt_version)s, LegacyOutcomeReceiptDigest = %(digest)s,
           TerminalAt = %(ended_at)s, UpdatedAt = UTC_TIMESTAMP(6),
           ProjectionActiveKey = NULL, TargetLaneActiveKey = NULL
     WHERE WorkId = %(work_id)s
       AND State = 'awaiting_legacy_outcome'
       AND RollbackExecutionFenceId = %(fence_id)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

LOSE_LEGACY_OUTCOME = Statement(
    name="LOSE_LEGACY_OUTCOME",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET State = 'legacy_outcome_unknown', UpdatedAt = UTC_TIMESTAMP(6)
     WHERE WorkId = %(work_id)s
       AND State = 'awaiting_legacy_outcome'
       AND RollbackExecutionFenceId = %(fence_id)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)

MARK_OUTCOME_PROJECTED = Statement(
    name="MARK_OUTCOME_PROJECTED",
    text="""
    UPDATE _System_ConnectorLegacyOutcomeReceipt
       SET ProjectedAt = UTC_TIMESTAMP(6)
     WHERE EventId = %(event_id)s AND WorkType = %(work_type)s AND ProjectedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)
