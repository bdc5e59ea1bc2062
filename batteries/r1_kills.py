"""R1, the kill matrix: SIGKILL at every place between two statements, and at the program's own failpoints.

The places of a scenario are found by running it once: before and after each statement and each COMMIT. Then it is
run anew for each place and killed there, started again, and the books are compared.
"""

from __future__ import annotations

import random
import re
import signal
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batteries import books, hook, kernel
from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.forking import StillRunning, fork
from integration.ingress.service import materialize_ready
from integration.values import new_id
from tests.support import cleaning, webhooks
from tests.support.work import Pack, change

NAMED = re.compile(r"""failpoint\(\s*["']([\w.]+)["']""")
#: The keeper sends these when its clock says so: a short run passes them or not.
CLOCKED = re.compile(r"RECORD_HEARTBEATS|LIST_LIVE_CLAIMERS")
#: What each item's flow does on its attempts, and how the item must end.
PLANS: tuple[tuple[list[str], str, dict[str, Any]], ...] = (
    (["complete"], "succeeded", {}),
    (["skip"], "skipped", {}),
    (["retry", "complete"], "succeeded", {}),
    (["reject"], "dead", {}),
    (["retry"], "dead", {"MaxAttempts": 2}),
    (["cancel"], "cancelled", {}),
    (["complete"], "succeeded", {}),
)


@dataclass
class Prepared:
    """What a scenario was given.

    Attributes:
        wanted: How each item must end, by WorkId.
        deliveries: What is delivered.
        record: Where flows note their runs.
        acked: Where answers of 200 are noted.
    """

    wanted: dict[str, str]
    deliveries: list[str]
    record: Path
    acked: Path


class Scenario(ABC):
    """A piece of the program's work that can be prepared, run, and run again after a kill."""

    name = ""

    @abstractmethod
    def prepare(self, folder: Path, seed: int) -> Prepared:
        """Put the rows in place."""

    @abstractmethod
    def act(self, prepared: Prepared, seed: int) -> None:
        """Do the work; also what is done again after the kill."""

    @abstractmethod
    def lost(self, prepared: Prepared) -> list[str]:
        """Return what was put in and did not come out as it must."""


def paths(folder: Path) -> tuple[Path, Path]:
    """Return fresh files for runs and answers."""
    for name in ("runs", "acked"):
        (folder / name).unlink(missing_ok=True)
    return folder / "runs", folder / "acked"


