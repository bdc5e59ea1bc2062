"""Statements on `_System_IntegrationWorkItem`, rank 30: the port's, made from the same templates as the connector's."""

from __future__ import annotations

from typing import Final

from integration.storage.sql.work_port import FROM_PENDING, WorkTable, claim_alone, statements_of

# No pack fences these families and no Event is behind them: a lane is a namespace's, in the order of its ordinals,
# and a first claim touches the WorkItem alone. The key of the command stays until the row has ended.
_TABLE: Final = WorkTable(
    table="_System_IntegrationWorkItem",
    suffix="_OF_INTEGRATION",
    candidate_columns=(
        "SubjectId AS EventId, '' AS PackInstallId, '' AS RouteId, SubjectKind AS EventKind,"
        " LaneOrdinal AS LanePosition, NULL AS ProjectionKey"
    ),
    position="LaneOrdinal",
    same_lane="",
    lane_name="CONCAT(Namespace, '/', SourceLane)",
    closed="\n        AND WorkFamily = %(family)s",
    ready="",
    claim_index="IX_IntegrationWork_Claim",
    lane_index="IX_IntegrationWork_SourceLane",
    target_index="UX_IntegrationWork_TargetLaneActive",
    active_key="ActiveKey",
    projection_key="NULL",
    pack="''",
    of_family="\n       AND WorkFamily = %(family)s",
    many_end=",\n           ActiveKey = NULL",
    many_guard="",
)
INTEGRATION: Final = statements_of(_TABLE, first_claim=claim_alone(_TABLE, "FIRST_CLAIM", FROM_PENDING))
