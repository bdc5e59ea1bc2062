"""Statements by which a worker reads its generation's inputs: by interval and exact identity, in ordinal order."""

from __future__ import annotations

from integration.storage.statements import Returns, Statement

READ_GENERATION = Statement(
    name="READ_GENERATION",
    text="""
    SELECT WorkId, EventId, PackInstallId, RouteId, RouteVersion, FlowName, FlowVersion, CompanionPackName,
           CompanionPackVersion, EventKind, WorkType, SourceLane, ProjectionKey, InputStartOrdinal, LaneOrdinal
      FROM _System_ConnectorWorkItem
     WHERE WorkId = %(work_id)s
    """,
    returns=Returns.ROW,
)

LIST_BOUNDS = Statement(
    name="LIST_BOUNDS",
    text="""
    SELECT EventId, LaneOrdinal, RouteVersion, WorkType
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
     WHERE PackInstallId = %(pack_install_id)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
       AND LaneOrdinal IN %(ordinals)s
     ORDER BY LaneOrdinal
    """,
    returns=Returns.ROWS,
)

# The index holds the lane's Events in ordinal order, so that a page costs its own rows, however long the lane's
# history is. What else the lane carries inside the interval is of another route version or work type.
LIST_INPUTS = Statement(
    name="LIST_INPUTS",
    text="""
    SELECT EventId, LaneOrdinal, OccurredAt, Payload
      FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
     WHERE PackInstallId = %(pack_install_id)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
       AND LaneOrdinal BETWEEN %(first)s AND %(last)s
       AND RouteVersion = %(route_version)s AND WorkType = %(work_type)s
     ORDER BY LaneOrdinal
     LIMIT %(limit)s
    """,
    returns=Returns.ROWS,
)

COUNT_INPUTS = Statement(
    name="COUNT_INPUTS",
    text="""
    SELECT COUNT(*) AS Found
      FROM (SELECT LaneOrdinal
              FROM _System_ConnectorEvent FORCE INDEX (IX_Event_SourceLane)
             WHERE PackInstallId = %(pack_install_id)s AND EventKind = %(event_kind)s AND SourceLane = %(source_lane)s
               AND LaneOrdinal BETWEEN %(first)s AND %(last)s
               AND RouteVersion = %(route_version)s AND WorkType = %(work_type)s
             ORDER BY LaneOrdinal
             LIMIT %(limit)s) AS members
    """,
    returns=Returns.ROW,
)
