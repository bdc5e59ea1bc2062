"""Statements on `_System_ConnectorRoute`, rank 12."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

# Every value is a parameter: with anything else among them the driver sends the batch row by row.
INSERT_ROUTES = Statement(
    name="INSERT_ROUTES",
    text="""
    INSERT INTO _System_ConnectorRoute
           (RouteId, PackInstallId, EventKind, RouteVersion, Provider, WorkType, ExecutionClass, FlowName, FlowVersion,
            Status, LiveKey, Definition, CreatedAt, SweptAt)
    VALUES (%(route_id)s, %(pack_install_id)s, %(event_kind)s, %(route_version)s, %(provider)s, %(work_type)s,
            %(execution_class)s, %(flow_name)s, %(flow_version)s, %(status)s, %(live_key)s, %(definition)s,
            %(created_at)s, %(swept_at)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.NAMESPACE,
    many=True,
)

FIND_ROUTE = Statement(
    name="FIND_ROUTE",
    text="""
    SELECT RouteId, PackInstallId, EventKind, RouteVersion, Provider, WorkType, ExecutionClass, FlowName, FlowVersion,
           CompanionPackName, CompanionPackVersion, Definition
      FROM _System_ConnectorRoute
     WHERE RouteId = %(route_id)s
    """,
    returns=Returns.ROW,
)

LIST_LIVE_ROUTES = Statement(
    name="LIST_LIVE_ROUTES",
    text="""
    SELECT RouteId, PackInstallId, EventKind, RouteVersion, Provider, WorkType, ExecutionClass, FlowName, FlowVersion,
           CompanionPackName, CompanionPackVersion, Definition
      FROM _System_ConnectorRoute
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'live'
     ORDER BY EventKind
    """,
    returns=Returns.ROWS,
)

LIST_ROUTES_OF_PACKS = Statement(
    name="LIST_ROUTES_OF_PACKS",
    text="""
    SELECT RouteId, PackInstallId, EventKind, RouteVersion, Definition
      FROM _System_ConnectorRoute
     WHERE PackInstallId IN %(pack_install_ids)s
     ORDER BY PackInstallId, EventKind
    """,
    returns=Returns.ROWS,
)

LIST_ROUTES_BY_LIVE_KEY = Statement(
    name="LIST_ROUTES_BY_LIVE_KEY",
    text="""
    SELECT RouteId, PackInstallId, EventKind, LiveKey
      FROM _System_ConnectorRoute
     WHERE LiveKey IN %(live_keys)s
     ORDER BY LiveKey
    """,
    returns=Returns.ROWS,
)

SWEEP_ROUTES = Statement(
    name="SWEEP_ROUTES",
    text="""
    UPDATE _System_ConnectorRoute
       SET Status = 'swept', LiveKey = NULL, SweptAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'live'
    """,
    returns=Returns.COUNT,
    locks=(LockRank.ROUTE,),
)

# A namespace's name holds no colon, so that no two pairs share a key.
MARK_ROUTES_LIVE = Statement(
    name="MARK_ROUTES_LIVE",
    text="""
    UPDATE _System_ConnectorRoute
       SET Status = 'live', LiveKey = CONCAT(%(namespace)s, ':', EventKind), SweptAt = NULL
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'swept' AND SweptAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.ROUTE,),
)
