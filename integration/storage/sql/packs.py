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

LIST_INCARNATIONS = Statement(
    name="LIST_INCARNATIONS",
    text="""
    SELECT PackInstallId, PackName, Incarnation, Status, CatalogDigest
      FROM _System_ConnectorPackInstall
     WHERE Namespace = %(namespace)s AND PackName = %(pack_name)s
     ORDER BY Incarnation
    """,
    returns=Returns.ROWS,
)

FIND_PACK = Statement(
    name="FIND_PACK",
    text="""
    SELECT PackInstallId, OrgId, AppInstallationId, Namespace, PackName, PackVersion, Incarnation, Status,
           OwnershipEpoch, CatalogRevision, CatalogDigest, Definition
      FROM _System_ConnectorPackInstall
     WHERE PackInstallId = %(pack_install_id)s
    """,
    returns=Returns.ROW,
)

LIST_ACTIVE_PACKS_OF_NAMESPACE = Statement(
    name="LIST_ACTIVE_PACKS_OF_NAMESPACE",
    text="""
    SELECT PackInstallId, OrgId, AppInstallationId, Namespace, PackName, PackVersion, Incarnation, CatalogRevision,
           CatalogDigest, Definition
      FROM _System_ConnectorPackInstall
     WHERE Namespace = %(namespace)s AND Status = 'active'
     ORDER BY PackInstallId
    """,
    returns=Returns.ROWS,
)

LIST_ACTIVE_PACKS = Statement(
    name="LIST_ACTIVE_PACKS",
    text="""
    SELECT PackInstallId, Namespace, PackName
      FROM _System_ConnectorPackInstall
     WHERE Status = 'active'
     ORDER BY PackInstallId
    """,
    returns=Returns.ROWS,
)

# A namespace's revisions only grow, since its lock is held while one is taken; so the greatest one tells a cache.
READ_NAMESPACE_REVISION = Statement(
    name="READ_NAMESPACE_REVISION",
    text="""
    SELECT COALESCE(MAX(CatalogRevision), 0) AS CatalogRevision
      FROM _System_ConnectorPackInstall
     WHERE Namespace = %(namespace)s
    """,
    returns=Returns.ROW,
)

READ_GREATEST_REVISION = Statement(
    name="READ_GREATEST_REVISION",
    text="SELECT COALESCE(MAX(CatalogRevision), 0) AS CatalogRevision FROM _System_ConnectorPackInstall",
    returns=Returns.ROW,
)

INSERT_PACK = Statement(
    name="INSERT_PACK",
    text="""
    INSERT INTO _System_ConnectorPackInstall
           (PackInstallId, OrgId, AppInstallationId, Namespace, PackName, PackVersion, Incarnation, Status,
            CatalogDigest, Definition, InstalledAt)
    VALUES (%(pack_install_id)s, %(org_id)s, %(app_installation_id)s, %(namespace)s, %(pack_name)s, %(pack_version)s,
            %(incarnation)s, 'installed', %(catalog_digest)s, %(definition)s, UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
    holds=LockRank.NAMESPACE,
)

MARK_PACK_RETIRED = Statement(
    name="MARK_PACK_RETIRED",
    text="""
    UPDATE _System_ConnectorPackInstall
       SET Status = 'retired', ActiveKey = NULL, RetiredAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'active'
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

MARK_PACK_ACTIVE = Statement(
    name="MARK_PACK_ACTIVE",
    text="""
    UPDATE _System_ConnectorPackInstall
       SET Status = 'active', ActiveKey = %(active_key)s, ActivatedAt = UTC_TIMESTAMP(6),
           CatalogRevision = %(catalog_revision)s, OwnershipEpoch = OwnershipEpoch + 1
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'installed'
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)

ADVANCE_LANE_ORDINAL = Statement(
    name="ADVANCE_LANE_ORDINAL",
    text="""
    UPDATE _System_ConnectorPackInstall
       SET NextLaneOrdinal = %(next_lane_ordinal)s
     WHERE PackInstallId = %(pack_install_id)s AND Status = 'active'
       AND NextLaneOrdinal = %(expected_lane_ordinal)s AND %(next_lane_ordinal)s > NextLaneOrdinal
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
