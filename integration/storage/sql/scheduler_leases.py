"""Statements on `_System_ConnectorSchedulerLease`: one Event executor a pack. A leaf, locked last."""

from __future__ import annotations

from typing import Final

from integration.storage.statements import LockRank, Returns, Statement

#: The lease under which a pack's Events are executed.
EVENT_EXECUTOR: Final = "event_executor"
#: The owner of the leases that a cutover has seized, whichever process runs it.
SEIZED: Final = "inbound_cutover"

FIND_SCHEDULER_LEASE = Statement(
    name="FIND_SCHEDULER_LEASE",
    text="""
    SELECT LeaseOwner, LeaseToken, OwnershipEpoch
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

LIST_SCHEDULER_LEASES = Statement(
    name="LIST_SCHEDULER_LEASES",
    text="""
    SELECT LeaseName, LeaseOwner, LeaseToken IS NOT NULL AS IsHeld
      FROM _System_ConnectorSchedulerLease
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY LeaseName
    """,
    returns=Returns.ROWS,
)

# From whoever holds them, for longer than anybody waits: no claim that demands a lease is made until it is given back.
# It waits for a claim that has looked at the lease already.
SEIZE_SCHEDULER_LEASES = Statement(
    name="SEIZE_SCHEDULER_LEASES",
    text="""
    UPDATE _System_ConnectorSchedulerLease
       SET LeaseOwner = %(seized)s, LeaseToken = %(lease_token)s,
           LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL 100 YEAR,
           OwnershipEpoch = OwnershipEpoch + 1, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND COALESCE(LeaseOwner, '') <> %(seized)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)

GIVE_SCHEDULER_LEASES_BACK = Statement(
    name="GIVE_SCHEDULER_LEASES_BACK",
    text="""
    UPDATE _System_ConnectorSchedulerLease
       SET LeaseOwner = NULL, LeaseToken = NULL, LeaseUntil = NULL, UpdatedAt = UTC_TIMESTAMP(6)
     WHERE PackInstallId = %(pack_install_id)s AND LeaseOwner = %(seized)s
    """,
    returns=Returns.COUNT,
    locks=(LockRank.LEAF,),
)
