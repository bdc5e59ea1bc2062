"""What the processes of an inbound cutover's races run; a process takes guards away from itself alone."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction

from integration.cutover.inbound import forward, reads
from integration.cutover.inbound.service import CutoverRefused
from integration.legacy import claim as event_claims
from integration.legacy.claim import EventClaim, claim_event
from integration.legacy.lease import LeaseLost, acquire
from integration.legacy.process import register_executor
from integration.storage.locks import lock_process
from integration.storage.sql import scheduler_leases
from integration.values import new_id
from integration.work import claim as claims
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim
from integration.work.flows import discover_flows
from integration.work.process import ClaimFenced, register_process
from tests.concurrency.cutover import fence_racers
from tests.concurrency.cutover.projection_racers import without_locks
from tests.support import inbound
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import Pack, insert, query


def _pack(pack_id: str) -> Pack:
    """Return a pack that is there already, by its id alone."""
    pack = Pack.__new__(Pack)
    pack.pack_id = pack_id
    return pack


def forward_at_once(pack_id: str) -> dict[str, Any]:
    """Hand the work over; return what was written."""
    done = inbound.forward(_pack(pack_id), timeout_seconds=120.0)
    return {"receipt_id": done.receipt_id, "is_new": done.is_new, "materialized": done.materialized}


def _stop_here(folder: Path) -> None:
    """Stop as a process that the system has suspended, once, and say so first."""
    observed = folder / "observed"
    if not observed.exists():
        observed.write_text(str(os.getpid()), encoding="ascii")
        os.kill(os.getpid(), signal.SIGSTOP)


def claim_event_after_stop(pack_id: str, event_id: str, folder: str, *, guarded: bool = True) -> str:
    """Observe that the pack is the executor's, be stopped, and claim an Event of it when continued."""
    discover_flows()
    process = register_executor(pack_id, build_version="v1")
    lease = acquire(pack_id, owner=process.process_id)
    assert lease is not None
    if not guarded:
        event_claims.lock_executor = lambda tx, own: lock_process(tx, own.process_id)
        event_claims.leases.demand = lambda locked, own: None
        event_claims.legacy.CLAIM_EVENT = _bare(event_claims.legacy.CLAIM_EVENT)
    event_claims.failpoint = lambda name: _stop_here(Path(folder)) if name == "legacy_claim.before" else None
    try:
        return "claimed" if isinstance(claim_event(event_id, process, lease), EventClaim) else "lost"
    except ClaimFenced:
        return "fenced"
    except LeaseLost:
        return "lease_lost"


def _bare(statement: Any) -> Any:
    return replace(statement, text=statement.text.split("AND ExecutionOwner")[0])


def claim_item_after_stop(pack_id: str, folder: str, *, guarded: bool = True) -> str:
    """Observe the forward receipt, be stopped, and claim a WorkItem of the pack when continued."""
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    fence = process.fence_for(pack_id)
    assert fence is not None
    (item,) = CandidateQueue(process).take(1)
    if not guarded:
        claims.lock_fence = lambda tx, own: lock_process(tx, own.process_id)
    claims.failpoint = lambda name: _stop_here(Path(folder)) if name == "claim.before" else None
    return claim((item,), fence).lost or "claimed"


def claim_in_flight(pack_id: str, event_id: str, folder: str, *, until: str = "waited") -> str:
    """Claim an Event, and stay in the claim's transaction until the cutover waits for it, or has gone past it."""
    place = Path(folder)
    discover_flows()
    process = register_executor(pack_id, build_version="v1")
    lease = acquire(pack_id, owner=process.process_id)
    assert lease is not None

    def stay(name: str) -> None:
        if name != "legacy_claim.before_commit":
            return
        if until == "waited":
            hold_until_waited_for(place, "_System_ConnectorClaimProcess")
        else:
            (place / "locked").touch()
            await_file(place / "written")

    event_claims.failpoint = stay
    return "claimed" if isinstance(claim_event(event_id, process, lease), EventClaim) else "lost"


def forward_around_claim(pack_id: str, folder: str, *, guarded: bool = True) -> dict[str, Any]:
    """Hand the work over while a claim is in flight; return whether a receipt was written, and what is executed then."""
    place = Path(folder)
    await_lock(place)
    if not guarded:
        # Rows that are not locked, and a lease that is not taken.
        forward.evict_claimers = lambda pack, **values: ()
        forward.scheduler_leases.SEIZE_SCHEDULER_LEASES = _of_nobody(scheduler_leases.SEIZE_SCHEDULER_LEASES)
        forward.scheduler_leases.GIVE_SCHEDULER_LEASES_BACK = _of_nobody(scheduler_leases.GIVE_SCHEDULER_LEASES_BACK)
        reads.is_stopped = lambda reader, pack_install_id: True
        reads.list_claimers = lambda reader, pack_install_id: ()
    refused: list[str] = []
    written = False
    try:
        written = inbound.forward(_pack(pack_id)).is_new
    except CutoverRefused as refusal:
        found = refusal.data_fields["obstacles"]
        assert isinstance(found, list)
        refused = [obstacle["code"] for obstacle in found]
    finally:
        with contextlib.suppress(OSError):
            (place / "written").touch()
    return {"written": written, "refused": refused}


def _of_nobody(statement: Any) -> Any:
    return replace(statement, text=f"{statement.text.rstrip()} AND 1 = 0")


def meet_an_admission(part: str, pack_id: str, folder: str, *, guarded: bool = True, ref: str = "") -> Any:
    """Play one of the two sides of a cutover that an old build's admission, or a replay, meets."""
    place = Path(folder)
    if part == "forward":
        return _forward_beside(_pack(pack_id), place, guarded=guarded)
    await_file(place / "stopped")
    if part == "replay":
        return fence_racers.replay(folder, "waited_for" if guarded else fence_racers.ARMED, ref)
    return _admit_as_an_old_build(_pack(pack_id), place, guarded=guarded)


def _admit_as_an_old_build(pack: Pack, place: Path, *, guarded: bool) -> str:
    """Admit an Event without a WorkItem; hold its transaction until the cutover waits for it, or has gone past it."""
    with transaction.atomic():
        query("SELECT 1 FROM _System_ConnectorPackInstall WHERE PackInstallId = %s FOR UPDATE", pack.pack_id)
        (known,) = query("SELECT * FROM _System_ConnectorEvent WHERE PackInstallId = %s", pack.pack_id)
        row = {**known, "EventId": new_id(), "IdempotencyKey": new_id(), "ReceiptId": new_id(), "LaneOrdinal": 2}
        insert("_System_ConnectorEvent", [row])
        if guarded:
            hold_until_waited_for(place, "_System_ConnectorPackInstall")
        else:
            (place / "locked").touch()
            await_file(place / fence_racers.ARMED)
    return str(row["EventId"])


def _forward_beside(pack: Pack, place: Path, *, guarded: bool) -> bool:
    """Hand the work over, with something under way once claims are stopped; return whether a receipt was written."""

    def failpoint(name: str) -> None:
        if name == "inbound_forward.stopped" and not (place / "stopped").exists():
            (place / "stopped").touch()
            await_lock(place)

    forward.failpoint = failpoint
    if not guarded:
        write_receipt = forward.write_receipt

        def write_without_locks(*args: Any) -> Any:
            without_locks(forward)
            return write_receipt(*args)

        forward.write_receipt = write_without_locks
    done = inbound.forward(pack, timeout_seconds=120.0)
    (place / fence_racers.ARMED).touch()
    return done.is_new
