"""A database of old builds on its way to the WorkItems and back: who takes part, and what must never be seen.

Whoever takes part is a process, forked from the test's own, so that it costs milliseconds: a machine that runs much
besides has no more to do than the drill itself. Who executes is held from doing much at once by who puts work in, and
every lease is long: what is to run out is made to.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from batteries import books, database
from batteries.forking import Child, fork
from console.models import AuditEntry
from integration import failpoints
from integration.cutover.inbound.verify import verify
from integration.storage.schema import Vintage
from tests.concurrency.cutover import drill_racers as racers
from tests.concurrency.cutover.drill_racers import Row, ended_in, runs_in
from tests.concurrency.work.waits import until
from tests.support import webhooks
from tests.support.legacy import expire_scheduler_lease
from tests.support.processes import Command
from tests.support.rollback import receipts_of
from tests.support.sessions import default_of_vintage
from tests.support.work import change, query

_FLOWS = (
    ("{name: demo.apply_deal, version: 1}", "{name: tests.drill, version: 1}"),
    ("{name: demo.apply_contact, version: 1}", "{name: tests.drill, version: 1}"),
)
#: Numbers of what the old writer admits and of what the test posts itself; the provider counts from 1.
OLD, OWN = 100_000, 200_000
#: What an item comes to that was rolled back and executed by the Event executor.
RECONCILED = "reconciled_legacy_terminal"
FLOWS_AT_ONCE = 2
_LEASE = ("--lease-seconds", "3600")


@contextlib.contextmanager
def old_database(database_url: str) -> Iterator[str]:
    """Make a database of the first vintage that has WorkItems the default one; yield its address."""
    with default_of_vintage(Vintage.LEGACY) as made:
        # What the operator does is told to the trail.
        with made.schema_editor() as editor:
            editor.create_model(AuditEntry)
        yield urlunsplit(urlsplit(database_url)._replace(path=f"/{made.settings_dict['NAME']}"))


def old_pack() -> str:
    """Make an incarnation as an old build left it: nothing says that its work was ever handed over."""
    pack_id = webhooks.activate(webhooks.variant("demo", *_FLOWS))
    for table in ("CutoverReceipt", "ProjectionProtocol"):
        change(f"DELETE FROM _System_Connector{table} WHERE PackInstallId = %s", pack_id)
    return pack_id


def upgrade() -> None:
    """Bring the schema up to date under whatever runs."""
    from django.core.management import call_command

    call_command("install_schema", verbosity=0, stdout=io.StringIO())


@dataclass
class Drill:
    """One pack of a database, and the processes around it; those that still run are killed when the stack is left.

    Attributes:
        url: The database.
        pack_id: The incarnation.
        folder: Where the processes write.
        stack: Ends them.
        kills: At which point, or in whose midst, processes were killed.
    """

    url: str
    pack_id: str
    folder: Path
    stack: contextlib.ExitStack
    kills: list[str] = field(default_factory=list)
    #: Who has to live, by name; and every process that ever executed, by its id.
    _crew: dict[str, Child] = field(default_factory=dict)
    _owners: dict[int, str] = field(default_factory=dict)
    _posted: list[int] = field(default_factory=list)

    @property
    def record(self) -> Path:
        """Where executions are written down."""
        return self.folder / "runs"

    # Who takes part

    def fork(self, function: Callable[..., Any], *args: Any, failpoint: str = "", **kwargs: Any) -> Child:
        """Run a function in a process of its own, which kills itself at the failpoint, if one is named."""

        def run() -> Any:
            database.use(self.url)
            failpoints._ARMED = failpoint
            return function(*args, **kwargs)

        child = fork(self.folder, run)
        self.stack.callback(child.kill)
        return child

    def start(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Child:
        """Start somebody who is to live until `kill`, `dismiss` or `finish` is called with the name."""
        assert name not in self._crew, name
        child = self._crew[name] = self.fork(function, *args, **kwargs)
        return child

    def executor(self, *, failpoint: str = "") -> None:
        """Start an Event executor, as `executor`."""
        asked = ("legacy_execute", "--pack-install-id", self.pack_id, "--json", *_LEASE)
        child = self.start("executor", racers.command, *asked, failpoint=failpoint)
        self._owners[child.pid] = "event"

    def worker(self) -> None:
        """Start a worker of the new build, as `worker`."""
        asked = ("--roles", "claim,reap", "--concurrency", str(FLOWS_AT_ONCE), "--poll-ms", "20", "--json", *_LEASE)
        child = self.start("worker", racers.command, "work", *asked)
        self._owners[child.pid] = "work_item"

    def unguarded_worker(self) -> None:
        """Start a worker that observes no receipt, as `worker`."""
        child = self.start("worker", racers.work_without_receipt)
        self._owners[child.pid] = "work_item"

    def kill(self, name: str) -> None:
        """Kill one of them, in the midst of what it does."""
        child = self._crew.pop(name)
        child.kill()
        assert child.status == -signal.SIGKILL, child.tail()
        self.kills.append(name)

    def die_at(self, point: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Do something in a process that kills itself at a point."""
        self.start(point, function, *args, failpoint=point, **kwargs)
        self.died(point, point)

    def died(self, name: str, point: str) -> None:
        """Wait until one of them has killed itself at the point that it was started with."""
        child = self._crew.pop(name)
        assert child.wait() == -signal.SIGKILL, f"{point} was not reached: {child.result.read_text()}"
        self.kills.append(point)

    def dismiss(self, name: str) -> Child:
        """Return one of them who is to end by itself."""
        return self._crew.pop(name)

    def finish(self, name: str) -> Any:
        """Ask one of them to end, and return what it came to."""
        child = self._crew.pop(name)
        os.kill(child.pid, signal.SIGTERM)
        return child.value()

    def send(self, base: str, **options: Any) -> int:
        """Post one delivery until it is acknowledged; return its number."""
        number = OWN + len(self._posted)
        racers.deliver(base, str(self.record), number, **options)
        self._posted.append(number)
        return number

    # What is waited for

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition holds, and fail at once when somebody who is to live does not."""

        def holds() -> object:
            for name, child in self._crew.items():
                if child.poll() is not None:
                    said = child.result.read_text() if child.result.exists() else child.tail()
                    message = f"{name} has ended ({child.status}) before {what}: {said}"
                    raise AssertionError(message)
            return condition()

        until(holds, what)

    def ended(self) -> list[int]:
        """Return the numbers of what was executed to its end, in order."""
        return ended_in(self.record)

    def await_more(self, count: int = 3) -> None:
        """Wait until so much more has been executed."""
        wanted = len(self.ended()) + count
        self.until(lambda: len(self.ended()) >= wanted, f"{wanted} executions")

    def await_started(self, number: int, *, times: int = 1) -> Row:
        """Wait until one delivery's flow has been started so often; return what was written down last."""

        def starts() -> list[Row]:
            return [run for run in runs_in(self.record) if (run["n"], run["at"]) == (number, "start")]

        self.until(lambda: len(starts()) >= times, f"the flow of {number}")
        return starts()[-1]

    def owner_of(self, line: Row) -> str:
        """Return whose the process was that wrote a line down."""
        return self._owners[line["pid"]]


