"""Statements on the admission fence and its overrides, rank leaf, and on what bears on them.

Whoever arms, lifts or overrides a fence holds its namespace: what a cutover relies on cannot change under it.
"""

from __future__ import annotations

from typing import Final, LiteralString

from integration.storage.statements import LockRank, Returns, Statement

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

# Both times are one statement's: their difference is the time that was asked for, which tells a repeated request.
INSERT_FENCE = Statement(
    name="INSERT_FENCE",
    text="""
    INSERT INTO _System_ConnectorAdmissionFence (FenceId, Namespace, Scope, ExpiresAt, ArmedAt, ArmedBy, Reason)
    VALUES (%(fence_id)s, %(namespace)s, %(scope)s, UTC_TIMESTAMP(6) + INTERVAL %(seconds)s SECOND,
            UTC_TIMESTAMP(6), %(armed_by)s, %(reason)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.NAMESPACE,
)

MARK_FENCE_LIFTED = Statement(
    name="MARK_FENCE_LIFTED",
    text="""
    UPDATE _System_ConnectorAdmissionFence
       SET LiftedAt = UTC_TIMESTAMP(6), LiftedBy = %(lifted_by)s
     WHERE FenceId = %(fence_id)s AND LiftedAt IS NULL AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

INSERT_OVERRIDE = Statement(
    name="INSERT_OVERRIDE",
    text="""
    INSERT INTO _System_ConnectorAdmissionOverride
           (OverrideId, FenceId, Scope, ExpiresAt, GrantedAt, GrantedBy, Reason)
    VALUES (%(override_id)s, %(fence_id)s, %(scope)s, UTC_TIMESTAMP(6) + INTERVAL %(seconds)s SECOND,
            UTC_TIMESTAMP(6), %(granted_by)s, %(reason)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.NAMESPACE,
)

MARK_OVERRIDE_LIFTED = Statement(
    name="MARK_OVERRIDE_LIFTED",
    text="""
    UPDATE _System_ConnectorAdmissionOverride
       SET LiftedAt = UTC_TIMESTAMP(6), LiftedBy = %(lifted_by)s
     WHERE OverrideId = %(override_id)s AND LiftedAt IS NULL
       AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

FIND_FENCE = Statement(
    name="FIND_FENCE",
    text="""
    SELECT FenceId, Namespace, Scope, ExpiresAt, ArmedAt, ArmedBy, Reason, LiftedAt, LiftedBy,
           CASE WHEN LiftedAt IS NOT NULL THEN 'lifted' WHEN ExpiresAt <= UTC_TIMESTAMP(6) THEN 'expired'
                ELSE 'armed' END AS State
      FROM _System_ConnectorAdmissionFence
     WHERE FenceId = %(fence_id)s
    """,
    returns=Returns.ROW,
)

_FENCE: Final = "SELECT FenceId, Namespace, Scope, ExpiresAt, ArmedAt, ArmedBy, Reason, LiftedAt, LiftedBy"


def _list_armed(name: str, narrowed: LiteralString) -> Statement:
    text: LiteralString = f"""
    {_FENCE}, 'armed' AS State
      FROM _System_ConnectorAdmissionFence
     WHERE {narrowed} AND LiftedAt IS NULL AND (ExpiresAt IS NULL OR ExpiresAt > UTC_TIMESTAMP(6))
     ORDER BY FenceId DESC
     LIMIT %(limit)s
    """
    return Statement(name=name, text=text, returns=Returns.ROWS)


def _list_past(name: str, narrowed: LiteralString) -> Statement:
    text: LiteralString = f"""
    {_FENCE}, CASE WHEN LiftedAt IS NOT NULL THEN 'lifted' ELSE 'expired' END AS State
      FROM _System_ConnectorAdmissionFence
     WHERE {narrowed}FenceId < %(before)s AND (LiftedAt IS NOT NULL OR ExpiresAt <= UTC_TIMESTAMP(6))
     ORDER BY FenceId DESC
     LIMIT %(limit)s
    """
    return Statement(name=name, text=text, returns=Returns.ROWS)


# The table grows by what people do, a row at a time; what is armed of all namespaces is looked for in all of it.
LIST_FENCES_ARMED_NOW = _list_armed("LIST_FENCES_ARMED_NOW", "(%(namespace)s = '' OR Namespace = %(namespace)s)")
LIST_FENCES_ARMED_WITHIN = _list_armed("LIST_FENCES_ARMED_WITHIN", "Namespace IN %(namespaces)s")
LIST_PAST_FENCES = _list_past("LIST_PAST_FENCES", "")
LIST_PAST_FENCES_WITHIN = _list_past("LIST_PAST_FENCES_WITHIN", "Namespace IN %(namespaces)s AND ")

FIND_OVERRIDE = Statement(
    name="FIND_OVERRIDE",
    text="""
    SELECT OverrideId, FenceId, Scope, ExpiresAt, GrantedAt, GrantedBy, Reason, LiftedAt, LiftedBy,
           CASE WHEN LiftedAt IS NOT NULL THEN 'lifted' WHEN ExpiresAt <= UTC_TIMESTAMP(6) THEN 'expired'
                ELSE 'live' END AS State
      FROM _System_ConnectorAdmissionOverride
     WHERE OverrideId = %(override_id)s
    """,
    returns=Returns.ROW,
)

LIST_OVERRIDES_OF_FENCES = Statement(
    name="LIST_OVERRIDES_OF_FENCES",
    text="""
    SELECT OverrideId, FenceId, Scope, ExpiresAt, GrantedAt, GrantedBy, Reason, LiftedAt, LiftedBy,
           CASE WHEN LiftedAt IS NOT NULL THEN 'lifted' WHEN ExpiresAt <= UTC_TIMESTAMP(6) THEN 'expired'
                ELSE 'live' END AS State
      FROM _System_ConnectorAdmissionOverride
     WHERE FenceId IN %(fence_ids)s
     ORDER BY FenceId, OverrideId DESC
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_ADMITTING_PACKS = Statement(
    name="LIST_ADMITTING_PACKS",
    text="""
    SELECT PackInstallId
      FROM _System_ConnectorPackInstall
     WHERE Namespace = %(namespace)s AND Status = 'active'
     ORDER BY PackInstallId
    """,
    returns=Returns.ROWS,
)

LIST_LIVE_KINDS = Statement(
    name="LIST_LIVE_KINDS",
    text="""
    SELECT DISTINCT r.EventKind
      FROM _System_ConnectorPackInstall AS p
      JOIN _System_ConnectorRoute AS r ON r.PackInstallId = p.PackInstallId
     WHERE p.Namespace = %(namespace)s AND p.Status = 'active' AND r.Status = 'live'
     ORDER BY r.EventKind
     LIMIT 500
    """,
    returns=Returns.ROWS,
)

COUNT_RECEIVED_LATELY = Statement(
    name="COUNT_RECEIVED_LATELY",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT 1 AS One
              FROM _System_ConnectorIngressReceipt FORCE INDEX (IX_Receipt_Ready)
             WHERE State IN ('received', 'materialized', 'quarantined') AND Namespace = %(namespace)s
               AND ReceivedAt >= UTC_TIMESTAMP(6) - INTERVAL %(seconds)s SECOND
             LIMIT %(limit)s) AS capped
    """,
    returns=Returns.ROW,
)

# A refusal's code stands in the entry's facts, which have no index: only the newest entries are looked through.
COUNT_FENCED_REPLAYS = Statement(
    name="COUNT_FENCED_REPLAYS",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT outcome, namespace, facts
              FROM console_auditentry FORCE INDEX (audit_at_id)
             WHERE at >= %(since)s
             ORDER BY at DESC, id DESC
             LIMIT %(limit)s) AS recent
     WHERE outcome = 'refused' AND namespace = %(namespace)s AND facts LIKE '%%"code":"admission_fenced"%%'
    """,
    returns=Returns.ROW,
)
