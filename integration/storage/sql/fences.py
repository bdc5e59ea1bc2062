"""Statements on the admission fence and its overrides, rank leaf."""

from __future__ import annotations

from integration.storage.statements import Returns, Statement

LIST_ARMED_FENCES = Statement(
    name="LIST_ARMED_FENCES",
    text="""
    SELECT FenceId, Namespace, Scope, ExpiresAt, ArmedAt
      FROM _System_ConnectorAdmissionFence FORCE INDEX (IX_AdmissionFence_Armed)
     WHERE Namespace = %(namespace)s AND LiftedAt IS NULL AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
     ORDER BY FenceId
    """,
    returns=Returns.ROWS,
)

LIST_LIVE_OVERRIDES = Statement(
    name="LIST_LIVE_OVERRIDES",
    text="""
    SELECT FenceId, Scope
      FROM _System_ConnectorAdmissionOverride
     WHERE FenceId IN %(fence_ids)s AND LiftedAt IS NULL AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
     ORDER BY FenceId, Scope
    """,
    returns=Returns.ROWS,
)
