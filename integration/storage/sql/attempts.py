"""Statements on `_System_ConnectorExecutionAttempt`, rank 50."""

from __future__ import annotations

from integration.storage.sql.work_items import CONNECTOR
from integration.storage.statements import LockRank, Returns, Statement

INSERT_ATTEMPTS_OF_CLAIM = CONNECTOR.insert_attempts

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
