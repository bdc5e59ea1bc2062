"""What a dead-letter list and its count read: two owners' dead rows, each a keyset range of its own index.

Streams: `d` WorkItem rows that died, `l` WorkItem rows that a legacy outcome ended, `e` Event rows under the Event
executor. A database without the additive columns has the third only. Rows whose writer left no terminal time have
windows of their own: they end the list, by id. Nothing here reads a payload, a token, a worker's name or a failure
text.
"""

from __future__ import annotations

from typing import Final

WORK_COLUMNS: Final = """
       w.WorkId, w.EventId, w.State, w.WorkType, w.OrgId, w.Namespace, w.PackInstallId, p.PackName, p.PackVersion,
       p.Incarnation, e.Provider, w.EventKind, w.RouteVersion,
       CASE WHEN w.ProjectionKey IS NULL THEN 'per_event' ELSE 'source_projection' END AS ExecutionClass,
       w.SourceLane, w.TargetLane, w.LaneOrdinal, w.Attempt, w.MaxAttempts, w.FailureCount, w.FirstFailedAt,
       w.LastFailedAt, w.TerminalAt, w.ReplayedAt, w.ReplayOfWorkId, e.ReplayOfEventId, e.IdempotencyKey,
       e.DeliveryId, e.DeliverySequence, e.OccurredAt, e.ReceivedAt, o.Outcome AS LegacyOutcome"""
# TiDB mixes no literal with a column of another collation in a UNION (1271): both parts write literals.
EVENT_COLUMNS: Final = """
       NULL AS WorkId, e.EventId, e.Status AS State, e.WorkType, e.OrgId, e.Namespace, e.PackInstallId, p.PackName,
       p.PackVersion, p.Incarnation, e.Provider, e.EventKind, e.RouteVersion,
       CASE t.ExecutionClass WHEN 'per_event' THEN 'per_event' WHEN 'source_projection' THEN 'source_projection' END
           AS ExecutionClass,
       e.SourceLane, e.TargetLane, e.LaneOrdinal, e.RetryCount AS Attempt, NULL AS MaxAttempts,
       e.RetryCount AS FailureCount,
       NULL AS FirstFailedAt, NULL AS LastFailedAt, e.TerminalAt, e.ReplayedAt, NULL AS ReplayOfWorkId,
       e.ReplayOfEventId, e.IdempotencyKey, e.DeliveryId, e.DeliverySequence, e.OccurredAt, e.ReceivedAt,
       NULL AS LegacyOutcome"""
#: A key in the place of a row: what a list tells of its windows besides its rows.
KEY_COLUMNS: Final = """
       s.Id AS WorkId, NULL AS EventId, NULL AS State, NULL AS WorkType, NULL AS OrgId, NULL AS Namespace,
       NULL AS PackInstallId, NULL AS PackName, NULL AS PackVersion, NULL AS Incarnation, NULL AS Provider,
       NULL AS EventKind, NULL AS RouteVersion, NULL AS ExecutionClass, NULL AS SourceLane, NULL AS TargetLane,
       NULL AS LaneOrdinal, NULL AS Attempt, NULL AS MaxAttempts, NULL AS FailureCount, NULL AS FirstFailedAt,
       NULL AS LastFailedAt, s.TerminalAt, NULL AS ReplayedAt, NULL AS ReplayOfWorkId, NULL AS ReplayOfEventId,
       NULL AS IdempotencyKey, NULL AS DeliveryId, NULL AS DeliverySequence, NULL AS OccurredAt, NULL AS ReceivedAt,
       NULL AS LegacyOutcome"""
EVENT_OF_WORK: Final = """
       JOIN _System_ConnectorEvent AS e ON e.EventId = w.EventId"""
PACK_OF_WORK: Final = """
       LEFT JOIN _System_ConnectorPackInstall AS p ON p.PackInstallId = w.PackInstallId"""
OUTCOME_OF_WORK: Final = """
       LEFT JOIN _System_ConnectorLegacyOutcomeReceipt AS o ON o.EventId = w.EventId AND o.WorkType = w.WorkType"""
