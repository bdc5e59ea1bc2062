"""The worker process: one claimer that hands items to flow threads, and the threads around it.

Slow flows are claimed one by one, as threads become free; fast ones many at a time, a little ahead of the threads.
What succeeded is stored by the finisher, many ends in one write when there are many. The renewer renews every lease
that the process holds, also of what waits for a thread; the keeper tells that the process lives and reaps what others
lost. They are two, so that a reap that waits for a row costs no lease.
A database that goes away stops nothing for longer than it is away.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from integration.errors import IntegrationError
from integration.ingress import service as ingress
from integration.ingress.backlog import HeldBacklog
from integration.projection.sweep import Sweeper
from integration.storage import db
from integration.storage.probe import capabilities
from integration.work import claim as claims
from integration.work import execute, finish, reap
from integration.work.blocking import Resolver
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim
from integration.work.families import Family, of_schema
from integration.work.finisher import Finished, Finisher
from integration.work.flows import discover_flows
from integration.work.inflight import InFlight
from integration.work.options import CLAIM, MATERIALIZE, REAP, RESOLVE, Loop, Options, Report
from integration.work.outage import OUTAGE, Backoff, patiently
from integration.work.pauses import Pauses
from integration.work.process import WorkerProcess, register_process
from integration.work.renewer import Renewer

_IDLE_SECONDS: Final = 0.5
_BEAT_SECONDS: Final = 5.0
#: A page of waiting generations is looked at so often.
_SWEEP_SECONDS: Final = 5.0
_KEEPER_SECONDS: Final = 0.5
_START_SECONDS: Final = 300.0
_STOP_PATIENCE_SECONDS: Final = 5.0
log = structlog.get_logger(__name__)


class Supervisor:
    """One worker process."""

    def __init__(self, options: Options, loops: Mapping[str, Loop] | None = None) -> None:
        """Prepare; `run` starts.

        Args:
            options: How it runs.
            loops: What the roles do that stand above this package, by role.
        """
        self._options = options
        offered = {RESOLVE: Resolver(), **(loops or {})}
        self._loops: dict[str, Loop] = {role: loop for role, loop in offered.items() if role in options.roles}
        self._process: WorkerProcess
        self._families: tuple[Family, ...] = options.families
        self._stop_asked = False
        self._hurry = False
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._handed: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._live = InFlight(options.concurrency)
        self._sweeper = Sweeper()
        self._finisher = Finisher(self._end)
        self._count_lock = threading.Lock()
        self._executed = 0
        self._materialized = 0
        self._ingress_idle = MATERIALIZE not in options.roles
        self._crash: BaseException | None = None

    def stop(self) -> None:
        """Ask it to drain; a second call stops waiting for the flows. Safe in a signal handler."""
        self._hurry = self._stop_asked
        self._stop_asked = True

    def run(self) -> Report:
        """Run until stopped.

        Returns:
            What was done.

        Raises:
            ProjectionsNotActivated: It would claim source projections that may not be executed yet; nothing started.
            InvariantBroken: The program is wrong; the worker stopped.
        """
        options = self._options
        discover_flows()
        for family in options.families:
            execute.check_runner(family)
        at_start = partial(patiently, role="register", seconds=_START_SECONDS, is_over=lambda: self._stop_asked)
        at_start(options.check_activation)
        self._families = at_start(lambda: tuple(of_schema(family, capabilities()) for family in options.families))
        self._process = at_start(
            lambda: register_process(
                roles=options.roles,
                concurrency=options.concurrency,
                build_version=options.build_version,
                families=[family.name for family in options.families],
                per_event_only=options.per_event_only,
            )
        )
        # Known from the first claim on, so that processes that start together do not race.
        at_start(self._process.learn_place)
        log.info("worker.started", process_id=self._process.process_id, roles=sorted(options.roles))
        runners = [self._start(self._run_flows, f"flow-{index}") for index in range(options.concurrency)]
        keepers = [self._start(self._keep, "keeper"), self._start(self._renew, "renewer")]
        finisher = self._start(self._finisher.run, "finisher")
        sources = []
        if CLAIM in options.roles:
            sources.append(self._start(self._claim, "claimer"))
        if MATERIALIZE in options.roles:
            sources.append(self._start(self._materialize, "materializer"))
        for role, loop in self._loops.items():
            sources.append(self._start(partial(loop.run, self._stopping, self._wake.set), role))
        # Events are not set from a signal handler: it may interrupt the very wait that holds their lock.
        while not self._stop_asked and self._crash is None:
            time.sleep(0.05)
        drained = self._drain(runners, sources, finisher)
        self._ended.set()
        for keeper in keepers:
            keeper.join(timeout=_STOP_PATIENCE_SECONDS)
        if drained:
            self._say_stopped()
        log.info("worker.stopped", process_id=self._process.process_id, drained=drained, executed=self._executed)
        if self._crash is not None:
            raise self._crash
        return Report(executed=self._executed, materialized=self._materialized, drained=drained)

    def _start(self, target: object, name: str) -> threading.Thread:
        def guarded() -> None:
            try:
                target()  # type: ignore[operator]
            except BaseException as error:
                log.exception("worker.crashed", thread=name)
                self._crash = error
            finally:
                db.close_connections()

        # Daemons: flows that outlast the drain must not keep the process.
        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _drain(
        self, runners: list[threading.Thread], sources: list[threading.Thread], finisher: threading.Thread
    ) -> bool:
        deadline = time.monotonic() + self._options.drain_seconds
        self._stopping.set()
        self._wake.set()
        log.info("worker.draining", in_flight=len(self._live))
        self._join(sources, deadline)
        # Only now: what a claim under way still hands over must come before the sign to end.
        for _ in runners:
            self._handed.put(None)
        self._join(runners, deadline)
        self._finisher.close()
        self._join([finisher], deadline)
        return not any(thread.is_alive() for thread in (*sources, *runners, finisher)) and not len(self._live)

    def _join(self, threads: list[threading.Thread], deadline: float) -> None:
        for thread in threads:
            while thread.is_alive() and time.monotonic() < deadline and not self._hurry:
                thread.join(timeout=0.05)

    def _say_stopped(self) -> None:
        try:
            patiently(self._process.stop, role="stop", seconds=_STOP_PATIENCE_SECONDS)
        except OUTAGE:
            log.warning("worker.stop_not_recorded")
        finally:
            db.close_connections()

    # The claimer

    def _claim(self) -> None:
        queues = deque(CandidateQueue(self._process, family=family) for family in self._families)
        backoff = Backoff("claim", self._stopping.wait)
        pauses = Pauses(self._options.poll_seconds)
        # With nothing heard, an unfruitful look is repeated only where something else is due.
        has_heard = True
        while not self._stopping.is_set():
            room = self._live.wait_for_room(0.1)
            if not room:
                continue
            # Cleared before the look: what arrives during it wakes the wait after it.
            # What was said since the last wait ended counts too.
            has_heard = has_heard or self._wake.is_set()
            self._wake.clear()
            found: list[Claim] = []
            try:
                self._process.learn_place_after_race()
                for _ in range(len(queues)):
                    # Each family in its turn, whatever the others have.
                    queues.rotate(-1)
                    if not has_heard and not queues[0].has_changed():
                        continue
                    found += claims.claim_some(
                        self._process, queues[0], room - len(found), lease_seconds=self._options.lease_seconds
                    )
                    if len(found) >= room:
                        break
                backoff.over()
            except OUTAGE as error:
                for candidates in queues:
                    candidates.forget()
                # What one family has won before the trouble is live and is run.
                self._hand_over(found)
                backoff.met(error)
                has_heard = True
                continue
            if found:
                pauses.begin_anew()
                has_heard = True
                self._hand_over(found)
            elif self._options.until_idle and self._is_idle():
                self._stop_asked = True
                return
            else:
                has_heard = self._wake.wait(pauses.next())

    def _hand_over(self, found: list[Claim]) -> None:
        self._live.add(found)
        for claim in found:
            self._handed.put(claim)

    def _is_idle(self) -> bool:
        try:
            return (
                self._ingress_idle
                and not len(self._live)
                and all(loop.is_idle() for loop in self._loops.values())
                and all(
                    db.read().fetch_one(family.statements.find_unfinished, {"family": family.name}) is None
                    for family in self._families
                )
            )
        except OUTAGE:
            return False

    # The flow threads

    def _run_flows(self) -> None:
        while (claim := self._handed.get()) is not None:
            try:
                self._run_one(claim)
            except OUTAGE:
                # The lease runs out, and whoever reaps it makes the attempt a lost one.
                log.warning("work.abandoned", work_id=claim.work_id)
                db.close_connections()
                self._end([claim], 0)
            except IntegrationError as error:
                log.error("work.abandoned", work_id=claim.work_id, code=error.code)  # noqa: TRY400
                self._end([claim], 0)

    def _run_one(self, claim: Claim) -> None:
        if self._stopping.is_set():
            # It waited for a thread that has become free too late.
            finish.release(claim)
            self._end([claim], 0)
            return
        if not self._live.is_in_time(claim, self._options.lease_seconds):
            # Its lease may have run out while it waited, through an outage: whoever has the item now runs it.
            log.warning("work.abandoned", work_id=claim.work_id)
            self._end([claim], 0)
            return
        started = time.monotonic()
        verdict = execute.run(claim, is_cancelled=lambda: self._live.is_cancelled(claim))
        self._live.pace.note(time.monotonic() - started)
        if verdict.ended in finish.STORED_TOGETHER and not claim.item.is_projection:
            self._finisher.add(Finished(claim=claim, ended=verdict.ended, trace_id=verdict.trace_id))
            return
        stored = execute.store(claim, verdict)
        self._end([claim], 0 if stored is None else 1)

    def _end(self, ended: Sequence[Claim], stored: int) -> None:
        with self._count_lock:
            self._executed += stored
        self._live.remove(ended)
        self._wake.set()

    def _renew(self) -> None:
        options = self._options
        Renewer(self._live, lease_seconds=options.lease_seconds, ended=self._ended).run(self._families)

    # The keeper

    def _keep(self) -> None:
        backoff = Backoff("keeper", self._ended.wait)
        next_beat = next_reap = next_sweep = 0.0
        draining = False
        while not self._ended.wait(_KEEPER_SECONDS):
            now = time.monotonic()
            try:
                if self._stopping.is_set() and not draining:
                    draining = True
                    self._process.start_drain()
                if now >= next_beat:
                    next_beat = now + _BEAT_SECONDS
                    self._process.beat(in_flight=len(self._live))
                if REAP in self._options.roles and now >= next_reap and not draining:
                    next_reap = now + min(_BEAT_SECONDS, self._options.lease_seconds / 3)
                    if reap.reap_expired(
                        self._process, families=self._families, slack_seconds=self._options.slack_seconds
                    ).total:
                        self._wake.set()
                if REAP in self._options.roles and now >= next_sweep and not draining:
                    next_sweep = now + _SWEEP_SECONDS
                    self._sweeper.step()
                backoff.over()
            except OUTAGE as error:
                backoff.met(error)

    # The materializer

    def _materialize(self) -> None:
        backoff, backlog = Backoff("materialize", self._stopping.wait), HeldBacklog()
        idle = self._options.poll_seconds
        while not self._stopping.is_set():
            try:
                count = ingress.materialize_ready(backlog=backlog)
                backoff.over()
            except OUTAGE as error:
                self._ingress_idle = False  # What waits is not known now.
                backoff.met(error)
                continue
            self._ingress_idle = count == 0
            if count:
                self._materialized += count
                self._wake.set()
                idle = self._options.poll_seconds
            else:
                self._stopping.wait(idle)
                idle = min(idle * 2, max(_IDLE_SECONDS, self._options.poll_seconds))
