"""Statements on `_System_ConnectorExecutionAttempt`, rank 50."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

INSERT_EXECUTION_ATTEMPT = Statement(
    name="INSERT_EXECUTION_ATTEMPT",
    text="""
    INSERT INTO _System_ConnectorExecutionAttempt (WorkId, Attempt, OwnershipEpoch, StartedAt)
    VALUES (%(work_id)s, %(attempt)s, %(epoch)s, UTC_TIMESTAMP(6))
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
