"""Statements on `_System_ConnectorClaimProcess`, rank 15."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_PROCESS = Statement(
    name="LOCK_PROCESS",
    text="""
    SELECT ProcessId, Kind, PackInstallId, ObservedReceiptId, BridgeCompatible, StoppedAt, EvictedAt
      FROM _System_ConnectorClaimProcess
     WHERE ProcessId = %(process_id)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.PROCESS,),
)

# A new row is seen by no one; the one that fences a pack is inserted under that pack's lock.
INSERT_PROCESS = Statement(
    name="INSERT_PROCESS",
    text="""
    INSERT INTO _System_ConnectorClaimProcess
           (ProcessId, Kind, BuildVersion, Host, PackInstallId, ObservedReceiptId, BridgeCompatible, StartedAt,
            HeartbeatAt, Roles, Concurrency)
    VALUES (%(process_id)s, 'work_item', %(build_version)s, %(host)s, %(pack_install_id)s, %(observed_receipt_id)s, 0,
            UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), %(roles)s, %(concurrency)s)
    """,
    returns=Returns.COUNT,
)

RECORD_HEARTBEATS = Statement(
    name="RECORD_HEARTBEATS",
    text="""
    UPDATE _System_ConnectorClaimProcess
       SET HeartbeatAt = UTC_TIMESTAMP(6), InFlight = %(in_flight)s
     WHERE ProcessId IN %(process_ids)s AND StoppedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.PROCESS,),
)

MARK_PROCESSES_DRAINING = Statement(
    name="MARK_PROCESSES_DRAINING",
    text="""
    UPDATE _System_ConnectorClaimProcess
       SET DrainStartedAt = UTC_TIMESTAMP(6)
     WHERE ProcessId IN %(process_ids)s AND StoppedAt IS NULL AND DrainStartedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.PROCESS,),
)

MARK_PROCESSES_STOPPED = Statement(
    name="MARK_PROCESSES_STOPPED",
    text="""
    UPDATE _System_ConnectorClaimProcess
       SET StoppedAt = UTC_TIMESTAMP(6), HeartbeatAt = UTC_TIMESTAMP(6), InFlight = 0
     WHERE ProcessId IN %(process_ids)s AND StoppedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.PROCESS,),
)

FIND_PROCESS = Statement(
    name="FIND_PROCESS",
    text="SELECT ProcessId, EvictedAt FROM _System_ConnectorClaimProcess WHERE ProcessId = %(process_id)s",
    returns=Returns.ROW,
)

# Under the pack's lock nobody registers for the pack. Read whole, once a cutover: a proof names those that ended, too.
LIST_CLAIMERS_OF_PACK = Statement(
    name="LIST_CLAIMERS_OF_PACK",
    text="""
    SELECT ProcessId, Kind, BuildVersion, ObservedReceiptId, StartedAt, StoppedAt, EvictedAt, EvictedBy
      FROM _System_ConnectorClaimProcess
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY ProcessId
    """,
    returns=Returns.ROWS,
)

# Waits for the claims in flight: each holds its own process's row.
LOCK_PROCESSES = Statement(
    name="LOCK_PROCESSES",
    text="""
    SELECT ProcessId, Kind, BuildVersion, PackInstallId, ObservedReceiptId, StartedAt, StoppedAt, EvictedAt, EvictedBy
      FROM _System_ConnectorClaimProcess
     WHERE ProcessId IN %(process_ids)s
     ORDER BY ProcessId
       FOR UPDATE
    """,
    returns=Returns.ROWS,
    locks=(LockRank.PROCESS,),
)

EVICT_PROCESSES = Statement(
    name="EVICT_PROCESSES",
    text="""
    UPDATE _System_ConnectorClaimProcess
       SET EvictedAt = UTC_TIMESTAMP(6), EvictedBy = %(evicted_by)s
     WHERE ProcessId IN %(process_ids)s AND StoppedAt IS NULL AND EvictedAt IS NULL
    """,
    returns=Returns.COUNT,
    holds=LockRank.PROCESS,
)

# Only to spread candidates over the live claimers; it decides nothing. Roles name the families that a claimer serves.
LIST_LIVE_CLAIMERS = Statement(
    name="LIST_LIVE_CLAIMERS",
    text="""
    SELECT ProcessId, Roles
      FROM _System_ConnectorClaimProcess FORCE INDEX (IX_ClaimProcess_Running)
     WHERE StoppedAt IS NULL AND HeartbeatAt >= UTC_TIMESTAMP(6) - INTERVAL 30 SECOND AND Kind = 'work_item'
       AND PackInstallId IS NULL AND EvictedAt IS NULL AND DrainStartedAt IS NULL AND Roles LIKE '%%claim%%'
     ORDER BY ProcessId
     LIMIT 256
    """,
    returns=Returns.ROWS,
)
