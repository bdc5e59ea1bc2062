"""Statements on `_System_ConnectorClaimProcess`, rank 15."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

LOCK_PROCESS = Statement(
    name="LOCK_PROCESS",
    text="""
    SELECT ProcessId, Kind, PackInstallId, ObservedReceiptId, StoppedAt, EvictedAt
      FROM _System_ConnectorClaimProcess
     WHERE ProcessId = %(process_id)s
       FOR UPDATE
    """,
    returns=Returns.ROW,
    locks=(LockRank.PROCESS,),
)
