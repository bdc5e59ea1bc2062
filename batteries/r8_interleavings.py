"""R8, interleavings: two real operations, statement by statement, in every order that can make a difference.

The orders are walked through depth first. Two statements that touch no table in a way that the other notices can
change places (`Step.is_independent_of`): only the order of dependent ones is turned round, and of the orders that
differ by independent ones one is run (dynamic partial-order reduction with sleep sets, by Flanagan and Godefroid). A
pair whose orders are more than the cap is walked up to it, and then sampled.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from typing import Any, Final

from batteries import hook
from batteries.database import Ground
from batteries.figures import Figures
from batteries.r8_worlds import OF, PARTNERS, REPLAYS, World, broken, make, make_two
from batteries.stepper import Step, Stepper
from integration.storage import db
from tests.support import cleaning

Pair = tuple[str, str, str]
#: The replay without the lock on its packs.
UNLOCKED: Final = hook.Rewrite("LOCK_PACKS", r"FOR UPDATE")
DEADLOCK: Final = 1213
#: Pairs that no order may end in a deadlock; all of them, since every operation locks in one order.
ALLOWED_DEADLOCKS: Final[frozenset[Pair]] = frozenset()
_MUTANT_PAIRS: Final[tuple[Pair, ...]] = (("owned", "replay", "sweep"), ("projection", "replay", "admission"))


@dataclass(slots=True)
class _Node:
    """A point of a schedule at which somebody is let go."""

    steps: dict[int, Step]
    sleep: set[int]
    choice: int
    tried: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)

    def after(self) -> set[int]:
        """Return who need not be let go next: what it does was tried before the choice, and commutes with it."""
        done = self.steps[self.choice]
        return {
            index
            for index in self.sleep | self.tried
            if index != self.choice and index in self.steps and self.steps[index].is_independent_of(done)
        }


@dataclass
class Tally:
    """What came of a pair's schedules."""

    run: int = 0
    redundant: int = 0
    sampled: int = 0
    is_exhausted: bool = False
    codes: Counter[int] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    example: str = ""


def walk(stepper: Stepper, start: Callable[[], None], end: Callable[[str], None], tally: Tally, cap: int) -> None:
    """Run a pair's orders depth first, until there is none left that makes a difference or the cap is reached."""
    stack: list[_Node] = []
    while tally.run + tally.redundant < cap:
        start()
        is_redundant, last = False, 0
        done: list[tuple[int, Step]] = []
        while not stepper.is_over():
            ready, depth = stepper.ready(), len(done)
            if depth < len(stack) and stack[depth].choice not in ready:
                # A lock was waited for at another moment than before.
                del stack[depth:]
            if depth == len(stack) and not is_redundant:
                sleep = stack[-1].after() if stack else set()
                free = [index for index in sorted(ready, key=lambda index: index != last) if index not in sleep]
                if free:
                    stack.append(_Node(steps=ready, sleep=sleep, choice=free[0]))
                is_redundant = not free
            last = min(ready) if is_redundant else stack[depth].choice
            done.append((last, ready[last]))
            stepper.advance(last)
        tally.redundant += is_redundant
        tally.run += not is_redundant
        end(_told(done))
        _want_reversals(stack, done)
        while stack:
            top = stack[-1]
            top.tried.add(top.choice)
            rest = top.wanted & set(top.steps) - top.sleep - top.tried
            if rest:
                top.choice = min(rest)
                break
            stack.pop()
        if not stack:
            tally.is_exhausted = True
            return


def _want_reversals(stack: list[_Node], done: list[tuple[int, Step]]) -> None:
    """Ask for the other order of each step and the last one of the other side that it depends on."""
    for place, (index, step) in enumerate(done):
        for earlier in range(place - 1, -1, -1):
            other, before = done[earlier]
            if other != index and not step.is_independent_of(before):
                if earlier < len(stack):
                    stack[earlier].wanted.add(index)
                break


def _told(done: list[tuple[int, Step]]) -> str:
    return " ".join(f"{'AB'[index]}:{step.name}" for index, step in done)


def sample(
    stepper: Stepper, start: Callable[[], None], end: Callable[[str], None], tally: Tally, chance: random.Random
) -> None:
    """Run an order by chance."""
    start()
    done: list[tuple[int, Step]] = []
    while not stepper.is_over():
        ready = stepper.ready()
        choice = chance.choice(sorted(ready))
        done.append((choice, ready[choice]))
        stepper.advance(choice)
    tally.sampled += 1
    end(_told(done))


