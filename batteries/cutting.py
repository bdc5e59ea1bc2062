"""A pack's work that changes hands, for batteries: what is put in, each step on the way, what must have come out."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import batteries.flows  # noqa: F401 - registers the flows of the batteries
from batteries import kernel
from integration.audit.reads import verify_chain
from integration.cutover import receipts
from integration.cutover.inbound import forward as steps
from integration.cutover.inbound import projector, rollback, service
from integration.cutover.inbound.forward import Order
from integration.cutover.inbound.rollback_steps import Request
from integration.cutover.inbound.verify import verify
from integration.cutover.projection import service as projections
from integration.cutover.projection.patience import Patience
from integration.storage import db
from integration.values import new_id
from integration.work import finish
from tests.concurrency.cutover.drill import RECONCILED
from tests.support import inbound
from tests.support.bridge import BridgedPack
from tests.support.legacy import LegacyPack
from tests.support.rollback import BUILD, outcome_rows, receipts_of
from tests.support.work import Pack, change, query

FLOW = "batteries.end"
#: How an item ends, executed by a worker, by the executor as its mirror, or by the executor under a rollback.
ENDED = frozenset({"succeeded", RECONCILED})
_PATIENCE_SECONDS = 60.0


def payload_of(record: Path) -> dict[str, Any]:
    """Return a payload whose flow notes its run in a file, and ends well."""
    return {"file": str(record), "plan": ["complete"]}


def old_pack(record: Path) -> LegacyPack:
    """Make a pack of the Event executor: Events with a WorkItem and without, and one that a lost executor claimed."""
    pack = LegacyPack(flow=FLOW)
    pack.route()
    mirrored, lost, *_ = pack.events(4, payload=payload_of(record))
    pack.mirror(mirrored)
    pack.claim(lost)
    expire()
    return pack


def moved_pack(record: Path) -> BridgedPack:
    """Make a pack whose work is the WorkItems': items that were never claimed, one of them given back unexecuted."""
    pack = BridgedPack(flow=FLOW)
    pack.admit(4, payload=payload_of(record))
    # The process is evicted by whatever comes; it has not said that it stopped.
    (claimed,) = kernel.claim_all(kernel.register(), 1)
    assert finish.release(claimed)
    return pack


def rolled_back_pack(record: Path) -> BridgedPack:
    """Make a pack whose Events wait for the executor under a rollback's receipt."""
    pack = moved_pack(record)
    back(pack.pack_id)
    return pack


def expire() -> None:
    """Let every lease and claim of an Event executor be over, and every failed Event be due."""
    over = "UTC_TIMESTAMP(6) - INTERVAL 60 SECOND"
    change(f"UPDATE _System_ConnectorSchedulerLease SET LeaseUntil = {over} WHERE LeaseUntil IS NOT NULL")
    change(f"UPDATE _System_ConnectorEvent SET ClaimedUntil = {over} WHERE ClaimedUntil IS NOT NULL")
    change("UPDATE _System_ConnectorEvent SET NextRetryAt = NULL WHERE NextRetryAt IS NOT NULL")


# The steps


def forward(pack_id: str) -> dict[str, Any]:
    """Hand a pack's work to WorkItems."""
    done = service.move_forward(
        pack_id,
        actor=inbound.OWNER,
        reason=inbound.REASON,
        attestation=inbound.ATTESTED,
        timeout_seconds=_PATIENCE_SECONDS,
    )
    return {"receipt": done.receipt_id, "is_new": done.is_new}


def stop_claims(pack_id: str) -> None:
    """Do the first step of a forward cutover alone."""
    order = Order(
        pack_install_id=pack_id,
        actor=inbound.OWNER,
        reason=inbound.REASON,
        attestation=inbound.ATTESTED,
        receipt_id=new_id(),
    )
    assert steps.stop_claims(order)


def abandon_forward(pack_id: str) -> None:
    """Give a forward cutover up that has no receipt."""
    service.abandon(pack_id, actor=inbound.OWNER, reason="Later")


def back(pack_id: str, *, chunk: int = 3) -> dict[str, Any]:
    """Give it back to the Event executor."""
    done = rollback.roll_back(
        pack_id,
        actor=inbound.OWNER,
        reason="The new build loses deals",
        attestation="none runs",
        approved_builds=[BUILD],
        chunk=chunk,
    )
    return {"receipt": done.receipt_id, "is_new": done.is_new}


