"""Statements on `_System_ConnectorNamespace`, rank 5."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_NAMESPACE = Statement(
    name="LOCK_NAMESPACE",
    text="""
    SELECT Namespace, OrgId
      FROM _System_ConnectorNamespace
     WHERE Namespace = %(namespace)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.NAMESPACE,),
)

INSERT_NAMESPACE = Statement(
    name="INSERT_NAMESPACE",
    text="""
    INSERT INTO _System_ConnectorNamespace (Namespace, OrgId, CreatedAt)
    VALUES (%(namespace)s, %(org_id)s, UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
)

FIND_NAMESPACE = Statement(
    name="FIND_NAMESPACE",
    text="SELECT Namespace, OrgId FROM _System_ConnectorNamespace WHERE Namespace = %(namespace)s",
    returns=Returns.ROW,
)

# An empty id or name matches none: whoever asks for orgs alone hands one in.
LIST_NAMESPACES_AT = Statement(
    name="LIST_NAMESPACES_AT",
    text="""
    (SELECT Namespace, OrgId FROM _System_ConnectorNamespace WHERE OrgId IN %(org_ids)s ORDER BY Namespace
      LIMIT %(limit)s)
     UNION
    (SELECT Namespace, OrgId FROM _System_ConnectorNamespace WHERE Namespace IN %(namespaces)s ORDER BY Namespace
      LIMIT %(limit)s)
    """,
    returns=Returns.ROWS,
)
