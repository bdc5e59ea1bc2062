"""`python -m tests.model --steps N --seed S`: the long run, by hand; the last line is its result as JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time


def main() -> int:
    """Run on a throwaway server; exit 0 when the database did what the model says, 1 when not."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Run the kernel against its model.")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further examples after so long")
    parser.add_argument("--engine", choices=["mariadb", "tidb"], default="mariadb")
    parser.add_argument("--no-shrink", action="store_true", help="show the first failure as it is")
    options = parser.parse_args()
    from batteries import database

    with database.server(options.engine) as url:
        database.load_django(url)
        database.install_schema()
        from tests.model import runs, world
        from tests.model.tally import tally

        began, failure = time.monotonic(), ""
        try:
            runs.run(options.steps, first_seed=options.seed, is_shrunk=not options.no_shrink, seconds=options.seconds)
        except Exception as error:
            failure = type(error).__name__
            import traceback

            traceback.print_exc()
        finally:
            world.close_elsewhere()
        result = {
            "engine": options.engine,
            "seed": options.seed,
            "holds": not failure,
            "seconds": round(time.monotonic() - began, 1),
            **tally.summary(),
        }
        print(json.dumps(result))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
