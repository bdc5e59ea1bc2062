"""R6, linearizability: what clients were told about claims, ends and reaps fits one order of events an item.

Clients log when they called and when they were answered; a proxy loses some answers of COMMIT meanwhile. The checker
is porcupine, with a model of one item: its state, its epoch, its token (`linearize/main.go`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from batteries.database import Ground
from batteries.figures import ROOT, Figures
from batteries.forking import BatteryBroken, race
from batteries.r4_commits import behind_proxy
from batteries.r6_clients import ITEMS, READ_ALL, Client, act, facts_of
from tests.support import cleaning
from tests.support.work import Pack, query

CLIENTS = 8
CUT_RATE = 0.02
SOURCE = Path(__file__).parent / "linearize"


def checker() -> Path:
    """Return the built checker."""
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    binary = cache / "lockhouse" / "linearize" / key / "linearize"
    if not binary.is_file():
        go = shutil.which("go") or str(ROOT / ".cache" / "toolchains" / "bin" / "go")
        binary.parent.mkdir(parents=True, exist_ok=True)
        draft = binary.with_suffix(f".{os.getpid()}")
        made = subprocess.run(
            [go, "build", "-mod=readonly", "-o", str(draft), "."],
            cwd=SOURCE,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise BatteryBroken(made.stderr)
        draft.rename(binary)
    return binary


def admit() -> list[str]:
    """Admit the items of a history; return their ids."""
    return Pack().admit(ITEMS, MaxAttempts=100_000)


def check(
    ground: Ground,
    figures: Figures,
    *,
    histories: int,
    steps: int,
    admit: Callable[[], list[str]] = admit,
    client_class: type[Client] = Client,
) -> Counter[str]:
    """Make histories and check each.

    Args:
        ground: Where.
        figures: Gets the figures, and that every history is linearizable.
        histories: How many.
        steps: Operations of each client in each.
        admit: Puts the items in place.
        client_class: What the clients do.

    Returns:
        How often each kind of operation was accepted and refused.
    """
    verdicts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    unknown = operations = dropped = ambiguous = 0
    seconds = 0.0
    for number in range(histories):
        cleaning.empty_database()
        items = admit()
        seed = ground.seed * 1000 + number
        files = [ground.folder / f"history-{seed}-{client}" for client in range(CLIENTS)]
        shared = {"items": items, "steps": steps, "mutant": ground.mutant, "client_class": client_class}
        with behind_proxy(ground, seed, ground.folder / f"sites-{seed}", rate=CUT_RATE) as url:
            told = race(
                ground.folder,
                act,
                [
                    {
                        "url": url,
                        "number": client,
                        "seed": seed * 100 + client,
                        "file": str(files[client]),
                        **shared,
                    }
                    for client in range(CLIENTS)
                ],
            )
        dropped += sum(one["dropped"] for one in told)
        ambiguous += sum(one["ambiguous"] for one in told)
        lines = [line for file in files for line in file.read_text().splitlines()]
        at = time.monotonic_ns()
        for row in query(READ_ALL):
            entry = {"client": CLIENTS, "kind": "read", "item": row["WorkId"], "call": at, "return": at + 1}
            lines.append(json.dumps({**entry, **facts_of(row)}))
        for line in lines:
            entry = json.loads(line)
            kinds[f"{entry['kind']} {'ok' if entry['ok'] else entry.get('code') or 'refused'}"] += 1
        verdict = json.loads(
            subprocess.run([str(checker())], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
        )
        verdicts[verdict["verdict"]] += 1
        unknown += verdict["unknown"]
        operations += verdict["operations"]
        seconds += verdict["seconds"]
    cleaning.empty_database()
    figures.note(
        histories=histories,
        clients=CLIENTS,
        items_per_history=ITEMS,
        operations=operations,
        by_kind=dict(sorted(kinds.items())),
        verdicts=dict(verdicts),
        unknown_operations=unknown,
        unknown_percent=round(100 * unknown / max(operations, 1), 2),
        refused_after_a_lost_answer=ambiguous,
        not_counted_because_surely_not_stored=dropped,
        checker_seconds=round(seconds, 2),
        checker="porcupine v1.3.1",
    )
    figures.demand("every history is linearizable", set(verdicts) == {"Ok"})
    return kinds


def run(ground: Ground, figures: Figures) -> None:
    """Check histories of claims, ends, reaps and reads."""
    histories, steps = ground.pick((2, 60), (5, 250), (100, 625))
    kinds = check(ground, figures, histories=histories, steps=steps)
    figures.demand(
        "stale writes were among them, and refused",
        ground.mutant or kinds["complete refused"] + kinds["retry refused"] > 0,
    )