WORK_CONTEXT: Final = f"{EVENT_OF_WORK}{PACK_OF_WORK}{OUTCOME_OF_WORK}"
EVENT_CONTEXT: Final = """
       LEFT JOIN _System_ConnectorPackInstall AS p ON p.PackInstallId = e.PackInstallId
       LEFT JOIN _System_ConnectorRoute AS t ON t.RouteId = e.RouteId"""
PROVIDER_FILTER: Final = """
       AND (%(provider)s IS NULL OR e.Provider = %(provider)s)"""
OWN_FILTERS: Final = """
       AND (%(org)s IS NULL OR w.OrgId = %(org)s)
       AND (%(pack_name)s IS NULL OR p.PackName = %(pack_name)s)
       AND (%(pack_install_id)s IS NULL OR w.PackInstallId = %(pack_install_id)s)
       AND (%(event_kind)s IS NULL OR w.EventKind = %(event_kind)s)
       AND (%(work_type)s IS NULL OR w.WorkType = %(work_type)s)
       AND (%(source_lane)s IS NULL OR w.SourceLane = %(source_lane)s)
       AND (%(execution_class)s IS NULL
            OR (%(execution_class)s = 'source_projection') = (w.ProjectionKey IS NOT NULL))
       AND (%(min_attempts)s IS NULL OR w.Attempt >= %(min_attempts)s)
       AND (%(max_attempts)s IS NULL OR w.Attempt <= %(max_attempts)s)
       AND (%(replayed)s IS NULL OR (w.ReplayedAt IS NOT NULL) = %(replayed)s)"""
WORK_FILTERS: Final = f"{OWN_FILTERS}{PROVIDER_FILTER}"
EVENT_FILTERS: Final = """
       AND (%(org)s IS NULL OR e.OrgId = %(org)s)
       AND (%(pack_name)s IS NULL OR p.PackName = %(pack_name)s)
       AND (%(pack_install_id)s IS NULL OR e.PackInstallId = %(pack_install_id)s)
       AND (%(provider)s IS NULL OR e.Provider = %(provider)s)
       AND (%(event_kind)s IS NULL OR e.EventKind = %(event_kind)s)
       AND (%(work_type)s IS NULL OR e.WorkType = %(work_type)s)
       AND (%(source_lane)s IS NULL OR e.SourceLane = %(source_lane)s)
       AND (%(execution_class)s IS NULL OR t.ExecutionClass = %(execution_class)s)
       AND (%(min_attempts)s IS NULL OR e.RetryCount >= %(min_attempts)s)
       AND (%(max_attempts)s IS NULL OR e.RetryCount <= %(max_attempts)s)
       AND (%(replayed)s IS NULL OR (e.ReplayedAt IS NOT NULL) = %(replayed)s)"""
#: The gate's first rule, and the rows that a rollback's legacy outcome ended.
NOT_WORK_ITEM_OWNED: Final = """
       AND NOT EXISTS (SELECT 1 FROM _System_ConnectorWorkItem AS m
                        WHERE m.EventId = e.EventId AND (m.Attempt > 0 OR m.State = 'reconciled_legacy_terminal'))"""
#: The same as a join that keeps its order: MariaDB would rather read the whole table once for a large window.
OWNING_WORK_ITEM: Final = """
       LEFT JOIN _System_ConnectorWorkItem AS m
         ON m.EventId = e.EventId AND (m.Attempt > 0 OR m.State = 'reconciled_legacy_terminal')"""
WORK_KEYS: Final = """SELECT k.WorkId AS Id, k.TerminalAt
                         FROM _System_ConnectorWorkItem AS k FORCE INDEX (IX_WorkItem_Dead)
                        WHERE k.State = '#state'"""
WORK_KEYS_BY_NAMESPACE: Final = """SELECT k.WorkId AS Id, k.TerminalAt
                         FROM _System_ConnectorWorkItem AS k FORCE INDEX (IX_WorkItem_DeadByNamespace)
                        WHERE k.Namespace = %(namespace)s AND k.State = '#state'"""
