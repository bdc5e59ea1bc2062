"""Keeping the leases of a worker process, and hearing that an operator wants a flow to stop.

It is a loop of its own: whatever else the process waits for in the database, a lease is renewed in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final

from integration.storage import db
from integration.work import claim as claims
from integration.work import metrics
from integration.work.families import Family, tables_of
from integration.work.inflight import InFlight
from integration.work.outage import OUTAGE, Backoff

_LOOK_SECONDS: Final = 0.5


class Renewer:
    """Renews what the process holds after a third of its lease."""

    def __init__(self, live: InFlight, *, lease_seconds: int, ended: threading.Event) -> None:
        """Prepare; `run` renews until `ended` is set.

        Args:
            live: The process's live claims.
            lease_seconds: How long a lease runs from its claim or its last renewal.
            ended: Set when nothing is held any more.
        """
        self._live = live
        self._lease_seconds = lease_seconds
        self._ended = ended

    def run(self, families: Iterable[Family]) -> None:
        """Renew the leases of these families' work, and note which of it was cancelled."""
        tables = tables_of(families)
        backoff = Backoff("renewer", self._ended.wait)
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self._renew(time.monotonic())
                self._look_for_cancellations(tables)
                backoff.over()
            except OUTAGE as error:
                backoff.met(error)

    def _renew(self, now: float) -> None:
        for claim in self._live.due_for_renewal(self._lease_seconds / 3):
            if claims.renew(claim):
                metrics.RENEWALS.labels("renewed").inc()
                self._live.renewed(claim, now)
            else:
                # It has just ended, or it was reaped: the flow's own end will be refused.
                metrics.RENEWALS.labels("stale").inc()

    def _look_for_cancellations(self, tables: Iterable[Family]) -> None:
        """Ask about the flows that run long enough to be told."""
        work_ids = tuple(sorted(self._live.held_for(_LOOK_SECONDS)))
        if not work_ids:
            return
        for family in tables:
            rows = db.read().fetch_all(family.statements.list_cancel_requested, {"work_ids": work_ids})
            self._live.note_cancelled(row["WorkId"] for row in rows)
