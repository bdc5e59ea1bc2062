"""The Event executor of one pack: one Event at a time, under the pack's scheduler lease.

A keeper thread renews the lease and the claim that is executed, and tells that the process lives. Everything that is
stored is stored by row swaps that name a token: a lease that is lost stops the executor from claiming, never from
leaving its one claim to whoever takes it back.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from integration.legacy import execute, finish
from integration.legacy.claim import EventClaim, claim_event, reclaim_expired
from integration.legacy.lease import LEASE_SECONDS, SLACK_SECONDS, LeaseLost, SchedulerLease, acquire
from integration.legacy.policy import HeldBack
from integration.legacy.process import EventProcess, register_executor
from integration.states import EventStatus
from integration.storage import db
from integration.storage.db import Row
from integration.storage.sql import legacy, processes, routes
from integration.work.flows import discover_flows
from integration.work.outage import OUTAGE, Backoff, patiently
from integration.work.process import ClaimFenced

PAGE: Final = 200
_DUE: Final = (EventStatus.FAILED, EventStatus.PENDING)
_BEAT_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 0.5
_KEEPER_SECONDS: Final = 0.25
_START_PATIENCE_SECONDS: Final = 300.0
_STOP_PATIENCE_SECONDS: Final = 5.0
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How an executor runs.

    Attributes:
        pack_install_id: The one pack whose Events it executes.
        lease_seconds: How long the scheduler lease and a claim run; they are renewed after a third of it.
        slack_seconds: How far past its end another's lease or claim must be before it is taken.
        poll_seconds: How soon an idle executor looks again at first; it then looks less often.
        until_idle: Stop by itself when nothing is due, runs or will be due.
        build_version: Which build this is.
    """

    pack_install_id: str
    lease_seconds: int = LEASE_SECONDS
    slack_seconds: int = SLACK_SECONDS
    poll_seconds: float = 0.05
    until_idle: bool = False
    build_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an executor did before it stopped.

    Attributes:
        ended: How many executions it stored, by the Event's status; a failed one is tried again.
        reclaimed: How many Events it took back from a lost executor.
        held_back: Which Events were due and held back in its last round, counted by reason.
    """

    ended: Mapping[str, int] = field(default_factory=dict)
    reclaimed: int = 0
    held_back: Mapping[str, int] = field(default_factory=dict)


class Executor:
    """One executor of one pack's Events."""

    def __init__(self, options: Options) -> None:
        """Prepare; `run` starts."""
        self._options = options
        self._process: EventProcess
        self._lease: SchedulerLease | None = None
        self._claim: EventClaim | None = None
        self._kinds: tuple[str, ...] = ()
        self._ended: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._reclaimed = 0
        self._stop_asked = False
        self._over = threading.Event()

    def stop(self) -> None:
        """Ask it to stop after the Event that it executes. Safe in a signal handler."""
        self._stop_asked = True

    def run(self) -> Report:
        """Run until stopped, or until idle if the options say so.

        Returns:
            What was done.

        Raises:
            PackNotFound: There is no such incarnation.
            ClaimFenced: The pack has moved to WorkItems, or a cutover evicted this process.
        """
        self.start()
        keeper = threading.Thread(target=self._keep, name="legacy-keeper", daemon=True)
        keeper.start()
        try:
            self._loop()
        finally:
            self._over.set()
            keeper.join(timeout=_STOP_PATIENCE_SECONDS)
            self._say_stopped()
        return self.report()

    def start(self) -> None:
        """Register the process; refuse a pack that it may not execute.

        Raises:
            PackNotFound: There is no such incarnation.
            ClaimFenced: The pack has moved to WorkItems.
        """
        discover_flows()
        options = self._options
        self._process = patiently(
            lambda: register_executor(options.pack_install_id, build_version=options.build_version),
            role="legacy",
            seconds=_START_PATIENCE_SECONDS,
            wait=self._wait,
            is_over=lambda: self._stop_asked,
        )
        rows = db.read().fetch_all(routes.LIST_ROUTES_OF_PACKS, {"pack_install_ids": (self._options.pack_install_id,)})
        self._kinds = tuple(sorted({row["EventKind"] for row in rows}))
        log.info("legacy.started", process_id=self._process.process_id, pack_install_id=options.pack_install_id)

    def report(self) -> Report:
        """Return what was done so far."""
        return Report(ended=dict(self._ended), reclaimed=self._reclaimed, held_back=dict(self._held))

    def _loop(self) -> None:
        backoff = Backoff("legacy", self._wait)
        idle = self._options.poll_seconds
        while not self._stop_asked:
            try:
                # Looked at before the round: what becomes due during it is met by the next one.
                waits = not self._options.until_idle or self._has_to_wait()
                worked = self.round()
                backoff.over()
                if not worked and not waits:
                    return
            except LeaseLost:
                log.warning("legacy.lease_lost", pack_install_id=self._options.pack_install_id)
                self._lease = None
                continue
            except OUTAGE as error:
                backoff.met(error)
                continue
            if worked:
                idle = self._options.poll_seconds
            else:
                self._wait(idle)
                idle = min(idle * 2, max(_IDLE_SECONDS, self._options.poll_seconds))

    def round(self) -> bool:
        """Take back what is lost, then try every Event that is due, once.

        Returns:
            Whether anything was executed or taken back; False also without the scheduler lease.

        Raises:
            ClaimFenced: This process may not claim any more.
            LeaseLost: The scheduler lease is another's.
        """
        options = self._options
        self._refuse_evicted()
        if self._lease is None:
            self._lease = acquire(
                options.pack_install_id,
                owner=self._process.process_id,
                lease_seconds=options.lease_seconds,
                slack_seconds=options.slack_seconds,
            )
        lease = self._lease
        if lease is None:
            return False
        self._held.clear()
        taken = reclaim_expired(self._process, lease, slack_seconds=options.slack_seconds)
        self._reclaimed += taken
        executed = 0
        for row in self._due():
            if self._stop_asked:
                break
            executed += self._execute(row, lease)
        return bool(taken or executed)

    def _refuse_evicted(self) -> None:
        """End before a round that could only stand by: whoever evicted this process waits to see it end."""
        row = db.read().fetch_one(processes.FIND_PROCESS, {"process_id": self._process.process_id})
        if row is None or row["EvictedAt"] is not None:
            raise ClaimFenced(process_id=self._process.process_id)

    def _due(self) -> Iterator[Row]:
        """Yield what is due, page by page, the pages in order of the lanes."""
        after = dict.fromkeys(_DUE, "")
        while after:
            page: list[Row] = []
            for status in list(after):
                found = db.read().fetch_all(
                    legacy.LIST_DUE_EVENTS,
                    {
                        "pack_install_id": self._options.pack_install_id,
                        "status": status.value,
                        "after": after[status],
                        "limit": PAGE,
                    },
                )
                page += found
                if len(found) < PAGE:
                    del after[status]
                else:
                    after[status] = found[-1]["EventId"]
            yield from sorted(page, key=lambda row: row["LaneOrdinal"] or 0)

    def _execute(self, row: Row, lease: SchedulerLease) -> int:
        if row["SourceLane"] is not None and self._has_earlier(row):
            self._held[HeldBack.LANE] += 1
            return 0
        claimed = claim_event(row["EventId"], self._process, lease)
        if isinstance(claimed, HeldBack):
            log.info("legacy.held_back", event_id=row["EventId"], reason=claimed)
            self._held[claimed] += 1
            return 0
        if claimed is None:
            return 0
        self._claim = claimed
        try:
            status = finish.store(claimed, execute.run(claimed))
        finally:
            self._claim = None
        if status is not None:
            self._ended[status] += 1
        return 1

    def _has_earlier(self, row: Row) -> bool:
        params = {
            "namespace": row["Namespace"],
            "event_kinds": tuple(sorted({*self._kinds, row["EventKind"]})),
            "source_lane": row["SourceLane"],
            "pack_install_id": self._options.pack_install_id,
            "lane_ordinal": row["LaneOrdinal"],
        }
        return db.read().fetch_one(legacy.FIND_EARLIER_EVENT_IN_LANE, params) is not None

    def _has_to_wait(self) -> bool:
        """Return whether something runs or will be due; without the lease, whether anything at all is left."""
        statement = legacy.FIND_UNFINISHED_EVENT if self._lease is None else legacy.FIND_EVENT_TO_WAIT_FOR
        return db.read().fetch_one(statement, {"pack_install_id": self._options.pack_install_id}) is not None

    def _wait(self, seconds: float) -> None:
        # A signal handler sets no event: it may interrupt the very wait that holds the event's lock.
        deadline = time.monotonic() + seconds
        while not self._stop_asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _say_stopped(self) -> None:
        try:
            if self._lease is not None:
                patiently(self._lease.release, role="legacy", seconds=_STOP_PATIENCE_SECONDS)
            patiently(self._process.stop, role="legacy", seconds=_STOP_PATIENCE_SECONDS)
        except OUTAGE:
            log.warning("legacy.stop_not_recorded")

    # The keeper

    def _keep(self) -> None:
        backoff = Backoff("legacy_keeper", self._over.wait)
        every = self._options.lease_seconds / 3
        next_renewal = time.monotonic() + every
        next_beat = 0.0
        try:
            while not self._over.wait(min(_KEEPER_SECONDS, every / 2)):
                now = time.monotonic()
                try:
                    if now >= next_renewal:
                        self._renew()
                        next_renewal = now + every
                    if now >= next_beat:
                        self._process.beat()
                        next_beat = now + _BEAT_SECONDS
                    backoff.over()
                except OUTAGE as error:
                    backoff.met(error)
        finally:
            db.close_connections()

    def _renew(self) -> None:
        lease, claim = self._lease, self._claim
        if lease is not None and not lease.renew():
            # The next claim's own look at the lease stops it; an execution goes on, and its token decides.
            log.warning("legacy.lease_not_renewed", pack_install_id=self._options.pack_install_id)
        if claim is not None and not claim.renew():
            log.warning("legacy.claim_not_renewed", event_id=claim.event_id)
