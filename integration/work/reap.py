"""Taking back what a lost claimant holds: an expired lease permits it, token and epoch decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from integration.projection.handoff import end_generation
from integration.states import FailureClass
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.work import metrics
from integration.work.families import CONNECTOR, Family, tables_of
from integration.work.finish import SUMMARIES
from integration.work.process import ClaimFenced, Fence, WorkerProcess, lock_fence

#: Database servers' clocks may differ by this much.
SLACK_SECONDS: Final = 5
BATCH: Final = 100
#: An IN list must not be empty; no pack has this form.
_NOTHING: Final = ("-",)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What one round took back.

    Attributes:
        retried: Items that will be claimed again.
        buried: Items whose attempts were used up.
    """

    retried: int = 0
    buried: int = 0

    def __add__(self, other: Reaped) -> Reaped:
        """Add the counts of another table."""
        return Reaped(retried=self.retried + other.retried, buried=self.buried + other.buried)

    @property
    def total(self) -> int:
        """All of them."""
        return self.retried + self.buried


def reap_expired(
    process: WorkerProcess,
    *,
    families: Iterable[Family] = (CONNECTOR,),
    slack_seconds: int = SLACK_SECONDS,
    limit: int = BATCH,
) -> Reaped:
    """Take back the items whose lease expired, each in its own transaction.

    Args:
        process: Who reaps; it needs a live fence for each pack, as for a claim.
        families: Whose tables are looked at.
        slack_seconds: How far past its end a lease must be.
        limit: How many at most, in each table.

    Returns:
        What was taken back.

    Locks: PROCESS, WORK_ITEM.
    Rule: K-04.
    """
    total = Reaped()
    for family in tables_of(families):
        total += _reap_table(process, family, slack_seconds=slack_seconds, limit=limit)
    return total


def _reap_table(process: WorkerProcess, family: Family, *, slack_seconds: int, limit: int) -> Reaped:
    closed = set(process.closed_pack_ids())
    total = Reaped()
    while True:
        known = len(closed)
        params = {"slack_seconds": slack_seconds, "limit": limit, "closed_packs": closed or _NOTHING}
        rows = db.read().fetch_all(family.statements.list_expired_leases, params)
        total += _reap_rows(rows, process, family, slack_seconds=slack_seconds, closed=closed)
        # What was found to be closed only now may have filled the batch; each further one leaves out another pack.
        if len(rows) < limit or len(closed) == known or total.total >= limit:
            return total


def _reap_rows(
    rows: Iterable[Row], process: WorkerProcess, family: Family, *, slack_seconds: int, closed: set[str]
) -> Reaped:
    retried = buried = 0
    for row in rows:
        fence = None if row["PackInstallId"] in closed else process.fence_for(row["PackInstallId"])
        if fence is None:
            closed.add(row["PackInstallId"])
            continue
        exhausted = row["Attempt"] >= row["MaxAttempts"]
        try:
            taken = _reap(row, fence, family, slack_seconds=slack_seconds, exhausted=exhausted)
        except ClaimFenced:
            process.drop_fence(fence)
            closed.add(row["PackInstallId"])
            continue
        if not taken:
            continue
        transition = "reap_exhausted" if exhausted else "reap"
        metrics.REAPED.labels(transition).inc()
        log.warning("work.reaped", work_id=row["WorkId"], transition=transition, attempt=row["Attempt"])
        if exhausted:
            buried += 1
        else:
            retried += 1
    return Reaped(retried=retried, buried=buried)


def _reap(row: Row, fence: Fence, family: Family, *, slack_seconds: int, exhausted: bool) -> bool:
    statement = family.statements.reap_exhausted if exhausted else family.statements.reap
    params = {
        "work_id": row["WorkId"],
        "lease_token": row["LeaseToken"],
        "epoch": row["OwnershipEpoch"],
        "slack_seconds": slack_seconds,
        "failure_summary": SUMMARIES[FailureClass.LEASE_LOST],
    }

    def unit(tx: Tx) -> bool:
        lock_fence(tx, fence)
        # Only the end of a generation hands its key on: one that will be claimed again keeps it.
        key = row["ProjectionKey"] if exhausted else None
        return end_generation(tx, statement, params, projection_key=key)

    # An unanswered commit needs no settling: whoever reads the row next sees what it is.
    return db.run(unit, name="work.reap")
