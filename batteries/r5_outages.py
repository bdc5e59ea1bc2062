"""R5, the database goes away: killed, stopped for eight seconds, started again, while webhooks come in and work runs.

Real processes: the web application behind gunicorn with its production settings, and one whole worker.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from batteries import database
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken
from integration.storage.localdb import LocalDatabase
from tests.support import servers
from tests.support.processes import environment, free_port

STOPPED_SECONDS = 8.0
PATIENCE_SECONDS = 5.0
POSTERS = 6
POSTS_PER_SECOND = 30.0
#: How long the rate is measured, before an outage and after it.
WINDOW_SECONDS = 4.0


@dataclass
class Target:
    """A server that can be hurt."""

    url: str
    pid: Callable[[], int]
    start: Callable[[], object]


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[Target]:
    """Run MariaDB with its full durability."""
    server = LocalDatabase(directory=folder / "mariadb", launcher=servers.BOUND_TO_CALLER)
    server.start()

    def pid() -> int:
        found = server.status().pid
        if found is None:
            message = "the server does not run"
            raise BatteryBroken(message)
        return found

    url = f"mysql://root@localhost/lockhouse?unix_socket={quote(str(server.socket), safe='/')}"
    try:
        yield Target(url=url, pid=pid, start=server.start)
    finally:
        with contextlib.suppress(Exception):
            os.kill(pid(), signal.SIGCONT)
        server.stop()


@contextlib.contextmanager
def tidb(folder: Path) -> Iterator[Target]:
    """Run TiDB on its embedded store."""
    running = [servers.launch_tidb(folder, is_killed=True)]

    def start() -> None:
        running[-1].wait(60)
        running.append(servers.launch_tidb(folder, is_killed=True))

    url = f"tidb://root@localhost/lockhouse?unix_socket={quote(str(folder / 'tidb.sock'), safe='/')}"
    try:
        yield Target(url=url, pid=lambda: running[-1].pid, start=start)
    finally:
        running[-1].kill()
        running[-1].wait()


@dataclass
class Answers:
    """What providers were told."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acked: list[tuple[float, float, str]] = field(default_factory=list)
    others: Counter[int] = field(default_factory=Counter)
    slowest_other: float = 0.0

    def note(self, started: float, status: int, delivery: str) -> None:
        """Keep one answer."""
        now = time.monotonic()
        with self.lock:
            if status == 200:
                self.acked.append((now, now - started, delivery))
            else:
                self.others[status] += 1
                self.slowest_other = max(self.slowest_other, now - started)

    def rate(self, start: float, end: float) -> float:
        """Return how many deliveries a second were acknowledged."""
        with self.lock:
            return sum(start <= at < end for at, _, _ in self.acked) / (end - start)

    def first_after(self, moment: float) -> float | None:
        """Return when the first delivery that was answered after a moment was acknowledged."""
        with self.lock:
            return min((at for at, _, _ in self.acked if at > moment), default=None)


def post(port: int, delivery: str, number: int) -> int:
    """Post one signed webhook; 0 when there was no answer."""
    from tests.support import webhooks

    body = webhooks.deal(number)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", webhooks.DEMO_URL, body, webhooks.headers(body, delivery_id=delivery))
        return connection.getresponse().status
    except (http.client.HTTPException, OSError):
        return 0
    finally:
        connection.close()


def load(port: int, name: int, answers: Answers, stop: threading.Event) -> None:
    """Post at an even pace, each delivery again until it is acknowledged."""
    number, due = 0, time.monotonic()
    while not stop.is_set():
        number += 1
        delivery = f"d-{name}-{number}"
        while not stop.is_set():
            started = time.monotonic()
            status = post(port, delivery, name * 1_000_000 + number)
            answers.note(started, status, delivery)
            if status == 200:
                break
            stop.wait(0.2)
        due = max(due + POSTERS / POSTS_PER_SECOND, time.monotonic() - 1)
        stop.wait(max(0.0, due - time.monotonic()))


def kill(target: Target) -> None:
    """End the server without a word, and start it again."""
    os.kill(target.pid(), signal.SIGKILL)
    _await_gone(target)
    target.start()


def freeze(target: Target) -> None:
    """Stop the server for longer than a provider waits."""
    pid = target.pid()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    os.kill(pid, signal.SIGCONT)


def restart(target: Target) -> None:
    """End the server in good order, and start it again."""
    os.kill(target.pid(), signal.SIGTERM)
    _await_gone(target)
    target.start()


def _await_gone(target: Target) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            pid = target.pid()
            # A child that was not waited for is a zombie, and gone.
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except (BatteryBroken, OSError):
            return
        time.sleep(0.02)


OUTAGES: dict[str, Callable[[Target], None]] = {"kill": kill, "freeze": freeze, "restart": restart}


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
                running.wait(40)
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
    with {"mariadb": mariadb, "tidb": tidb}[ground.engine](ground.folder) as target:
        database.create_database(target.url)
        database.load_django(target.url)
        database.install_schema()
        _run(ground, figures, target)


