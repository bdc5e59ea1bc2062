"""Statements on `_System_ConnectorPackInstall`, rank 10."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_PACK = Statement(
    name="LOCK_PACK",
    text="""
    SELECT PackInstallId, OrgId, AppInstallationId, Namespace, PackName, PackVersion, Incarnation, Status,
           NextLaneOrdinal, OwnershipEpoch, CatalogRevision, CatalogDigest
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId = %(pack_install_id)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.PACK,),
)

LOCK_PACKS = Statement(
    name="LOCK_PACKS",
    text="""
    SELECT PackInstallId, OrgId, AppInstallationId, Namespace, PackName, PackVersion, Incarnation, Status,
           NextLaneOrdinal, OwnershipEpoch, CatalogRevision, CatalogDigest
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId IN %(pack_install_ids)s
     ORDER BY PackInstallId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.PACK,),
)

# What a claim process may serve: an incarnation goes on executing what it admitted after it is retired.
LIST_SERVED_PACKS = Statement(
    name="LIST_SERVED_PACKS",
    text="""
    SELECT PackInstallId, Namespace, PackName, Incarnation
      FROM _System_ConnectorPackInstall
     WHERE Status IN ('active', 'retired')
     ORDER BY Namespace, PackName, Incarnation
    """,
    returns=Returns.ROWS,
)
