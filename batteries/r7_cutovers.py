"""R7, model checking: spin walks through every interleaving of the inbound cutover and its rollback,
`models/cutover.pml`.

It asks no database. A work that nobody will ever end is a state in which everybody waits, and breaks the walk as a
deadlock does. Each guard is then taken out of the model, with the one that doubles it where either alone holds: spin
must find a trace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from batteries.database import Ground
from batteries.figures import Figures
from batteries.r7_models import Walk, defines_of, walk

MODEL: Final = Path(__file__).parent / "models" / "cutover.pml"
_ONE: Final = ("ROUNDS=1",)
_BACK_AND_FORTH: Final = ("ROUNDS=2",)
#: Two works, which go over in two transactions, and an input that comes in between.
_CRASHED_CHUNKS: Final = ("WORKS=2", "ROUNDS=1", "START=1")
_CHUNKS: Final = (*_CRASHED_CHUNKS, "CRASHES=0")
_TWO_OPERATORS: Final = ("OPERATORS=2", "ROUNDS=1", "START=1", "CRASHES=0")
_AFTER_FORWARD: Final = ("ROUNDS=2", "START=1", "CRASHES=0")
SHORTEST: Final[Sequence[tuple[str, ...]]] = (_ONE,)
SHORT: Final[Sequence[tuple[str, ...]]] = (_BACK_AND_FORTH, _CRASHED_CHUNKS, _TWO_OPERATORS)
LONG: Final[Sequence[tuple[str, ...]]] = (
    *SHORT,
    ("OPERATORS=2", "ROUNDS=1", "START=0", "CRASHES=0"),
    ("ROUNDS=3",),
)
#: Guard -> what is defined to take it away, and small bounds in which it is missed.
GUARDS: Final[Mapping[str, tuple[str, ...]]] = {
    "a claim holds its process's own row": ("ROW_LOCK", *_ONE),
    "a cutover evicts the claimers": ("EVICTION", *_ONE),
    "a process registers under the pack's lock": ("REGISTER_LOCK", *_ONE),
    "a worker does not register while a rollback is open": ("ROLLBACK_LOOK", *_ONE),
    "what a rollback handed over is given back before it is abandoned": ("GIVEN_BACK", *_CRASHED_CHUNKS),
    "a rollback that has its receipt is not abandoned": ("SEALED_LOOK", *_AFTER_FORWARD),
    "the Event's end and its outcome are one transaction": ("OUTCOME_TRANSACTION", *_ONE),
    "a claim asks whether its row was evicted": ("EVICTED", *_ONE),
    "the receipt is looked at, by registration and by claim": ("FORWARD_LOOK", "OBSERVED", *_ONE),
    "executors are evicted, and their receipt is out of date": ("EXECUTOR_EVICTION", "OBSERVED", *_ONE),
    "executors are evicted, and their lease is seized": ("EXECUTOR_EVICTION", "SEIZURE", *_ONE),
    "a seized lease lets nobody register or claim": ("SEIZED_LOOK", "SEIZURE", *_ONE),
    "every eligible Event has its WorkItem first": ("MATERIALIZED", *_ONE),
    "what has a WorkItem gets no other": ("COVERED", *_ONE),
    "claims of Events are drained": ("DRAIN", *_ONE),
    "an end names its claim's token": ("TOKEN", *_ONE),
    "a rollback is reconciled before the next forward": ("RECONCILED_FIRST", *_AFTER_FORWARD),
    "what runs is not rolled back, nor left outside": ("IN_HAND", "OUTSIDE", "SURVEY", *_ONE),
    "what was executed before is not handed over": ("HISTORY", "SURVEY", *_CHUNKS),
    "the last chunk is the last, and leaves nothing outside": ("LAST", "OUTSIDE", *_CHUNKS),
    "Events go back to the executor": ("RETURNED", *_ONE),
    "of two rollbacks one writes the receipt": ("ONE_RECEIPT", *_TWO_OPERATORS),
    "the executor keeps to its own Events": ("HOLD", "OWNER", *_ONE),
    "only a build that leaves outcomes is admitted": ("BRIDGE", "HOLD", *_ONE),
    "an Event and its outcome are seen as of one moment": ("ONE_STATEMENT", *_AFTER_FORWARD),
    "only the outcome of an Event that has ended is missed": ("ENDED_EVENT", *_AFTER_FORWARD),
}
#: Those that the shortest form takes away.
SHORTEST_GUARDS: Final = tuple(GUARDS)[3:5]


def walk_of(folder: Path, words: Sequence[str], *, optimize: int = 0) -> Walk:
    """Walk through the model within bounds, without the guards that are named by bare words."""
    return walk(folder, defines_of(words), model=MODEL, optimize=optimize)


def run(ground: Ground, figures: Figures) -> None:
    """Walk through the model, and take each guard away."""
    removed = ("EVICTION",) if ground.mutant else ()
    bounds = ground.pick(SHORTEST, SHORT, LONG)
    guards = () if ground.mutant else ground.pick(SHORTEST_GUARDS, tuple(GUARDS), tuple(GUARDS))
    optimize = ground.pick(0, 1, 2)
    walks = {
        ", ".join(words): walk_of(ground.folder / f"walk-{number}", (*removed, *words), optimize=optimize)
        for number, words in enumerate(bounds)
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda pair: walk_of(ground.folder / f"guard-{pair[0]}", GUARDS[pair[1]]), enumerate(guards))
        traces = dict(zip(guards, found, strict=True))
    missed = {guard: walked.broken for guard, walked in traces.items() if walked.broken and walked.trace}
    broken = {name: walked.broken for name, walked in walks.items() if walked.broken}
    figures.note(
        states={name: walked.states for name, walked in walks.items()},
        states_in_all=sum(walked.states for walked in walks.values()),
        depth=max(walked.depth for walked in walks.values()),
        violations=len(broken),
        broken=broken,
        guards_removed=len(guards),
        traces_found=len(missed),
        missed=missed,
    )
    figures.demand("no interleaving breaks a rule or leaves a work that nobody will ever end", not broken)
    if guards:
        figures.demand("each guard that is taken away is missed", set(missed) == set(guards))
