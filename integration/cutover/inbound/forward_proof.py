"""What a forward receipt binds: what was read under the locks that keep it so until the receipt is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.cutover.inbound.claimers import Claimer
from integration.cutover.inbound.policy import Facts
from integration.cutover.inbound.reads import History, read_coverage
from integration.storage import probe
from integration.storage.locks import LockedPack
from integration.storage.sql import cutovers


def prove(pack: LockedPack, facts: Facts, claimers: Sequence[Claimer], history: History) -> dict[str, Any]:
    """Return what a forward receipt says of the pack: JSON values.

    Args:
        pack: The locked incarnation.
        facts: What was read under the locks, with nothing in the way.
        claimers: Every process that ever registered for the pack; each has ended, under its row's lock.
        history: What the tables hold in all, counted before the locks.

    Rule: C-01.
    """
    schema = probe.capabilities()
    return {
        "owner": "work_item",
        "namespace": pack.row["Namespace"],
        "pack": pack.row["PackName"],
        "pack_version": pack.row["PackVersion"],
        "incarnation": pack.row["Incarnation"],
        "catalog_digest": pack.row["CatalogDigest"],
        "counts": {
            "events_processing": facts.events_processing,
            "event_claims": facts.event_claims,
            # A claim in flight holds its process's row and reads the scheduler lease: the rows are locked, and the
            # leases are the cutover's.
            "claim_transactions": 0,
            "scheduler_leases": int(not facts.is_stopped),
            "claim_capable_processes": facts.executors + facts.workers,
            "work_items_processing": facts.work_items_processing,
            "outcomes_awaited": facts.outcomes_awaited,
            "outcomes_unknown": facts.outcomes_unknown,
            "outcomes_unconfirmed": facts.outcomes_unconfirmed,
        },
        "processes": [claimer.as_proof() for claimer in _named(pack, claimers)],
        "schema": {
            "engine": schema.server.engine,
            "version": ".".join(map(str, schema.server.version)),
            "vintage": schema.vintage,
            "is_complete": schema.is_complete,
        },
        "coverage": {
            **read_coverage(pack.tx, pack.pack_install_id),
            "without_work_item": facts.events_without_work,
            "ambiguous": facts.ambiguous_events,
        },
        "history": {"events": history.events, "work_items": history.work_items},
    }


def _named(pack: LockedPack, claimers: Sequence[Claimer]) -> list[Claimer]:
    """Return the processes that this receipt answers for: the receipt before has named those that ended under it."""
    newest = pack.tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack.pack_install_id})
    since = None if newest is None else newest["WrittenAt"]
    return [one for one in claimers if since is None or one.ended_at is None or one.ended_at > since]