def rollback_request(pack: Pack) -> Request:
    """Return what a rollback asks for that takes two transactions."""
    return Request(
        pack_install_id=pack.pack_id,
        namespace=pack.namespace,
        actor=inbound.OWNER,
        reason="The new build loses deals",
        attestation="none runs",
        approved_builds=(BUILD,),
        chunk=3,
        receipt_id=new_id(),
    )


def abandon_rollback(pack_id: str) -> None:
    """Give a rollback up."""
    rollback.abandon(pack_id, actor=inbound.OWNER, reason="Later")


def reconcile(pack_id: str) -> bool:
    """Carry over what the executor did; return whether the rollback is closed."""
    projector.reconcile(pack_id, actor=inbound.OWNER)
    return not query("SELECT 1 FROM _System_ConnectorRollbackFence WHERE State IN ('open', 'sealed')")


def execute(pack: LegacyPack | BridgedPack) -> None:
    """Run an Event executor until nothing is due."""
    executor = pack.executor()
    while executor.round():
        pass
    executor._say_stopped()


def work() -> None:
    """Run a worker until nothing is left."""
    kernel.work_until_idle(roles=["claim"], concurrency=1)


def cut_projections_over(pack_id: str) -> dict[str, Any]:
    """Write where a pack's old projection protocol ended."""
    patience = Patience(timeout=timedelta(seconds=_PATIENCE_SECONDS))
    done = projections.cut_over(pack_id, actor=inbound.OWNER, patience=patience)
    return {"cutoff": done.legacy_max_ordinal, "is_new": done.is_new}


# What must have come out


def directions(pack_id: str) -> list[str]:
    """Return the directions of a pack's receipts, oldest first."""
    return [row["Direction"] for row in receipts_of(pack_id)]


def audited(action: str) -> int:
    """Return how often the trail says that something was done."""
    (row,) = query("SELECT COUNT(*) AS n FROM console_auditentry WHERE action = %s AND outcome = 'done'", action)
    return int(row["n"])


def wrong_receipts(pack_id: str, expected: list[str]) -> list[str]:
    """Return what is wrong with a pack's receipts, by themselves and against today's rows."""
    found = directions(pack_id)
    wrong = [] if found == expected else [f"receipts {found}"]
    if not found:
        return wrong
    wrong += [str(fault) for fault in receipts.find_faults(receipts.list_receipts(db.read(), pack_id))]
    return wrong + [one.name for one in verify(pack_id).agreements if not one.agrees]


def wrong_runs(pack: Pack, record: Path) -> list[str]:
    """Return the Events that were not executed just once, by whomever, and those that have not ended."""
    ran = Counter(work_id for work_id, _ in kernel.runs(record))
    rows = query(
        "SELECT e.EventId, e.Status, w.WorkId, w.State FROM _System_ConnectorEvent e"
        " LEFT JOIN _System_ConnectorWorkItem w ON w.EventId = e.EventId WHERE e.PackInstallId = %s",
        pack.pack_id,
    )
    wrong = []
    for row in rows:
        times = ran.pop(row["WorkId"] or row["EventId"], 0)
        is_ended = row["State"] in ENDED or (row["WorkId"] is None and row["Status"] == "processed")
        if not is_ended or times != 1:
            wrong.append(f"{row['EventId']} {row['Status']}, {row['State']}, ran {times} times")
    wrong += [f"{work_id} ran as well" for work_id in ran]
    names = Counter(row["EventId"] for row in rows)
    return wrong + [f"{event_id} has {count} WorkItems" for event_id, count in names.items() if count > 1]


def wrong_outcomes(pack: Pack) -> list[str]:
    """Return the reconciled items without the one receipt of their end."""
    items = query("SELECT EventId FROM _System_ConnectorWorkItem WHERE State = %s", RECONCILED)
    found = Counter(row["EventId"] for row in outcome_rows() if row["ConflictDigest"] is None)
    return [row["EventId"] for row in items if found[row["EventId"]] != 1]


def wrong_trail() -> list[str]:
    """Return what is wrong with the audit trail."""
    return [str(one) for one in verify_chain().breaks]