def let_leases_run_out() -> None:
    """Let every lease and claim be over, as when whoever held it has been dead for long."""
    books.expire_leases()
    expire_scheduler_lease()
    change(
        "UPDATE _System_ConnectorEvent SET ClaimedUntil = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND"
        " WHERE ClaimedUntil IS NOT NULL"
    )


def kill_child_of(command: Command) -> None:
    """Kill the one child of a process that starts another in its place."""
    pid = command.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)


# What must not be seen


def faults(run: Drill, numbers: Sequence[int]) -> dict[str, Any]:
    """Return what is wrong once everything has ended; empty when nothing is.

    Args:
        run: The drill.
        numbers: Of what was acknowledged or admitted.
    """
    admitted = Counter([*numbers, *run._posted])
    executed = Counter(run.ended())
    items = books.items()
    claimed = {work_id: row for work_id, row in items.items() if row["Attempt"]}
    found = {
        "not executed": sorted((admitted - executed).elements()),
        "executed again or never admitted": sorted((executed - admitted).elements()),
        "receipts that wait": query("SELECT ReceiptId FROM _System_ConnectorIngressReceipt WHERE State = 'received'"),
        "nobody's": _unended(items),
        "started more often than claimed": _unclaimed(run),
        "attempts, epochs and attempt rows that disagree": books.crooked(claimed, books.attempts()),
        "overlaps": overlaps(run),
        "out of order in a lane": _out_of_order(run),
        "receipts": [str(fault) for fault in verify(run.pack_id).faults],
    }
    return {name: value for name, value in found.items() if value}