class Ingest(Scenario):
    """Signed webhooks through the web application; the provider repeats what was not answered, and more."""

    name = "ingest"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        webhooks.activate()
        record, acked = paths(folder)
        return Prepared({}, [f"d-{number}" for number in range(3)], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        from django.test import Client

        client = Client()
        for number, delivery in enumerate(prepared.deliveries):
            if webhooks.post(client, webhooks.deal(number), delivery_id=delivery).status_code == 200:
                with prepared.acked.open("a", encoding="ascii") as file:
                    file.write(f"{delivery}\n")

    def lost(self, prepared: Prepared) -> list[str]:
        stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
        answered = set(prepared.acked.read_text().split()) if prepared.acked.exists() else set()
        return sorted({name for name in prepared.deliveries if stored[name] != 1} | (answered - set(stored)))


class Materialize(Ingest):
    """Receipts to Events and WorkItems, in pages of three."""

    name = "materialize"
    document = None

    def prepare(self, folder: Path, seed: int) -> Prepared:
        from django.test import Client

        webhooks.activate(self.document)
        record, acked = paths(folder)
        client = Client()
        deliveries = [f"d-{number}" for number in range(5)]
        for number, delivery in enumerate(deliveries):
            answer = webhooks.post(client, webhooks.deal(number % 3), delivery_id=delivery)
            assert answer.status_code == 200, answer.content
        return Prepared({}, deliveries, record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        materialize_ready(2 + seed % 3)

    def lost(self, prepared: Prepared) -> list[str]:
        receipts = {row["ReceiptId"]: row for row in webhooks.rows("IngressReceipt")}
        events = webhooks.rows("Event", "LaneOrdinal")
        made = Counter(row["ReceiptId"] for row in events)
        wrong = [
            receipt_id
            for receipt_id, row in receipts.items()
            if row["State"] != "materialized" or made[receipt_id] != 1
        ]
        if [row["LaneOrdinal"] for row in events] != list(range(1, len(prepared.deliveries) + 1)):
            wrong.append("ordinals")
        return wrong + books.uncovered_events()


class Admit(Materialize):
    """The same with a route whose inputs are collected into ranges."""

    name = "admission"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        self.document = webhooks.variant("demo", ("execution: per_event", "execution: source_projection"))
        return super().prepare(folder, seed)


class Work(Scenario):
    """Claims, completions and failures by a whole worker."""

    name = "work"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        pack = Pack(flow="batteries.end")
        wanted: dict[str, str] = {}
        for plan, state, over in PLANS:
            values = {"MaxAttempts": 6, **over}
            (work_id,) = pack.admit(payload={"file": str(record), "plan": plan}, **values)
            if state == "cancelled":
                change(
                    "UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s",
                    work_id,
                )
            wanted[work_id] = state
        return Prepared(wanted, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.work_until_idle(concurrency=1 + seed % 3)

    def lost(self, prepared: Prepared) -> list[str]:
        rows, ran = books.items(), set(kernel.runs(prepared.record))
        wrong = [work_id for work_id, state in prepared.wanted.items() if rows[work_id]["State"] != state]
        unrun = [
            work_id
            for work_id, row in rows.items()
            if row["State"] in {"succeeded", "skipped"} and (work_id, row["Attempt"]) not in ran
        ]
        return wrong + unrun


class Reap(Work):
    """Taking back what a lost claimant held: some with attempts left, some without."""

    name = "reap"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        pack = Pack(flow="batteries.end")
        kept = pack.admit(2, payload={"file": str(record), "plan": ["complete"]}, MaxAttempts=6)
        spent = pack.admit(2, payload={"file": str(record), "plan": ["complete"]}, MaxAttempts=1)
        held = fork(folder, hold, count=4).value()
        assert held == 4, held
        books.expire_leases()
        return Prepared({**dict.fromkeys(kept, "succeeded"), **dict.fromkeys(spent, "dead")}, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.reap_now(kernel.register("reap"))
        kernel.work_until_idle(roles=["claim"], concurrency=1)


class Ranges(Scenario):
    """Generations of a projection: one is taken back from its lost claimant, and hands on to its queued successor."""

    name = "ranges"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        webhooks.activate(
            webhooks.variant(
                "demo",
                ("execution: per_event", "execution: source_projection"),
                ("flow: {name: demo.apply_deal, version: 1}", "flow: {name: tests.noop, version: 1}"),
            )
        )
        self._receive(1, 1, 2)
        materialize_ready()
        held = fork(folder, hold, count=1 + seed % 2).value()
        assert held == 1 + seed % 2, held
        self._receive(1, 2, 2)
        materialize_ready()
        books.expire_leases()
        wanted = dict.fromkeys(books.items(), "succeeded")
        assert len(wanted) > 2, "no successor was queued"
        return Prepared(wanted, [], record, acked)

    def _receive(self, *deals: int) -> None:
        from django.test import Client

        for deal in deals:
            answer = webhooks.post(Client(), webhooks.deal(deal), delivery_id=new_id())
            assert answer.status_code == 200, answer.content

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.reap_now(kernel.register("reap"))
        kernel.work_until_idle(roles=["claim"], concurrency=1 + seed % 2)

    def lost(self, prepared: Prepared) -> list[str]:
        rows = books.items()
        ended = {"succeeded", "skipped"}
        # An input that a later one took over while it waited ends as skipped.
        wrong = [work_id for work_id in prepared.wanted if rows[work_id]["State"] not in ended]
        keyed = [work_id for work_id, row in rows.items() if row["ProjectionActiveKey"] is not None]
        return wrong + keyed + books.uncovered_events()


SCENARIOS: tuple[Scenario, ...] = (Ingest(), Materialize(), Admit(), Work(), Reap(), Ranges())


def hold(*, count: int) -> int:
    """Claim, and end without a word."""
    return len(kernel.claim_all(kernel.register(), count))


def observe(
    scenario: Scenario, prepared: Prepared, seed: int, *, place: str = "", nth: int = 1, fired: str = "", mutant: bool
) -> Any:
    """Run a scenario, to be killed at a place; return the places that were passed."""
    points = hook.Points(armed=place, occurrence=nth, fired=Path(fired) if fired else None)
    hook.install(*((hook.CommitEach(),) if mutant else ()), points)
    scenario.act(prepared, seed)
    return points.passed


def recover(scenario: Scenario, prepared: Prepared, seed: int) -> None:
    """Run it again, as a restarted process would."""
    scenario.act(prepared, seed)


def places_of(ground: Ground, scenario: Scenario) -> dict[str, int]:
    """Return the places that every run of a scenario passes, with how often at least."""
    seen = []
    for _ in range(2):
        cleaning.empty_database()
        prepared = scenario.prepare(ground.folder, 0)
        seen.append(fork(ground.folder, observe, scenario, prepared, 0, mutant=ground.mutant).value())
        assert scenario.lost(prepared) == [] or ground.mutant, scenario.lost(prepared)
    return {place: min(count, seen[1][place]) for place, count in seen[0].items() if place in seen[1]}


@dataclass
class Tally:
    """What the kills came to."""

    kills: int = 0
    lost: int = 0
    twice: int = 0
    stuck: int = 0
    crooked: int = 0


def kill_once(ground: Ground, scenario: Scenario, tally: Tally, *, place: str, nth: int, seed: int) -> bool:
    """Kill at a place, start again, compare; return whether the place was reached."""
    cleaning.empty_database()
    prepared = scenario.prepare(ground.folder, seed)
    fired = ground.folder / "fired"
    fired.unlink(missing_ok=True)
    victim = fork(
        ground.folder, observe, scenario, prepared, seed, place=place, nth=nth, fired=str(fired), mutant=ground.mutant
    )
    if victim.wait() != -signal.SIGKILL or not fired.exists() or fired.read_text() != place:
        return False
    tally.kills += 1
    before = books.items()
    books.expire_leases()
    again = fork(ground.folder, recover, scenario, prepared, seed)
    try:
        again.wait(40)
    except StillRunning:
        # It waits for what will never end.
        tally.stuck += 1
        return True
    after, tried = books.items(), books.attempts()
    ran = kernel.runs(prepared.record)
    tally.lost += len(scenario.lost(prepared))
    tally.twice += len(books.moved_again(before, after)) + len(books.ran_too_often(after, ran))
    if prepared.wanted:
        tally.stuck += len(after) - len(books.terminal(after))
    tally.crooked += len(books.crooked(after, tried))
    return True


def chosen(ground: Ground, places: dict[str, int]) -> list[str]:
    """Return the places to kill at: all, or for the shortest form the telling ones and a few others."""
    names = sorted(name for name in places if not CLOCKED.search(name))
    if ground.size != "shortest":
        return names
    telling = [name for name in names if re.search(r"after:(INSERT_EVENTS|FIRST_CLAIM|REAP_\w+)$|^handoff", name)]
    others = [name for name in names if name not in telling]
    return telling + random.Random(ground.seed).sample(others, min(5, len(others)))


def run(ground: Ground, figures: Figures) -> None:
    """Kill everywhere."""
    seeds = ground.pick(1, 1, 14)
    tally = Tally()
    by_scenario: dict[str, str] = {}
    unreached: list[str] = []
    reached: set[str] = set()
    # Without transactions a worker's books break so that it waits for ever; the materializer's tell at once.
    for scenario in (Materialize(), Admit()) if ground.mutant else SCENARIOS:
        places = places_of(ground, scenario)
        reached |= set(places)
        names = chosen(ground, places)
        before = tally.kills
        for place in names:
            for seed in range(seeds):
                nth = 1 + (ground.seed + seed) % places[place]
                # Threads may pass a later occurrence in another order; the first one always comes.
                if not any(kill_once(ground, scenario, tally, place=place, nth=n, seed=seed) for n in (nth, 1, 1)):
                    unreached.append(f"{scenario.name} {place}")
        by_scenario[scenario.name] = f"{len(names)} places, {tally.kills - before} kills"
    cleaning.empty_database()
    named = {name for path in (ROOT / "integration").rglob("*.py") for name in NAMED.findall(path.read_text())}
    figures.note(
        places=sum(int(text.split()[0]) for text in by_scenario.values()),
        seeds=seeds,
        kills=tally.kills,
        scenarios=by_scenario,
        named_failpoints=sorted(named & reached),
        failpoints_elsewhere=sorted(named - reached),
        fired=tally.kills,
        not_fired=unreached,
        lost=tally.lost,
        effective_twice=tally.twice,
        stuck=tally.stuck,
        books_that_disagree=tally.crooked,
    )
    figures.demand("every place was reached and killed at", not unreached and tally.kills > 0)
    figures.demand("nothing was lost", tally.lost == 0)
    figures.demand("nothing that had ended moved again, and no attempt ran twice", tally.twice == 0)
    figures.demand("nothing is stuck", tally.stuck == 0)
    figures.demand("attempts, epochs and attempt rows agree", tally.crooked == 0)