EVENT_KEYS: Final = """SELECT k.EventId AS Id, k.TerminalAt
                         FROM _System_ConnectorEvent AS k FORCE INDEX (IX_Event_Dead)
                        WHERE k.Status = '#state'"""
EVENT_KEYS_BY_NAMESPACE: Final = """SELECT k.EventId AS Id, k.TerminalAt
                         FROM _System_ConnectorEvent AS k FORCE INDEX (IX_Event_DeadByNamespace)
                        WHERE k.Namespace = %(namespace)s AND k.Status = '#state'"""
# Split predicates: a row constructor, or the second half alone, makes both engines read the whole state. The second
# half need not say "at the same time" again, and must not: TiDB would read two ranges, and a descending scan of two
# ranges gives rows twice inside a transaction that has written.
OLDER: Final = """
                          AND k.TerminalAt <= %(#_upper_at)s
                          AND (k.TerminalAt < %(#_upper_at)s OR #id < %(#_upper_id)s)
                          AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s
                        ORDER BY k.TerminalAt DESC, #id DESC
                        LIMIT %(#_window)s"""
NEWER: Final = """
                          AND k.TerminalAt >= %(#_lower_at)s
                          AND (k.TerminalAt > %(#_lower_at)s OR #id > %(#_lower_id)s)
                          AND k.TerminalAt >= %(died_after)s AND k.TerminalAt < %(died_before)s
                        ORDER BY k.TerminalAt, #id
                        LIMIT %(#_window)s"""
UNDATED_OLDER: Final = """
                          AND k.TerminalAt IS NULL AND #id < %(#_upper_id)s
                        ORDER BY #id DESC
                        LIMIT %(#_window)s"""
UNDATED_NEWER: Final = """
                          AND k.TerminalAt IS NULL AND #id > %(#_lower_id)s
                        ORDER BY #id
                        LIMIT %(#_window)s"""
#: Whether there is any.
UNDATED: Final = """
                          AND k.TerminalAt IS NULL
                        LIMIT 1"""
WINDOWS: Final = {
    (True, True): OLDER,
    (True, False): NEWER,
    (False, True): UNDATED_OLDER,
    (False, False): UNDATED_NEWER,
}
STATES: Final = {"d": "dead", "l": "reconciled_legacy_terminal", "e": "dead"}
STREAM_RULES: Final = {"d": "w.Attempt > 0", "l": "o.Outcome = 'dead'"}


def window_keys(stream: str, window: str, *, by_namespace: bool) -> str:
    """Return the text that reads one window of a stream's index."""
    if stream == "e":
        head, id_column = (EVENT_KEYS_BY_NAMESPACE if by_namespace else EVENT_KEYS), "k.EventId"
    else:
        head, id_column = (WORK_KEYS_BY_NAMESPACE if by_namespace else WORK_KEYS), "k.WorkId"
    text = head.replace("#state", STATES[stream]) + window.replace("#id", id_column)
    return text.replace("#", stream)


def matching_rows(columns: str, stream: str, keys: str, *, has_work_items: bool) -> str:
    """Return the text that joins the rows of a window's keys and keeps those that the filter matches."""
    # The window is small and the rest is by primary key: neither engine may turn the join round.
    hint = f"SELECT /*+ INL_JOIN({'e' if stream == 'e' else 'w, e'}, p, t, o, m) */ STRAIGHT_JOIN"
    if stream == "e":
        join, gate = (OWNING_WORK_ITEM, " AND m.WorkId IS NULL") if has_work_items else ("", "")
        return (
            f"{hint} {columns} FROM ({keys}) AS s JOIN _System_ConnectorEvent AS e ON e.EventId = s.Id"
            f"{EVENT_CONTEXT}{join} WHERE e.Status = 'dead'{gate}{EVENT_FILTERS}"
        )
    return (
        f"{hint} {columns} FROM ({keys}) AS s JOIN _System_ConnectorWorkItem AS w ON w.WorkId = s.Id"
        f"{WORK_CONTEXT} WHERE w.State = '{STATES[stream]}' AND {STREAM_RULES[stream]}{WORK_FILTERS}"
    )
