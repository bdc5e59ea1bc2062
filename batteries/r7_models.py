"""R7, model checking: spin walks through every interleaving of the replay protocol's model, `models/replay.pml`.

It asks no database. Each guard of the protocol is then taken out of the model: spin must find a trace that breaks a
rule, or ends in a deadlock, or leaves a dead item unseen for ever. A guard that another one doubles is taken away
together with it, since either alone holds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken

MODEL: Final = Path(__file__).parent / "models" / "replay.pml"
CLAIM: Final = "no_dead_item_unseen"
#: What `REPLAYERS` and `COMPANY` (who else is about, of claimant, executor, admission, rotation, sweep, fence) are.
SHORTEST: Final = ((1, 1), (2, 0))
SHORT: Final = ((2, 1), (1, 2))
LONG: Final = ((2, 2), (1, 3))
#: Guard -> what is defined to take it away, and the smallest bounds and kind in which it is missed.
GUARDS: Final[Mapping[str, tuple[str, ...]]] = {
    "the rules are asked again under the locks": ("REREAD", "REPLAYERS=1", "COMPANY=1"),
    "reservation, unique keys and second look together": ("REREAD", "RESERVATION", "UNIQUE_KEYS", "COMPANY=0"),
    "the packs are locked": ("PACK_LOCK", "REPLAYERS=1", "COMPANY=1"),
    "packs before Events": ("EVENT_AFTER_PACK", "REPLAYERS=1", "COMPANY=1", "KIND=mirror"),
    "Events before WorkItems": ("ITEM_AFTER_EVENT", "REPLAYERS=1", "COMPANY=1", "KIND=mirror"),
    "everything is written in one transaction": ("TRANSACTION", "REPLAYERS=1", "COMPANY=0"),
    "a claimed WorkItem has authority": ("GATE", "REPLAYERS=1", "COMPANY=0"),
    "two candidates are refused": ("AMBIGUITY", "REPLAYERS=1", "COMPANY=0", "KIND=ambiguous"),
    "the Event's replay before the cut is a fence": ("EVENT_FENCE", "REPLAYERS=1", "COMPANY=0"),
    "the WorkItem's replay leaves the Event alone": ("EVENT_UNTOUCHED", "REPLAYERS=1", "COMPANY=0"),
    "the mirror ends with its Event": ("MIRROR_END", "REPLAYERS=1", "COMPANY=0", "KIND=mirror"),
    "the source scope, and the active key": ("SCOPE", "UNIQUE_KEYS", "REPLAYERS=1", "COMPANY=1"),
    "Events of the source that nobody executes": ("SUCCESSOR", "REPLAYERS=1", "COMPANY=1"),
    "the incarnation is active, and its route live": ("PACK_STATUS", "ROUTE", "REPLAYERS=1", "COMPANY=1"),
    "the route is live": ("ROUTE", "REPLAYERS=1", "COMPANY=1"),
    "the route keeps the execution class": ("CLASS", "REPLAYERS=1", "COMPANY=1"),
    "no admission fence is armed": ("FENCE", "REPLAYERS=1", "COMPANY=1"),
    "arming a fence waits for the pack's row": ("BARRIER", "REPLAYERS=1", "COMPANY=1"),
    "a first claim names what the Event must be": ("CLAIM_OF_EVENT", "REPLAYERS=0", "COMPANY=2"),
    "an end hands the active key on": ("HANDOFF", "REPLAYERS=0", "COMPANY=2", "KIND=owned"),
    "the hand-over is a later statement": ("LATER_STATEMENT", "REPLAYERS=0", "COMPANY=2", "KIND=owned"),
    "an admission locks what it decides by": ("ADMISSION_LOCKS", "REPLAYERS=0", "COMPANY=2", "KIND=owned"),
    "the list reads what WorkItems own": ("LIST_OF_ITEMS", "LIVENESS", "REPLAYERS=1", "COMPANY=1"),
}
#: Those that the shortest form takes away.
SHORTEST_GUARDS: Final = tuple(GUARDS)[:6] + tuple(GUARDS)[-4:]
_SWITCHES: Final = frozenset({"LIVENESS"})
#: The largest bounds take some 1.4 GiB; of its own accord spin stops at one.
_MOST_MIB: Final = 8192
_FOUND: Final = re.compile(r"^pan:\d+: (.+?) \(at depth (\d+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What spin found.

    Attributes:
        states: Different states that it saw.
        depth: The longest way from the beginning.
        broken: What the counterexample breaks; empty when there is none.
        trace: The counterexample, step by step.
    """

    states: int
    depth: int
    broken: str
    trace: str