def try_pair(stepper: Stepper, pair: Pair, *, cap: int, samples: int, seed: int) -> Tally:
    """Run a pair's orders from the same rows, and look at what each leaves."""
    kind, first, second = pair
    world: World
    if second.startswith(OF):
        world = make_two(kind, second.removeprefix(OF))
    else:
        world = make(kind, second if first == "replay" else "")
    names = (first, f"{second} again" if first == second else second)
    tally = Tally()
    stepper.touched = set()

    def start() -> None:
        world.restore(stepper.touched)
        stepper.begin((world.operations[names[0]], world.operations[names[1]]))

    def end(trace: str) -> None:
        tally.codes.update(stepper.codes)
        faults = broken(world, names, stepper.outcomes(), stepper.commits)
        tally.broken.update(faults)
        if faults and not tally.example:
            tally.example = f"{', '.join(faults)}: {trace}"

    walk(stepper, start, end, tally, cap)
    chance = random.Random(f"{seed}-{pair}")
    for _ in range(0 if tally.is_exhausted else samples):
        sample(stepper, start, end, tally, chance)
    return tally


def pairs() -> Iterator[Pair]:
    """Yield every pair: a replay of each kind with each operation and other kind, and the others with each other."""
    for kind in REPLAYS:
        for second in ("replay", *PARTNERS):
            yield kind, "replay", second
    for kind, other in combinations(REPLAYS, 2):
        yield kind, "replay", f"{OF}{other}"
    for first, second in combinations_with_replacement(PARTNERS, 2):
        if first != second or first in {"claim", "completion", "admission"}:
            yield "work", first, second


def run(ground: Ground, figures: Figures) -> None:
    """Walk through every pair, or in the shortest form through a few orders of some."""
    chosen: list[Pair] = list(_MUTANT_PAIRS) if ground.mutant else list(pairs())
    if ground.size == "shortest" and not ground.mutant:
        chosen = random.Random(ground.seed).sample(chosen, 8)
    cap, samples = ground.pick((6, 2), (150, 50), (3000, 300))
    if ground.mutant:
        cap = 60
    db.pause = lambda tries: None
    stepper = Stepper(ground.engine)
    hook.install(stepper, *((UNLOCKED,) if ground.mutant else ()))
    stepper.start()
    tallies: dict[Pair, Tally] = {}
    try:
        for pair in chosen:
            tallies[pair] = try_pair(stepper, pair, cap=cap, samples=samples, seed=ground.seed)
            if ground.mutant and tallies[pair].broken:
                break
    finally:
        stepper.stop()
        hook.forget()
    cleaning.empty_database()
    show(figures, tallies, stepper)


def show(figures: Figures, tallies: dict[Pair, Tally], stepper: Stepper) -> None:
    """Keep the figures, and say what must hold."""
    codes: Counter[int] = sum((tally.codes for tally in tallies.values()), Counter())
    deadlocks = {pair: tally.codes[DEADLOCK] for pair, tally in tallies.items() if tally.codes[DEADLOCK]}
    faults: dict[str, Any] = {" x ".join(pair): tally.example for pair, tally in tallies.items() if tally.broken}
    figures.note(
        pairs=len(tallies),
        schedules=sum(tally.run for tally in tallies.values()),
        same_as_another=sum(tally.redundant for tally in tallies.values()),
        sampled=sum(tally.sampled for tally in tallies.values()),
        exhausted=sum(tally.is_exhausted for tally in tallies.values()),
        capped=[" x ".join(pair) for pair, tally in tallies.items() if not tally.is_exhausted],
        waits_seen_by_the_database=stepper.blocked,
        errors={str(code): count for code, count in sorted(codes.items())},
        deadlocks={" x ".join(pair): count for pair, count in deadlocks.items()},
        breaks=sum(sum(tally.broken.values()) for tally in tallies.values()),
        broken=faults,
        by_pair={" x ".join(pair): tally.run + tally.sampled for pair, tally in tallies.items()},
    )
    figures.demand("every invariant holds after every schedule", not faults)
    figures.demand("no schedule ends in a deadlock", not set(deadlocks) - ALLOWED_DEADLOCKS)
    figures.demand("schedules were run, and some met a lock", bool(tallies) and stepper.blocked > 0)