def _run(ground: Ground, figures: Figures, target: Target) -> None:
    from django.db import connections

    from tests.support import webhooks
    from tests.support.work import query

    document = webhooks.variant(
        "demo", ("flow: {name: demo.apply_deal, version: 1}", "flow: {name: tests.noop, version: 1}")
    )
    webhooks.activate(document)
    connections.close_all()
    cycles = ground.pick(1, 1, 7)
    order = [name for _ in range(cycles) for name in OUTAGES]
    if ground.size == "shortest":
        order = ["kill"]
    else:
        random.Random(ground.seed).shuffle(order)
    answers, stop = Answers(), threading.Event()
    port = free_port()
    believe = ["-m", "batteries.believing"] if ground.mutant else []
    web = [*(believe or ["-m", "gunicorn"]), "--config", "console/gunicorn.conf.py", "--bind", f"127.0.0.1:{port}"]
    logs = ground.folder / "web.log", ground.folder / "work.log"
    recoveries: list[float] = []
    rates: list[tuple[float, float]] = []
    with (
        process(web, target.url, logs[0], DJANGO_SETTINGS_MODULE="console.settings", LOCKHOUSE_LOCAL="1") as server,
        process(["manage.py", "work", "--concurrency", "4", "--lease-seconds", "3"], target.url, logs[1]) as worker,
    ):
        _await_open(port, server, logs[0])
        posters = [threading.Thread(target=load, args=(port, name, answers, stop)) for name in range(POSTERS)]
        for poster in posters:
            poster.start()
        try:
            _await("the first answer", lambda: len(answers.acked) > POSTERS, 60)
            for name in order:
                time.sleep(WINDOW_SECONDS)
                before = time.monotonic()
                baseline = answers.rate(before - WINDOW_SECONDS, before)
                OUTAGES[name](target)
                back = time.monotonic()
                _await("an answer of 200", lambda since=back: answers.first_after(since) is not None, 90)
                recoveries.append((answers.first_after(back) or back) - back)
                # What waited is caught up first; then the rate is what it was, or it is not.
                time.sleep(2 + WINDOW_SECONDS)
                now = time.monotonic()
                rates.append((baseline, answers.rate(now - WINDOW_SECONDS, now)))
        finally:
            stop.set()
            for poster in posters:
                poster.join(60)
        acked = {delivery for _, _, delivery in answers.acked}

        def is_drained() -> bool:
            (row,) = query("SELECT COUNT(*) AS N FROM _System_ConnectorIngressReceipt WHERE State = 'received'")
            (left,) = query("SELECT COUNT(*) AS N FROM _System_ConnectorWorkItem WHERE TerminalAt IS NULL")
            return row["N"] == left["N"] == 0

        connections.close_all()
        try:
            drained = _await("the end of the work", is_drained, 60)
        except BatteryBroken:
            drained = float("inf")
            print(logs[1].read_text(errors="replace")[-4000:])
        worker_lives = worker.poll() is None
        server_lives = server.poll() is None
    connections.close_all()
    stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
    items = Counter(row["State"] for row in webhooks.rows("WorkItem"))
    ratio = min((after / baseline for baseline, after in rates if baseline), default=0.0)
    late = [seconds for _, seconds, _ in answers.acked if seconds > PATIENCE_SECONDS]
    figures.note(
        outages=dict(Counter(order)),
        acknowledged=len(answers.acked),
        other_answers={str(status): count for status, count in answers.others.items()},
        slowest_200_seconds=round(max(seconds for _, seconds, _ in answers.acked), 2),
        slowest_refusal_seconds=round(answers.slowest_other, 2),
        acked_not_stored=len(acked - set(stored)),
        stored_twice=sum(count - 1 for count in stored.values()),
        later_than_5_s=len(late),
        recovery_seconds_p50=round(sorted(recoveries)[len(recoveries) // 2], 2),
        recovery_seconds_max=round(max(recoveries), 2),
        recovered_rate_lowest=round(ratio, 2),
        offered_per_second=POSTS_PER_SECOND,
        items=dict(items),
        drained_after_seconds=round(drained, 1),
    )
    figures.demand("every 200 is stored", not acked - set(stored))
    if ground.mutant:
        return
    figures.demand("no delivery is stored twice", sum(count - 1 for count in stored.values()) == 0)
    figures.demand("no 200 came later than five seconds", not late)
    figures.demand("every receipt became one item, and each succeeded", items == Counter({"succeeded": len(stored)}))
    figures.demand("what was stored was worked off within a minute", drained < 60)
    figures.demand("the worker and the web server lived on", worker_lives and server_lives)
    if ground.size != "shortest":
        figures.demand("afterwards the rate is at least 0.95 of what it was", ratio >= 0.95)