def defines_of(words: Sequence[str]) -> list[str]:
    """Return spin's arguments for a guard's words: a bare one is a guard to take away."""
    return [f"-D{word}" if "=" in word or word in _SWITCHES else f"-DNO_{word}" for word in words]


def walk(folder: Path, defines: Sequence[str], *, model: Path = MODEL, optimize: int = 0) -> Walk:
    """Let spin walk through a model in an empty folder.

    Raises:
        BatteryBroken: spin or gcc is missing or refuses the model, or not every state was reached.
    """
    is_liveness = "-DLIVENESS" in defines
    folder.mkdir(parents=True)
    _run(folder, "spin", *defines, "-a", str(model))
    _run(
        folder,
        "gcc",
        "-w",
        f"-O{optimize}",
        "-DCOLLAPSE",
        f"-DMEMLIM={_MOST_MIB}",
        "-DNFAIR=4" if is_liveness else "-DSAFETY",
        "-o",
        "pan",
        "pan.c",
    )
    told = _run(folder, "./pan", "-m100000", *(("-a", "-f", "-N", CLAIM) if is_liveness else ()))
    found = _FOUND.search(told)
    stored, depth = re.search(r"(\d+) states, stored", told), re.search(r"depth reached (\d+)", told)
    is_cut = "error: max search depth" in told or (found is None and "Search not completed" in told)
    if stored is None or depth is None or is_cut or (found is None) != ("errors: 0" in told):
        message = f"spin's walk says neither:\n{told}"
        raise BatteryBroken(message)
    trace = "" if found is None else _run(folder, "spin", *defines, "-k", f"{model.name}.trail", "-t", "-p", str(model))
    return Walk(
        states=int(stored[1]),
        depth=int(depth[1]),
        broken="" if found is None else found[1],
        trace=trace,
    )


def _run(folder: Path, program: str, *arguments: str) -> str:
    if program != "./pan" and shutil.which(program) is None:
        message = f"{program} is not installed; bin/setup test installs it"
        raise BatteryBroken(message)
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0 and program != "./pan":
        message = f"{program} failed:\n{done.stdout}{done.stderr}"
        raise BatteryBroken(message)
    return done.stdout


def without(folder: Path, guard: str) -> Walk:
    """Walk through the model without a guard."""
    return walk(folder, defines_of(GUARDS[guard]))


def run(ground: Ground, figures: Figures) -> None:
    """Walk through the model, ask for its liveness, and take each guard away."""
    removed = ("-DNO_REREAD",) if ground.mutant else ()
    bounds = ground.pick(SHORTEST, SHORT, LONG)
    guards = () if ground.mutant else ground.pick(SHORTEST_GUARDS, tuple(GUARDS), tuple(GUARDS))
    optimize = ground.pick(0, 1, 2)
    walks = {
        f"replayers {replayers}, company {company}": walk(
            ground.folder / f"walk-{replayers}-{company}",
            (f"-DREPLAYERS={replayers}", f"-DCOMPANY={company}", *removed),
            optimize=optimize,
        )
        for replayers, company in bounds
    }
    live = walk(ground.folder / "live", ("-DLIVENESS", f"-DREPLAYERS={ground.pick(1, 1, 2)}", "-DCOMPANY=2"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        traces = dict(
            zip(
                guards,
                pool.map(lambda pair: without(ground.folder / f"guard-{pair[0]}", pair[1]), enumerate(guards)),
                strict=True,
            )
        )
    found = {guard: missed for guard, missed in traces.items() if missed.broken and missed.trace}
    broken = {name: found_.broken for name, found_ in walks.items() if found_.broken}
    figures.note(
        states={name: found_.states for name, found_ in walks.items()},
        states_in_all=sum(found_.states for found_ in walks.values()),
        depth=max(found_.depth for found_ in walks.values()),
        violations=len(broken),
        broken=broken,
        liveness_states=live.states,
        guards_removed=len(guards),
        traces_found=len(found),
        missed={guard: missed.broken for guard, missed in traces.items()},
    )
    figures.demand("no interleaving breaks a rule or ends in a deadlock", not broken)
    figures.demand("no dead item stays unseen", not live.broken)
    if guards:
        figures.demand("each guard that is taken away is missed", set(found) == set(guards))
