"""The projector: what the Event executor's receipts say of its work is stored on the WorkItems that wait for it.

It is a part of the operator's command and no role of a worker: nothing waits for it but another forward cutover, which
the same operator runs, and a rolled-back pack has no worker. An executor that is killed right after an Event's end
leaves a receipt that any later run finds; run it as often as one likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from integration.audit.service import record
from integration.cutover.inbound.auditing import audited, fact_of
from integration.cutover.inbound.rollback_policy import Finding, RollbackCode, digest_set, refuse
from integration.cutover.inbound.rollback_steps import list_fenced
from integration.failpoints import failpoint
from integration.states import TERMINAL_EVENT_STATUSES, EventStatus, WorkItemState, stored
from integration.storage import db
from integration.storage.db import Reader, Row, Tx
from integration.storage.locks import lock_namespace, lock_pack
from integration.storage.sql import legacy_outcomes
from integration.storage.sql import rollback_fences as sql
from integration.values import Actor
from integration.work.legacy_outcomes import OUTCOMES, Doubt, find_doubt

#: How many receipts or items one transaction takes.
PAGE: Final = 200
_ACTION: Final = "inbound_cutover.reconciled"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a reconciliation came to.

    Attributes:
        pack_install_id: The incarnation.
        fence_id: The rollback's fence; None when no rollback of the pack is unreconciled.
        reconciled: How many items this run ended.
        lost: Of how many this run found that nothing can be proved.
        awaiting: How many items of the fence still wait for the Event executor.
        unknown: Of how many items of the fence nothing can be proved.
        is_closed: Every item is reconciled, and the fence is closed.
    """

    pack_install_id: str
    fence_id: str | None
    reconciled: int = 0
    lost: int = 0
    awaiting: int = 0
    unknown: int = 0
    is_closed: bool = False


def reconcile(pack_install_id: str, *, actor: Actor, using: str = "default") -> Reconciled:
    """Store on a rollback's WorkItems what the Event executor did, and close the fence when all of them are ended.

    The steps: each receipt that was not projected ends its item, or leaves it unknown when it does not prove an end;
    each item whose Event has ended without a receipt is unknown; the fence is closed when every item that it holds is
    reconciled and the items are those that its receipt binds.

    Args:
        pack_install_id: The incarnation.
        actor: Who asks, with the permissions of this moment.
        using: The database alias.

    Returns:
        What was done and what is left; all zero when there is nothing to reconcile.

    Raises:
        NotAllowed: The actor may not run cutovers.
        PackNotFound: There is no such incarnation.
        RollbackRefused: The rollback is not complete.
        Busy: A lock was not free in time; run it again.

    Locks: WORK_ITEM, LEAF; to close the fence NAMESPACE, PACK, LEAF.
    Rule: C-05, C-06, C-07.
    """
    return audited(
        _ACTION, pack_install_id, lambda pack: _reconcile(pack, actor, using), actor=actor, reason="", using=using
    )


def _reconcile(pack: Row, actor: Actor, using: str) -> Reconciled:
    pack_install_id = pack["PackInstallId"]
    fence = db.read(using).fetch_one(sql.FIND_UNCLOSED_FENCE, {"pack_install_id": pack_install_id})
    if fence is None:
        return Reconciled(pack_install_id=pack_install_id, fence_id=None)
    refuse(_find_open(fence))
    fence_id = fence["FenceId"]
    done: Counter[WorkItemState | None] = Counter()
    while moved := db.run(partial(_project, fence_id=fence_id), name="cutover.project_outcomes", using=using):
        done.update(moved)
        failpoint("projector.after_page")
    done.update(_find_missing(fence_id, using))
    failpoint("projector.before_close")
    is_closed = db.run(partial(_close, pack=pack, fence=fence, actor=actor), name="cutover.close_fence", using=using)
    left = Counter(row["State"] for row in list_fenced(db.read(using), fence_id))
    return Reconciled(
        pack_install_id=pack_install_id,
        fence_id=fence_id,
        reconciled=done[WorkItemState.RECONCILED_LEGACY_TERMINAL],
        lost=done[WorkItemState.LEGACY_OUTCOME_UNKNOWN],
        awaiting=left[WorkItemState.AWAITING_LEGACY_OUTCOME],
        unknown=left[WorkItemState.LEGACY_OUTCOME_UNKNOWN],
        is_closed=is_closed,
    )


def _find_open(fence: Row) -> Finding | None:
    if fence["State"] == sql.SEALED:
        return None
    return Finding(
        code=RollbackCode.NOT_SEALED,
        sentence="The rollback of this pack is not complete.",
        next_step="Run `inbound_cutover rollback` again, or abandon it.",
        facts={"rollback_fence_id": fence["FenceId"]},
    )


