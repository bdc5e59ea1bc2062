"""R12, the soak: webhooks at an even pace while the pack's work goes back and forth between the WorkItems and the Event
executor, whoever executes is killed again and again, and snapshots are held.

Real processes: the web application behind gunicorn with its production settings, a materializer, a worker, and an Event
executor while the work is its own.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from batteries import books, cutting, kernel
from batteries.crew import Crew, Watch
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken
from batteries.posting import Answers, load
from batteries.soaking import FLOWS_AT_ONCE
from integration import errors
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.storage import db
from tests.concurrency.cutover.drill import wrong_owners
from tests.support import cleaning, webhooks
from tests.support.work import query

POSTERS = 2
ENDED = frozenset({"succeeded", "dead", "event processed", "event dead"})
#: How long a rollback waits for what runs before it is given up, so that a lost item can be taken back.
_DRAIN_SECONDS = 3.0
_PAUSE_SECONDS = 0.2
#: How long the workers go on when a rollback was given up: a lost item is taken back meanwhile.
_REST_SECONDS = 2.0
_LONGEST_DRAIN_SECONDS = 180.0
_TRANSIENT = (errors.Busy, errors.ConcurrentChange, errors.CommitUnknown)


@dataclass
class Turns:
    """The work as it changes hands, and what stood in the way.

    Attributes:
        pack_id: Whose work.
        made: How often it changed hands, by direction.
        refused: What refused a rollback, by code.
        abandoned: How often a rollback was given up to be asked for again.
        late: Turns that were given up for good, since the soak ended.
    """

    pack_id: str
    made: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    abandoned: int = 0
    late: int = 0

    def back(self, crew: Crew, deadline: float) -> bool:
        """Give the work to the executor; return whether it came about in time."""
        since = time.monotonic()
        while True:
            try:
                cutting.back(self.pack_id, chunk=500)
                break
            except RollbackRefused as refusal:
                code = refusal.finding.code.value
                self.refused[code] += 1
                is_late = time.monotonic() > deadline
                if code != "not_drained" or is_late or time.monotonic() - since > _DRAIN_SECONDS:
                    self._give_up(crew)
                    since = time.monotonic()
                if is_late:
                    self.late += 1
                    return False
            except _TRANSIENT:
                pass
            crew.pause(_PAUSE_SECONDS)
        self.made["rollback"] += 1
        if crew.is_mutant:
            # Only who should not can execute now.
            crew.await_run()
        crew.start("executor")
        crew.await_run()
        return True

    def _give_up(self, crew: Crew) -> None:
        with contextlib.suppress(RollbackRefused, *_TRANSIENT):
            cutting.abandon_rollback(self.pack_id)
            self.abandoned += 1
        crew.pause(_REST_SECONDS)

    def forward(self, crew: Crew) -> None:
        """Give the work to the WorkItems, once everything that a rollback holds has ended."""
        deadline = time.monotonic() + _LONGEST_DRAIN_SECONDS
        while not self._is_forward():
            if time.monotonic() > deadline:
                message = f"it did not go forward: {query('SELECT * FROM _System_ConnectorRollbackFence')}"
                raise BatteryBroken(message)
            crew.pause(_PAUSE_SECONDS)
        self.made["forward"] += 1
        crew.forget("executor")

    def _is_forward(self) -> bool:
        with contextlib.suppress(*_TRANSIENT):
            if cutting.reconcile(self.pack_id):
                cutting.forward(self.pack_id)
                return True
        return False


@dataclass
class Soak:
    """A soak that is over."""

    ground: Ground
    turns: Turns
    answers: Answers
    crew: Crew
    watch: Watch


@contextlib.contextmanager
def posting(port: int, answers: Answers) -> Iterator[None]:
    """Post at an even pace."""
    stop = threading.Event()
    posters = [threading.Thread(target=load, args=(port, name, answers, stop)) for name in range(POSTERS)]
    for poster in posters:
        poster.start()
    try:
        yield
    finally:
        stop.set()
        for poster in posters:
            poster.join(60)


def run(ground: Ground, figures: Figures) -> None:
    """Let it run for its time; then let everything end, and compare the books."""
    seconds = ground.seconds or ground.pick(4.0, 30.0, 1800.0)
    kill_every, turn_every = ground.pick((2.0, 2.0), (5.0, 7.0), (20.0, 300.0))
    cleaning.empty_database()
    document = webhooks.variant("demo", ("{name: demo.apply_deal, version: 1}", "{name: batteries.note, version: 1}"))
    turns, answers = Turns(webhooks.activate(document)), Answers()
    db.close_connections()
    with (
        Crew(ground, turns.pack_id, kill_every=kill_every) as crew,
        Watch(ground, crew, hold_seconds=turn_every / 2) as watch,
    ):
        for name in ("materializer", "worker"):
            crew.start(name)
        with posting(crew.port, answers):
            started, is_back = time.monotonic(), False
            while time.monotonic() - started < seconds or not turns.made:
                crew.pause(turn_every)
                if is_back:
                    turns.forward(crew)
                    is_back = False
                else:
                    is_back = turns.back(crew, started + max(seconds, _LONGEST_DRAIN_SECONDS))
        if is_back:
            turns.forward(crew)
        drained = _drain()
        lives, said = crew.lives(), crew.said("worker")
    db.close_connections()
    soak = Soak(ground, turns, answers, crew, watch)
    _measure(figures, soak, drained)
    _compare(figures, soak)
    figures.note(worker_said=said)
    figures.demand("the web server and the materializer lived on", lives)
    cleaning.empty_database()


def _drain() -> float:
    """Wait until everything has ended; return how long that took, in seconds."""
    started = time.monotonic()
    while time.monotonic() - started < _LONGEST_DRAIN_SECONDS:
        if not _left():
            break
        time.sleep(_PAUSE_SECONDS)
    return time.monotonic() - started


def _left() -> list[dict[str, object]]:
    return query(
        "(SELECT 'receipt' AS Kind FROM _System_ConnectorIngressReceipt WHERE State = 'received' LIMIT 1) UNION ALL"
        " (SELECT 'item' FROM _System_ConnectorWorkItem WHERE TerminalAt IS NULL LIMIT 1) UNION ALL"
        " (SELECT 'event' FROM _System_ConnectorEvent WHERE TerminalAt IS NULL AND ExecutionOwner = 'event' LIMIT 1)"
    )


def p99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return round(ordered[int(len(ordered) * 0.99)] * 1000, 1) if ordered else 0.0


def _measure(figures: Figures, soak: Soak, drained: float) -> None:
    """Note what was done, and what it took."""
    times = [seconds for _, seconds, _ in sorted(soak.answers.acked)]
    quarter = max(1, len(times) // 4)
    first, last = p99(times[:quarter]), p99(times[-quarter:])
    figures.note(
        acknowledged=len(times),
        other_answers={str(status): count for status, count in soak.answers.others.items()},
        turns=dict(soak.turns.made),
        rollbacks_refused=dict(soak.turns.refused),
        rollbacks_abandoned=soak.turns.abandoned,
        turns_that_came_too_late=soak.turns.late,
        kills=dict(soak.crew.kills),
        drained_after_seconds=round(drained, 1),
        p99_ms_of_an_answer_in_the_first_and_last_quarter=[first, last],
        p99_drift=round(last / first, 2) if first else None,
        materializers_rss_kib_and_growth_a_minute=soak.watch.memory(),
        snapshots_held=soak.watch.snapshots,
        history_list_length_longest_and_last=soak.watch.history(),
    )
    made = soak.turns.made
    figures.demand("the work went back and forth", min(made["forward"], made["rollback"]) > 0)
    if soak.ground.size == "long":
        figures.demand("p99 of an answer drifts by less than 1.3", last < 1.3 * first)


def _compare(figures: Figures, soak: Soak) -> None:
    """Compare what was acknowledged, what the tables hold and what ran."""
    pack_id = soak.turns.pack_id
    acked = {delivery for _, _, delivery in soak.answers.acked}
    stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
    events, items = webhooks.rows("Event"), books.items()
    by_event = {row["EventId"]: row for row in items.values()}
    ends = Counter(
        by_event[row["EventId"]]["State"] if row["ExecutionOwner"] == "work_item" else f"event {row['Status']}"
        for row in events
    )
    ran = Counter(work_id for work_id, _ in kernel.runs(soak.crew.record))
    again = sum(ran.values()) - len(ran)
    crooked = books.crooked({name: row for name, row in items.items() if row["Attempt"]}, books.attempts())
    written = Counter(cutting.directions(pack_id))
    told = {name: cutting.audited(f"inbound_cutover.{name}") for name in ("moved_forward", "rolled_back")}
    # The first receipt is the activation's.
    is_told = told == {"moved_forward": written["forward"] - 1, "rolled_back": written["rollback"]}
    of_others, trail = wrong_owners(pack_id), cutting.wrong_trail()
    chain = cutting.wrong_receipts(pack_id, cutting.directions(pack_id))
    figures.note(
        events=len(events),
        ends=dict(ends),
        flows_run_again_after_a_kill=again,
        executed_by_who_was_not_the_owner=len(of_others),
        books_that_disagree=len(crooked),
        findings=[*of_others, *crooked, *trail, *chain][:10],
    )
    figures.demand("nobody executed what was not its own", not of_others)
    if soak.ground.mutant:
        return
    is_stored = acked <= set(stored) and max(stored.values()) == 1
    figures.demand("every 200 is stored once, and became one Event", is_stored and len(events) == len(stored))
    figures.demand("jobs in are jobs ended, exactly", set(ends) <= ENDED and len(by_event) == len(items))
    figures.demand("nothing ran again without a kill", again <= FLOWS_AT_ONCE * soak.crew.kills.total())
    figures.demand("attempts, epochs and attempt rows agree", not crooked)
    figures.demand("the receipts verify, and the trail tells of each", is_told and not trail and not chain)
