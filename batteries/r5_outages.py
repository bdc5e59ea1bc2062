"""R5, the database goes away: killed, stopped for eight seconds, started again, without a connection or without room,
while webhooks come in and work runs.

Real processes: the web application behind gunicorn with its production settings, and one whole worker.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from batteries import database, outages
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken
from batteries.outages import Felt, Target
from batteries.posting import POSTERS, POSTS_PER_SECOND, Answers, load
from tests.support import servers
from tests.support.processes import environment, free_port

PATIENCE_SECONDS = 5.0
#: How long what waited is caught up before the rate is measured.
CATCH_UP_SECONDS = 2.0


@contextlib.contextmanager
def process(arguments: list[str], url: str, log: Path, **extra: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python process of the program."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            [*servers.BOUND_TO_CALLER, sys.executable, *arguments],
            cwd=servers.ROOT,
            env=environment(url, **extra),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
            try:
                running.wait(120)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _await_open(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    import socket

    for _ in range(3000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if running.poll() is not None:
            break
        time.sleep(0.02)
    raise BatteryBroken(log.read_text(errors="replace")[-3000:])


def _await(what: str, holds: Callable[[], bool], seconds: float) -> float:
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        with contextlib.suppress(Exception):
            if holds():
                return time.monotonic() - started
        time.sleep(0.05)
    message = f"{what} did not come within {seconds:.0f} s"
    raise BatteryBroken(message)


def run(ground: Ground, figures: Figures) -> None:
    """Hurt the database under load, again and again; then let everything drain and compare."""
    with outages.SERVERS[ground.engine](ground.folder) as target:
        database.create_database(target.url)
        database.load_django(target.url)
        database.install_schema()
        _run(ground, figures, target)


def _run(ground: Ground, figures: Figures, target: Target) -> None:
    from django.db import connections

    from tests.support import webhooks

    document = webhooks.variant(
        "demo", ("flow: {name: demo.apply_deal, version: 1}", "flow: {name: tests.noop, version: 1}")
    )
    webhooks.activate(document)
    connections.close_all()
    possible = outages.outages(target)
    order = [name for _ in range(ground.pick(1, 1, 7)) for name in possible]
    if ground.size == "shortest":
        order = ["kill"]
    else:
        random.Random(ground.seed).shuffle(order)
    # The shortest form runs beside much else, and asks only that it is worked off.
    patience = ground.pick(300.0, 60.0, 60.0)
    answers, stop = Answers(), threading.Event()
    port = free_port()
    believe = ["-m", "batteries.believing"] if ground.mutant else []
    web = [*(believe or ["-m", "gunicorn"]), "--config", "console/gunicorn.conf.py", "--bind", f"127.0.0.1:{port}"]
    logs = ground.folder / "web.log", ground.folder / "work.log"
    met: list[Met] = []
    with (
        process(web, target.url, logs[0], DJANGO_SETTINGS_MODULE="console.settings", LOCKHOUSE_LOCAL="1") as server,
        process(["manage.py", "work", "--concurrency", "4", "--lease-seconds", "3"], target.url, logs[1]) as worker,
    ):
        _await_open(port, server, logs[0])
        posters = [threading.Thread(target=load, args=(port, name, answers, stop)) for name in range(POSTERS)]
        for poster in posters:
            poster.start()
        try:
            _await("the first answer", lambda: len(answers.acked) > POSTERS, 240)
            window = ground.pick(4.0, 8.0, 8.0)
            met += [hurt(target, name, possible[name], answers, logs[1], window=window) for name in order]
        finally:
            stop.set()
            for poster in posters:
                poster.join(60)
        connections.close_all()
        try:
            drained = _await("the end of the work", _is_drained, patience)
        except BatteryBroken:
            drained = float("inf")
            _say_what_is_left(logs[1])
        worker_lives = worker.poll() is None
        server_lives = server.poll() is None
    connections.close_all()
    _tell(ground, figures, met, answers, drained)
    if ground.mutant:
        return
    figures.demand(f"what was stored was worked off within {patience:.0f} seconds", drained < patience)
    figures.demand("the worker and the web server lived on", worker_lives and server_lives)
    if ground.size != "shortest":
        figures.demand("afterwards the rate is at least 0.95 of what it was", min(one.ratio for one in met) >= 0.95)


@dataclass
class Met:
    """One outage, as its clients met it.

    Attributes:
        name: What was done to the server.
        recovery: Seconds from its end to the first 200.
        before: Deliveries acknowledged a second before it.
        after: The same afterwards.
    """

    name: str
    recovery: float
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How much of the rate came back."""
        return self.after / self.before if self.before else 0.0