def _project(tx: Tx, *, fence_id: str) -> Counter[WorkItemState | None]:
    """Take the next receipts that were not projected; what they end is ended in one transaction with their mark."""
    receipts = tx.fetch_all(legacy_outcomes.LIST_UNPROJECTED_OUTCOMES, {"fence_id": fence_id, "limit": PAGE})
    # Rows are written by WorkId, then the receipts: two projectors meet in one order.
    moved: Counter[WorkItemState | None] = Counter(
        _end(tx, receipt, fence_id) for receipt in sorted(receipts, key=lambda receipt: receipt["WorkId"] or "")
    )
    failpoint("projector.after_items")
    for receipt in receipts:
        key = {"event_id": receipt["EventId"], "work_type": receipt["WorkType"]}
        tx.execute(legacy_outcomes.MARK_OUTCOME_PROJECTED, key)
    failpoint("projector.before_commit")
    return moved


def _end(tx: Tx, receipt: Row, fence_id: str) -> WorkItemState | None:
    """End the item that a receipt names; None when no item of this fence waits for it."""
    if receipt["RollbackExecutionFenceId"] != fence_id:
        return None
    by_id = {"work_id": receipt["WorkId"], "fence_id": fence_id}
    doubt = find_doubt(receipt, fence_id)
    if doubt is not None:
        return _lose(tx, by_id, doubt)
    params = {
        **by_id,
        "outcome": OUTCOMES[receipt["Outcome"]].value,
        "receipt_version": receipt["ReceiptVersion"],
        "digest": receipt["Digest"],
        "ended_at": receipt["WrittenAt"],
    }
    moved = tx.execute(legacy_outcomes.RECONCILE_WORK_ITEM, params)
    return WorkItemState.RECONCILED_LEGACY_TERMINAL if moved else None


def _lose(tx: Tx, by_id: dict[str, Any], doubt: Doubt) -> WorkItemState | None:
    if tx.execute(legacy_outcomes.LOSE_LEGACY_OUTCOME, by_id) != 1:
        return None
    log.error("rollback.outcome_unknown", work_id=by_id["work_id"], doubt=doubt)
    return WorkItemState.LEGACY_OUTCOME_UNKNOWN


def _find_missing(fence_id: str, using: str) -> Counter[WorkItemState | None]:
    """Take every item that waits for an Event that has ended, or is not there, without a receipt."""
    moved: Counter[WorkItemState | None] = Counter()
    after = ""
    while True:
        params = {"fence_id": fence_id, "after": after, "limit": PAGE}
        rows = db.read(using).fetch_all(legacy_outcomes.LIST_AWAITING_ITEMS, params)
        missing = [row for row in rows if row["HasReceipt"] == 0 and _has_ended(row["EventStatus"])]
        if missing:
            unit = partial(_lose_all, missing=missing, fence_id=fence_id)
            moved.update(db.run(unit, name="cutover.miss_outcomes", using=using))
        if len(rows) < PAGE:
            return moved
        after = rows[-1]["WorkId"]


def _lose_all(tx: Tx, *, missing: Sequence[Row], fence_id: str) -> Counter[WorkItemState | None]:
    return Counter(_lose(tx, {"work_id": row["WorkId"], "fence_id": fence_id}, Doubt.MISSING) for row in missing)


def _has_ended(status: str | None) -> bool:
    return status is None or stored(EventStatus, status) in TERMINAL_EVENT_STATUSES


def _close(tx: Tx, *, pack: Row, fence: Row, actor: Actor) -> bool:
    """Close a fence whose every item is reconciled, if they are the items that its receipt binds."""
    lock_namespace(tx, pack["Namespace"])
    locked = lock_pack(tx, pack["PackInstallId"])
    if not _is_reconciled(tx, fence):
        return False
    if tx.execute(sql.CLOSE_ROLLBACK_FENCE, {"fence_id": fence["FenceId"], "state": sql.SEALED}) != 1:
        # Another run was faster.
        return True
    told = {"rollback_fence_id": fence["FenceId"], "item_count": fence["ItemCount"]}
    record(locked, fact_of(_ACTION, pack, told, actor, ""))
    failpoint("projector.before_close_commit")
    return True


def _is_reconciled(reader: Reader, fence: Row) -> bool:
    if reader.fetch_one(legacy_outcomes.FIND_UNCONFIRMED_ITEM, {"fence_id": fence["FenceId"]}) is not None:
        return False
    held = digest_set(row["WorkId"] for row in list_fenced(reader, fence["FenceId"]))
    return held == (fence["ItemCount"], fence["SetDigest"])
