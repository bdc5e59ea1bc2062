"""Running the machine for so many steps, and counting."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.model import faults, machine
from tests.model.tally import Tally, tally

#: Steps of one example; then the database starts anew.
EXAMPLE_STEPS = 80
#: Examples of one call of hypothesis, which remembers all that it tried.
_EXAMPLES_AT_ONCE = 50


def run(
    steps: int,
    *,
    most: int | None = None,
    first_seed: int | None = None,
    is_shrunk: bool = True,
    seconds: float = math.inf,
) -> Tally:
    """Run the machine.

    Args:
        steps: How many at least.
        most: Go on up to so many steps until every transition was made and every illegal pair tried.
        first_seed: Where random choices come from; each further fifty examples have the next seed.
        is_shrunk: Look for the shortest failure; otherwise the first one is raised as it is.
        seconds: No further fifty examples begin after so long.

    Returns:
        The counts.

    Raises:
        AssertionError: The database did something else than the model.
    """
    tally.clear()
    number = random.randrange(2**31) if first_seed is None else first_seed
    began = time.monotonic()
    phases = [Phase.generate, Phase.shrink] if is_shrunk else [Phase.generate]
    with _quiet(), faults.failpoints():
        while _has_more(tally, steps, most) and time.monotonic() - began < seconds:
            examples = min(_EXAMPLES_AT_ONCE, max(5, math.ceil((steps - tally.steps) / EXAMPLE_STEPS)))
            _run(
                seed(number)(machine.Kernel),
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=EXAMPLE_STEPS,
                    deadline=None,
                    # Nothing of a run is kept on the disk; a failure prints what reproduces it.
                    database=None,
                    print_blob=True,
                    phases=phases,
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
            number += 1
    return tally


def _run(machine_type: type[machine.Kernel], *, settings: settings) -> None:
    try:
        run_state_machine_as_test(machine_type, settings=settings)
    except Flaky as unsteady:
        # The database's clock and its random ids take part, so the same choices need not fail again.
        if tally.failure is None:
            raise
        raise tally.failure from unsteady


def _has_more(tally: Tally, steps: int, most: int | None) -> bool:
    is_covered = not tally.missing() and not tally.untried()
    return tally.steps < (steps if is_covered or most is None else most)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the program's log out of what a failure shows: every refusal and every lost answer is logged."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
