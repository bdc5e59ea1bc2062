"""Statements on `_System_ConnectorExecutionAttempt`, rank 50."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

# Written from the rows that the claim has just changed, in its transaction: one for each item that it won. The flow
# may act outside as soon as it runs, so the attempt counts as dispatched from its start: the rollback's proof may
# then hold too much for ambiguous, never too little, and no further commit is paid for it.
INSERT_ATTEMPTS_OF_CLAIM = Statement(
    name="INSERT_ATTEMPTS_OF_CLAIM",
    text="""
    INSERT INTO _System_ConnectorExecutionAttempt (WorkId, Attempt, OwnershipEpoch, StartedAt, DispatchedAt)
    SELECT WorkId, Attempt, OwnershipEpoch, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
      FROM _System_ConnectorWorkItem
     WHERE WorkId IN %(work_ids)s AND LeaseToken = %(lease_token)s
    """,
    returns=Returns.COUNT,
    holds=LockRank.WORK_ITEM,
)

# The attempt before this claim's own ended when the WorkItem says that it failed.
CLOSE_EXECUTION_ATTEMPT = Statement(
    name="CLOSE_EXECUTION_ATTEMPT",
    text="""
    UPDATE _System_ConnectorExecutionAttempt
       SET FinishedAt = COALESCE(%(finished_at)s, UTC_TIMESTAMP(6)), Outcome = %(outcome)s
     WHERE WorkId = %(work_id)s AND Attempt = %(attempt)s AND FinishedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.ATTEMPT,),
)
