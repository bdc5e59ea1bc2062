"""Statements of the projection cutover's audit: an incarnation's history in index order, and what it may not hold.

None of them locks. Those that are asked again under the locks read one short range each; the history is read page by
page, in the order of `IX_Event_SourceLane`: by kind, by lane (none first), by ordinal (none first), by id.
"""

from __future__ import annotations

from typing import Final

from integration.storage.statements import Returns, Statement

READ_CUTOVER_PACK = Statement(
    name="READ_CUTOVER_PACK",
    text="""
    SELECT PackInstallId, OrgId, Namespace, Status, NextLaneOrdinal
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

FIND_HIGHEST_ORDINAL = Statement(
    name="FIND_HIGHEST_ORDINAL",
    text="""
    SELECT LaneOrdinal
      FROM _System_ConnectorEvent FORCE INDEX (UX_Event_Ordinal)
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY LaneOrdinal DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

LIST_AUDITED_ROUTES = Statement(
    name="LIST_AUDITED_ROUTES",
    text="""
    SELECT RouteId, ExecutionClass, FlowName, FlowVersion, CompanionPackName, CompanionPackVersion
      FROM _System_ConnectorRoute FORCE INDEX (UX_Route_Version)
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROWS,
)

# Also one that has ended since: what it let through meanwhile was not seen.
LIST_OVERRIDES_SINCE = Statement(
    name="LIST_OVERRIDES_SINCE",
    text="""
    SELECT FenceId
      FROM _System_ConnectorAdmissionOverride FORCE INDEX (IX_AdmissionOverride_Fence)
     WHERE FenceId IN %(fence_ids)s
       AND (LiftedAt IS NULL OR LiftedAt > %(since)s) AND (ExpiresAt IS NULL OR ExpiresAt > %(since)s)
    """,
    returns=Returns.ROWS,
)

# By key, by subject and by route: an old writer may have left one of them out.
_UNENDED: Final = """
      FROM _System_ConnectorWorkItem FORCE INDEX (IX_WorkItem_Pack)
     WHERE PackInstallId = %(pack_install_id)s
       AND State NOT IN ('succeeded', 'skipped', 'dead', 'cancelled', 'reconciled_legacy_terminal')
       AND (ProjectionKey IS NOT NULL OR SubjectKind = 'projection' OR RouteId IN %(route_ids)s)
    """
LIST_UNENDED_PROJECTIONS = Statement(
    name="LIST_UNENDED_PROJECTIONS",
    text="SELECT WorkId, EventKind, LaneOrdinal, State" + _UNENDED + " LIMIT %(limit)s",
    returns=Returns.ROWS,
)
COUNT_UNENDED_PROJECTIONS = Statement(
    name="COUNT_UNENDED_PROJECTIONS", text="SELECT COUNT(*) AS Found" + _UNENDED, returns=Returns.ROW
)

LIST_EXECUTING_EVENTS = Statement(
    name="LIST_EXECUTING_EVENTS",
    text="""
    SELECT EventId, EventKind, LaneOrdinal, Status
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_Executor)
     WHERE PackInstallId = %(pack_install_id)s AND ExecutionOwner = 'event' AND Status = 'processing'
       AND RouteId IN %(route_ids)s
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

# What begins a walk has no lower bound: by a padding collation a control character comes before the empty text.
FIRST_EVENT_KIND = Statement(
    name="FIRST_EVENT_KIND",
    text="""
    SELECT EventKind
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY EventKind
     LIMIT 1
    """,
    returns=Returns.ROW,
)
NEXT_EVENT_KIND = Statement(
    name="NEXT_EVENT_KIND",
    text="""
    SELECT EventKind
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
     WHERE PackInstallId = %(pack_install_id)s AND EventKind > %(event_kind)s
     ORDER BY EventKind
     LIMIT 1
    """,
    returns=Returns.ROW,
)

_HISTORY: Final = """
    SELECT EventId, EventKind, SourceLane, LaneOrdinal, RouteId, RouteVersion, WorkType, ExecutionOwner, Status
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
     WHERE PackInstallId = %(pack_install_id)s AND EventKind = %(event_kind)s"""
# What follows a place is three ranges of the index, none of which an OR joins: the rest of the lane's Events without an
# ordinal, the rest of those with one, and the lanes behind it.
LIST_HISTORY_WITHOUT_ORDINAL = Statement(
    name="LIST_HISTORY_WITHOUT_ORDINAL",
    text=_HISTORY
    + """
       AND SourceLane <=> %(source_lane)s AND LaneOrdinal IS NULL AND EventId > %(event_id)s
     ORDER BY EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)
LIST_HISTORY_OF_LANE = Statement(
    name="LIST_HISTORY_OF_LANE",
    text=_HISTORY
    + """
       AND SourceLane <=> %(source_lane)s AND LaneOrdinal >= %(ordinal)s
     ORDER BY LaneOrdinal
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)
LIST_HISTORY_OF_LANES = Statement(
    name="LIST_HISTORY_OF_LANES",
    text=_HISTORY
    + """
       AND SourceLane IS NOT NULL
     ORDER BY SourceLane, LaneOrdinal, EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)
LIST_HISTORY_OF_LATER_LANES = Statement(
    name="LIST_HISTORY_OF_LATER_LANES",
    text=_HISTORY
    + """
       AND SourceLane > %(source_lane)s
     ORDER BY SourceLane, LaneOrdinal, EventId
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

LIST_DIRECT_TASKS = Statement(
    name="LIST_DIRECT_TASKS",
    text="""
    SELECT EventId, WorkId
      FROM _System_ConnectorWorkItem FORCE INDEX (UX_WorkItem_Event)
     WHERE EventId IN %(event_ids)s
    """,
    returns=Returns.ROWS,
)

# A generation whose selected Event is not retained where its upper bound says bounds nothing.
LIST_COMPLETED_BOUNDARIES = Statement(
    name="LIST_COMPLETED_BOUNDARIES",
    text="""
    SELECT w.ProjectionKey,
           MIN(COALESCE(w.LaneOrdinal, 0)) AS Lowest,
           MAX(COALESCE(w.LaneOrdinal, 0)) AS Highest,
           MAX(CASE WHEN w.State IN ('succeeded', 'skipped', 'dead', 'cancelled', 'reconciled_legacy_terminal')
                     AND COALESCE(e.LaneOrdinal, 0) = COALESCE(w.LaneOrdinal, 0) AND e.EventId IS NOT NULL
                    THEN COALESCE(w.LaneOrdinal, 0) END) AS Boundary
      FROM _System_ConnectorWorkItem w FORCE INDEX (IX_WorkItem_ProjectionOrder)
      LEFT JOIN _System_ConnectorEvent e ON e.EventId = w.EventId AND e.PackInstallId = w.PackInstallId
     WHERE w.ProjectionKey IN %(projection_keys)s
     GROUP BY w.ProjectionKey
    """,
    returns=Returns.ROWS,
)

# Of an Event whose route is not there any more: what it has kept of it.
LIST_KEPT_CLASSES = Statement(
    name="LIST_KEPT_CLASSES",
    text="""
    SELECT EventId, JSON_UNQUOTE(JSON_EXTRACT(RouteSnapshot, '$.execution')) AS ExecutionClass
      FROM _System_ConnectorEvent
     WHERE EventId IN %(event_ids)s
    """,
    returns=Returns.ROWS,
)
