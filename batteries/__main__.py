"""`python -m batteries`: run batteries; exit 0 when every guarantee held, 1 when one broke, 3 when a battery did not
work."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback

from batteries import database
from batteries.database import Ground
from batteries.figures import Figures

#: Name -> its module. Those that end the database have a server of their own.
BATTERIES = {
    "r1": "batteries.r1_kills",
    "r1-replay": "batteries.r1_replays",
    "r1-cutover": "batteries.r1_cutovers",
    "r2": "batteries.r2_races",
    "r3": "batteries.r3_zombies",
    "r4": "batteries.r4_commits",
    "r4-replay": "batteries.r4_replays",
    "r4-cutover": "batteries.r4_cutovers",
    "r5": "batteries.r5_outages",
    "r6": "batteries.r6_histories",
    "r6-replay": "batteries.r6_replays",
    "r7": "batteries.r7_models",
    "r7-cutover": "batteries.r7_cutovers",
    "r8": "batteries.r8_interleavings",
    "r10": "batteries.r10_faults",
    "r12": "batteries.r12_soak",
}
OWN_SERVER = frozenset({"r5"})
#: These ask no database.
NO_SERVER = frozenset({"r7", "r7-cutover"})
BROKEN, NOT_WORKING = 1, 3


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="bin/batteries", description="Attack the guarantees, and count.")
    parser.add_argument("battery", nargs="*", help=f"of {', '.join(BATTERIES)}; all when none is named")
    parser.add_argument("--engine", choices=["mariadb", "tidb"], default="mariadb")
    parser.add_argument("--database-url", help="a database with nothing in it that matters, instead of a throwaway")
    parser.add_argument("--form", choices=["shortest", "short", "long"], default="short")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="how long r12 lasts; its form decides when it is not said")
    parser.add_argument("--mutant", action="store_true", help="take the guard away: the battery must break")
    options = parser.parse_args()
    names = options.battery or list(BATTERIES)
    if unknown := set(names) - set(BATTERIES):
        parser.error(f"no battery is called {', '.join(sorted(unknown))}")
    engine = "tidb" if (options.database_url or "").startswith("tidb:") else options.engine
    if not options.battery and engine == "tidb":
        # They ran before the other database's.
        names = [name for name in names if name not in NO_SERVER]
    worst = 0
    with contextlib.ExitStack() as stack:
        url = options.database_url
        if url is None and set(names) - OWN_SERVER - NO_SERVER:
            url = stack.enter_context(database.server(engine))
        if url is not None:
            database.load_django(url)
            database.install_schema()
        for name in names:
            if name in OWN_SERVER and len(names) > 1:
                # It loads the program on its own server: a process of its own.
                worst = max(worst, _alone(name, engine, options))
            else:
                worst = max(worst, _run(name, engine, url or "", options))
    return worst


def _run(name: str, engine: str, url: str, options: argparse.Namespace) -> int:
    engine = "no database" if name in NO_SERVER else engine
    figures = Figures(battery=name, engine=engine, form=options.form, seed=options.seed, mutant=options.mutant)
    try:
        with database.scratch() as folder:
            ground = Ground(
                engine=engine,
                url=url,
                folder=folder,
                size=options.form,
                seed=options.seed,
                mutant=options.mutant,
                seconds=options.seconds,
            )
            importlib.import_module(BATTERIES[name]).run(ground, figures)
    except Exception:
        traceback.print_exc()
        return NOT_WORKING
    figures.show()
    figures.store()
    return 0 if figures.holds else BROKEN


def _alone(name: str, engine: str, options: argparse.Namespace) -> int:
    sys.stdout.flush()
    arguments = [name, "--engine", engine, "--form", options.form, "--seed", str(options.seed)]
    if options.mutant:
        arguments.append("--mutant")
    return os.waitstatus_to_exitcode(
        os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-m", "batteries", *arguments], os.environ), 0)[1]
    )


if __name__ == "__main__":
    sys.exit(main())