def overlaps(run: Drill) -> list[str]:
    """Return what was executed by somebody whose the work was not at that moment.

    Twice over: by the rows, each attempt and each Event's end against the receipts' times; and by what the flows wrote
    down one after the other, in which the owners may change only as often as the receipts do.
    """
    found = wrong_owners(run.pack_id)
    spans = [owner for owner, _ in itertools.groupby(runs_in(run.record), run.owner_of)]
    allowed = [
        "event",
        *("work_item" if row["Direction"] == "forward" else "event" for row in receipts_of(run.pack_id)),
    ]
    return found if spans == allowed else [*found, f"owners by what ran: {spans}"]


def wrong_owners(pack_id: str) -> list[str]:
    """Return the attempts and the ends of items and Events at a moment at which the work was the other's."""
    written = receipts_of(pack_id)

    def owner_at(moment: Any) -> str:
        before = [row["Direction"] for row in written if row["WrittenAt"] <= moment]
        return "work_item" if before and before[-1] == "forward" else "event"

    attempts = query(
        "SELECT a.WorkId, a.StartedAt FROM _System_ConnectorExecutionAttempt a"
        " JOIN _System_ConnectorWorkItem w ON w.WorkId = a.WorkId WHERE w.PackInstallId = %s",
        pack_id,
    )
    items = query(
        "SELECT WorkId, TerminalAt FROM _System_ConnectorWorkItem WHERE PackInstallId = %s AND Attempt > 0"
        " AND State <> %s AND TerminalAt IS NOT NULL",
        pack_id,
        RECONCILED,
    )
    events = query(
        "SELECT EventId, TerminalAt FROM _System_ConnectorEvent WHERE PackInstallId = %s"
        " AND ExecutionOwner = 'event' AND TerminalAt IS NOT NULL",
        pack_id,
    )
    return [
        *(f"attempt of {row['WorkId']}" for row in attempts if owner_at(row["StartedAt"]) != "work_item"),
        *(f"end of {row['WorkId']}" for row in items if owner_at(row["TerminalAt"]) != "work_item"),
        *(f"end of Event {row['EventId']}" for row in events if owner_at(row["TerminalAt"]) != "event"),
    ]


def _unended(items: dict[str, Row]) -> list[str]:
    """Return the Events that nobody has ended, and the WorkItems that have not."""
    by_event = {row["EventId"]: row for row in items.values()}
    events = query("SELECT EventId, Status, ExecutionOwner FROM _System_ConnectorEvent")
    ended = {*books.TERMINAL, RECONCILED}
    return [
        row["EventId"]
        for row in events
        if not (
            (row["ExecutionOwner"] == "event" and row["Status"] == "processed")
            or (row["ExecutionOwner"] == "work_item" and by_event[row["EventId"]]["State"] == "succeeded")
        )
    ] + [work_id for work_id, row in items.items() if row["State"] not in ended]


def _unclaimed(run: Drill) -> list[str]:
    """Return the Events whose flow was started more often than either executor had claimed them.

    Only a claim whose process was killed is followed by another: no flow of the drill fails.
    """
    started = Counter(line["event"] for line in runs_in(run.record) if line["at"] == "start")
    rows = query(
        "SELECT e.EventId, e.RetryCount + COALESCE(w.Attempt, 0)"
        " + (e.ExecutionOwner = 'event' AND e.Status = 'processed') AS Claims"
        " FROM _System_ConnectorEvent e LEFT JOIN _System_ConnectorWorkItem w ON w.EventId = e.EventId"
    )
    claims = {row["EventId"]: int(row["Claims"]) for row in rows}
    lost = sum(claims.values()) - len(claims)
    found = [event for event, times in started.items() if times > claims[event]]
    return found if lost <= FLOWS_AT_ONCE * len(run.kills) else [*found, f"{lost} claims were lost"]


def _out_of_order(run: Drill) -> list[str]:
    """Return the lanes whose inputs were not started in the order of their ordinals."""
    rows = query("SELECT EventId, SourceLane, LaneOrdinal FROM _System_ConnectorEvent")
    places = {row["EventId"]: (row["SourceLane"], row["LaneOrdinal"]) for row in rows}
    started: dict[str, list[int]] = defaultdict(list)
    for line in runs_in(run.record):
        if line["at"] == "start":
            lane, ordinal = places[line["event"]]
            started[lane].append(ordinal)
    return [lane for lane, ordinals in started.items() if ordinals != sorted(ordinals)]
