"""What racing processes run: the Event executor's claim, and a worker's, with the guards of one taken away or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from batteries.unguarded import changed
from integration.legacy import claim as event_claims
from integration.legacy import lease as leases
from integration.legacy import process as event_processes
from integration.legacy.claim import EventClaim, claim_event
from integration.legacy.executor import Executor, Options
from integration.legacy.lease import acquire
from integration.legacy.process import register_executor
from integration.storage.sql import legacy, scheduler_leases
from integration.storage.statements import Statement
from integration.work import claim as claims
from integration.work.claim import claim
from integration.work.items import candidate_from_row
from integration.work.process import register_process
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import due_rows

_EVENTS = "_System_ConnectorEvent"


def claim_each(role: str, pack_id: str, *, guarded: bool = True) -> list[str]:
    """Try to claim each Event of a pack, or each WorkItem of it, in the order of the lanes; return the Events won."""
    return _events(pack_id, guarded=guarded) if role == "event" else _items(pack_id)


def _events(pack_id: str, *, guarded: bool) -> list[str]:
    # The pack has a forward receipt, which this executor would refuse: the swap alone must keep the two apart.
    event_processes.refuse_forward = lambda receipt, pack_install_id: None
    event_processes._find_fence = lambda tx, receipt_id, build_version: "of no rollback"
    if not guarded:
        legacy.CLAIM_EVENT = _unguarded(legacy.CLAIM_EVENT)
        event_claims.decide_hold = lambda mirrors, **fence: None
    process = register_executor(pack_id, build_version="tests")
    lease = acquire(pack_id, owner=process.process_id)
    assert lease is not None
    won = []
    for row in _rows(pack_id):
        claimed = claim_event(row["EventId"], process, lease)
        if isinstance(claimed, EventClaim):
            won.append(claimed.event_id)
    return won


def _items(pack_id: str) -> list[str]:
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    won = []
    for row in _rows(pack_id):
        item = candidate_from_row(row)
        fence = process.fence_for(item.pack_install_id)
        assert fence is not None
        won += [taken.item.event_id for taken in claim((item,), fence).claims]
    return won


def _rows(pack_id: str) -> list[dict[str, Any]]:
    rows = due_rows(1000)
    return sorted((row for row in rows if row["PackInstallId"] == pack_id), key=lambda row: row["EventId"])


def _unguarded(statement: Statement) -> Statement:
    """Take everything that the Event must still be out of the claim."""
    return replace(statement, text=statement.text.split("AND ExecutionOwner")[0])  # type: ignore[arg-type]


def execute(pack_id: str) -> dict[str, Any]:
    """Run an executor until idle; return what it stored."""
    report = Executor(Options(pack_install_id=pack_id, until_idle=True, poll_seconds=0.01)).run()
    return {"ended": dict(report.ended), "held_back": dict(report.held_back)}


def take_leases(pack_id: str, count: int) -> list[int]:
    """Take and give back a pack's scheduler lease; return the epochs under which it was held."""
    epochs: list[int] = []
    while len(epochs) < count:
        lease = acquire(pack_id, owner="tests")
        if lease is not None:
            epochs.append(lease.epoch)
            assert lease.release()
    return epochs


def take_one(folder: str, pack_id: str, *, is_first: bool, guarded: bool = True) -> int | None:
    """Take the lease once and give it back, between the other's look and its swap; return the epoch that was held."""
    looked, done = Path(folder) / "looked", Path(folder) / "done"
    if is_first:
        await_file(looked)
    else:
        if not guarded:
            text = scheduler_leases.ACQUIRE_SCHEDULER_LEASE.text.replace("AND OwnershipEpoch = %(epoch)s", "")
            scheduler_leases.ACQUIRE_SCHEDULER_LEASE = changed(scheduler_leases.ACQUIRE_SCHEDULER_LEASE, text)
        make_token = leases.secrets.token_urlsafe
        leases.secrets.token_urlsafe = lambda size: (looked.touch(), await_file(done), make_token(size))[2]
    lease = acquire(pack_id, owner="tests")
    if is_first:
        assert lease is not None
        assert lease.release()
        done.touch()
    return None if lease is None else lease.epoch


def meet(role: str, pack_id: str, folder: str, *, is_first: bool, guarded: bool = True) -> list[str]:
    """Claim while the other waits: who is first holds the Event's row until the other is seen to wait for it."""
    place = Path(folder)
    if is_first:
        event_claims.failpoint = lambda name: (
            hold_until_waited_for(place, _EVENTS) if name == "legacy_claim.before_swap" else None
        )
        insert = claims._insert_attempts
        claims._insert_attempts = lambda tx, wanted: (hold_until_waited_for(place, _EVENTS), insert(tx, wanted))
    else:
        await_lock(place)
    return claim_each(role, pack_id, guarded=guarded)