def hurt(
    target: Target, name: str, outage: Callable[[Target, Felt], None], answers: Answers, log: Path, *, window: float
) -> Met:
    """Measure for so many seconds, hurt the server, wait until it is back, and measure again."""
    # What waited for the start, or through the outage before, is caught up: more than is offered is no rate to keep.
    time.sleep(CATCH_UP_SECONDS + window)
    at = time.monotonic()
    before = answers.rate(at - window, at)
    refused, said = answers.others.total(), _troubles(log)
    outage(target, lambda: answers.others.total() > refused or _troubles(log) > said)
    back = time.monotonic()
    _await("an answer of 200", lambda: answers.first_after(back) is not None, 240)
    # What waited is caught up first; then the rate is what it was, or it is not.
    time.sleep(CATCH_UP_SECONDS + window)
    at = time.monotonic()
    return Met(
        name=name,
        recovery=(answers.first_after(back) or back) - back,
        before=before,
        after=answers.rate(at - window, at),
    )


def _troubles(log: Path) -> int:
    return log.read_text(errors="replace").count("work.database_away")


def _is_drained() -> bool:
    from tests.support.work import query

    (row,) = query("SELECT COUNT(*) AS N FROM _System_ConnectorIngressReceipt WHERE State = 'received'")
    (left,) = query("SELECT COUNT(*) AS N FROM _System_ConnectorWorkItem WHERE TerminalAt IS NULL")
    return bool(row["N"] == left["N"] == 0)


def _say_what_is_left(log: Path) -> None:
    """Print what did not end, whose it is by both of its rows, and what the worker said last."""
    from tests.support.work import query

    with contextlib.suppress(Exception):
        print(query("SELECT State, COUNT(*) AS N FROM _System_ConnectorIngressReceipt GROUP BY State"))
        left = (
            "SELECT w.WorkId, w.State, w.Attempt, e.Status, e.ExecutionOwner FROM _System_ConnectorWorkItem w"
            " LEFT JOIN _System_ConnectorEvent e ON e.EventId = w.EventId WHERE w.TerminalAt IS NULL LIMIT 5"
        )
        print(*query(left), sep="\n")
    print(log.read_text(errors="replace")[-4000:])


def _tell(ground: Ground, figures: Figures, met: list[Met], answers: Answers, drained: float) -> None:
    """Note the figures, and demand what the rows must show."""
    from tests.support import webhooks

    acked = {delivery for _, _, delivery in answers.acked}
    stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
    items = Counter(row["State"] for row in webhooks.rows("WorkItem"))
    twice = sum(count - 1 for count in stored.values())
    late = [seconds for _, seconds, _ in answers.acked if seconds > PATIENCE_SECONDS]
    recoveries = sorted(one.recovery for one in met)
    figures.note(
        outages=dict(Counter(one.name for one in met)),
        acknowledged=len(answers.acked),
        other_answers={str(status): count for status, count in answers.others.items()},
        slowest_200_seconds=round(max(seconds for _, seconds, _ in answers.acked), 2),
        slowest_refusal_seconds=round(answers.slowest_other, 2),
        acked_not_stored=len(acked - set(stored)),
        stored_twice=twice,
        later_than_5_s=len(late),
        recovery_seconds_p50=round(recoveries[len(recoveries) // 2], 2),
        recovery_seconds_max=round(recoveries[-1], 2),
        rates={f"{number} {one.name}": [round(one.before, 1), round(one.after, 1)] for number, one in enumerate(met)},
        recovered_rate_lowest=round(min(one.ratio for one in met), 2),
        offered_per_second=POSTS_PER_SECOND,
        items=dict(items),
        drained_after_seconds=round(drained, 1),
    )
    figures.demand("every 200 is stored", not acked - set(stored))
    if ground.mutant:
        return
    figures.demand("no delivery is stored twice", twice == 0)
    figures.demand("no 200 came later than five seconds", not late)
    figures.demand("every receipt became one item, and each succeeded", items == Counter({"succeeded": len(stored)}))
