"""Statements on `_System_ConnectorSchedulerLease`: one Event executor a pack. A leaf, locked last."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

FIND_SCHEDULER_LEASE = Statement(
    name="FIND_SCHEDULER_LEASE",
    text="""
    SELECT LeaseToken, OwnershipEpoch
      FROM _System_ConnectorSchedulerLease
     WHERE PackInstallId = %(pack_install_id)s AND LeaseName = %(lease_name)s
    """,
    returns=Returns.ROW,
)

INSERT_SCHEDULER_LEASE = Statement(
    name="INSERT_SCHEDULER_LEASE",
    text="""
    INSERT INTO _System_ConnectorSchedulerLease (PackInstallId, LeaseName, OwnershipEpoch, UpdatedAt)
    VALUES (%(pack_install_id)s, %(lease_name)s, 0, UTC_TIMESTAMP(6))
    """,
    returns=Returns.COUNT,
)

# Free, or expired for longer than servers' clocks may differ; whoever read the same epoch and comes second matches
# nothing.
ACQUIRE_SCHEDULER_LEASE = Statement(
    name="ACQUIRE_SCHEDULER_LEASE",
    text="""
    UPDATE _System_ConnectorSchedulerLease
       SET LeaseOwner = %(lease_owner)s, LeaseToken = %(lease_token)s,
           LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND,
           OwnershipEpoch = OwnershipEpoch + 1, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND LeaseName = %(lease_name)s
       AND OwnershipEpoch = %(epoch)s
       AND (LeaseToken IS NULL OR LeaseUntil < UTC_TIMESTAMP(6) - INTERVAL %(slack_seconds)s SECOND)
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

RENEW_SCHEDULER_LEASE = Statement(
    name="RENEW_SCHEDULER_LEASE",
    text="""
    UPDATE _System_ConnectorSchedulerLease
       SET LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL %(lease_seconds)s SECOND, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND LeaseName = %(lease_name)s
       AND LeaseToken = %(lease_token)s AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

RELEASE_SCHEDULER_LEASE = Statement(
    name="RELEASE_SCHEDULER_LEASE",
    text="""
    UPDATE _System_ConnectorSchedulerLease
       SET LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND LeaseName = %(lease_name)s
       AND LeaseToken = %(lease_token)s AND OwnershipEpoch = %(epoch)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

LOCK_SCHEDULER_LEASE = Statement(
    name="LOCK_SCHEDULER_LEASE",
    text="""
    SELECT LeaseToken, OwnershipEpoch, LeaseUntil > UTC_TIMESTAMP(6) AS IsLive
      FROM _System_ConnectorSchedulerLease
     WHERE PackInstallId = %(pack_install_id)s AND LeaseName = %(lease_name)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.LEAF,),
)
