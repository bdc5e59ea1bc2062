"""R1, the kill matrix: SIGKILL between every two statements and at the program's own failpoints.

The places of a scenario are found by running it once: before and after each statement and each COMMIT. Then it is
run anew for each place and killed there, started again, and the books are compared.
"""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from batteries import books, hook
from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.forking import StillRunning, fork
from batteries.r1_scenarios import Admit, Ingest, Materialize, Ranges, Reap, Work
from batteries.scenarios import Prepared, Scenario

NAMED = re.compile(r"""failpoint\(\s*["']([\w.]+)["']""")
#: The keeper sends these when its clock says so: a short run passes them or not.
CLOCKED = re.compile(r"RECORD_HEARTBEATS|LIST_LIVE_CLAIMERS")
SCENARIOS: tuple[Scenario, ...] = (Ingest(), Materialize(), Admit(), Work(), Reap(), Ranges())


def observe(
    scenario: Scenario, prepared: Prepared, seed: int, *, place: str = "", nth: int = 1, fired: str = "", mutant: bool
) -> Counter[str]:
    """Run a scenario, to be killed at a place; return the places that were passed."""
    points = hook.Points(armed=place, occurrence=nth, fired=Path(fired) if fired else None)
    hook.install(*((hook.CommitEach(),) if mutant else ()), points)
    scenario.act(prepared, seed)
    return points.passed


def places_of(ground: Ground, scenario: Scenario) -> dict[str, int]:
    """Return the places that every run of a scenario passes, with how often at least."""
    seen = []
    # Where threads meet, not every run passes the same.
    for _ in range(1 if scenario.is_repeatable else 2):
        scenario.empty()
        prepared = scenario.prepare(ground.folder, 0)
        seen.append(fork(ground.folder, observe, scenario, prepared, 0, mutant=ground.mutant).value())
        assert scenario.lost(prepared) == [] or ground.mutant, scenario.lost(prepared)
    return {place: min(count, seen[-1][place]) for place, count in seen[0].items() if place in seen[-1]}


@dataclass
class Tally:
    """What the kills came to."""

    kills: int = 0
    torn: int = 0
    lost: int = 0
    twice: int = 0
    stuck: int = 0
    crooked: int = 0
    #: The places that were killed at.
    killed: set[str] = field(default_factory=set)
    #: The first findings, to read.
    findings: list[str] = field(default_factory=list)

    def found(self, where: str, what: Sequence[str]) -> int:
        """Keep findings; return how many they are."""
        self.findings = [*self.findings, *(f"{where}: {one}" for one in what)][:10]
        return len(what)


def kill_once(ground: Ground, scenario: Scenario, tally: Tally, *, place: str, nth: int, seed: int) -> bool:
    """Kill at a place, start again, compare; return whether the place was reached."""
    scenario.empty()
    prepared = scenario.prepare(ground.folder, seed)
    fired = ground.folder / "fired"
    fired.unlink(missing_ok=True)
    victim = fork(
        ground.folder, observe, scenario, prepared, seed, place=place, nth=nth, fired=str(fired), mutant=ground.mutant
    )
    if victim.wait() != -signal.SIGKILL or not fired.exists() or fired.read_text() != place:
        return False
    where = f"{scenario.name} {place} {nth}"
    tally.kills += 1
    tally.torn += tally.found(where, scenario.torn(prepared, place))
    before = scenario.items()
    scenario.expire_leases()
    again = fork(ground.folder, scenario.recover, prepared, seed)
    try:
        again.wait(200)
    except StillRunning:
        # It waits for what will never end.
        tally.stuck += 1
        return True
    after = scenario.items()
    tally.lost += tally.found(where, scenario.lost(prepared))
    tally.twice += tally.found(where, scenario.twice(prepared, before, after))
    if prepared.wanted:
        tally.stuck += len(after) - len(books.terminal(after))
    tally.crooked += tally.found(where, scenario.crooked(after))
    return True


def chosen(ground: Ground, scenario: Scenario, places: dict[str, int]) -> list[str]:
    """Return the places to kill at: all, or for the shortest form telling ones and a few others."""
    names = sorted(name for name in places if not CLOCKED.search(name))
    if ground.size != "shortest":
        return names
    chance = random.Random(f"{ground.seed} {scenario.name}")
    telling = [name for name in names if scenario.telling.search(name)]
    others = [name for name in names if name not in telling]
    return [
        name
        for few, found in zip(scenario.few, (telling, others), strict=True)
        for name in chance.sample(found, min(few, len(found)))
    ]


def times_of(ground: Ground, scenario: Scenario, count: int, seed: int) -> list[list[int]]:
    """Return for each kill which passing of a place to try, in turn."""
    nth = 1 + (ground.seed + seed) % count
    if not scenario.is_repeatable:
        # Threads may pass a later occurrence in another order; the first one always comes.
        return [[nth, 1, 1]]
    return [[n] for n in range(1, count + 1)] if ground.size != "shortest" else [[nth]]


def attack(ground: Ground, figures: Figures, scenarios: Sequence[Scenario], *, seeds: int) -> Tally:
    """Kill everywhere in some scenarios, and say what was found.

    Args:
        ground: Where.
        figures: Gets the figures and what must hold.
        scenarios: What is killed.
        seeds: How often each place is tried.

    Returns:
        What the kills came to.
    """
    tally = Tally()
    by_scenario: dict[str, str] = {}
    unreached: list[str] = []
    places_killed = 0
    for scenario in scenarios:
        with scenario.around(ground):
            places = places_of(ground, scenario)
            names = chosen(ground, scenario, places)
            before = tally.kills
            for place in names:
                for seed in range(seeds):
                    for turn in times_of(ground, scenario, places[place], seed):
                        if any(kill_once(ground, scenario, tally, place=place, nth=n, seed=seed) for n in turn):
                            tally.killed.add(place)
                        else:
                            unreached.append(f"{scenario.name} {place}")
            scenario.empty()
        places_killed += len(names)
        by_scenario[scenario.name] = f"{len(names)} places, {tally.kills - before} kills"
    named = {name for path in (ROOT / "integration").rglob("*.py") for name in NAMED.findall(path.read_text())}
    figures.note(
        places=places_killed,
        seeds=seeds,
        kills=tally.kills,
        scenarios=by_scenario,
        named_failpoints=sorted(named & tally.killed),
        failpoints_elsewhere=sorted(named - tally.killed),
        fired=tally.kills,
        not_fired=unreached,
        lost=tally.lost,
        effective_twice=tally.twice,
        stuck=tally.stuck,
        books_that_disagree=tally.crooked,
        findings=tally.findings,
    )
    figures.demand("every place was reached and killed at", not unreached and tally.kills > 0)
    figures.demand("nothing was lost", tally.lost == 0)
    figures.demand("nothing that had ended moved again, and no attempt ran twice", tally.twice == 0)
    figures.demand("nothing is stuck", tally.stuck == 0)
    figures.demand("attempts, epochs and attempt rows agree", tally.crooked == 0)
    return tally


def run(ground: Ground, figures: Figures) -> None:
    """Kill everywhere in the kernel's work."""
    # Without transactions a worker's books break so that it waits for ever; the materializer's tell at once.
    scenarios = (Materialize(), Admit()) if ground.mutant else SCENARIOS
    attack(ground, figures, scenarios, seeds=ground.pick(1, 1, 14))
