"""One job after another at a steady pace, and how long each waited for its first line.

Used by the enqueuers and by the jobs of every side; it needs nothing but Python.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def pace(count: int, interval_seconds: float, enqueue: Callable[[float], object]) -> None:
    """Enqueue jobs at a pace; one that is late does not delay those after it.

    Args:
        count: How many.
        interval_seconds: From the planned start of one to that of the next.
        enqueue: Stores one job; it is given the time at which it was called, which the job carries.
    """
    begun = time.monotonic()
    for number in range(count):
        wait = begun + number * interval_seconds - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        enqueue(time.time())


def note(enqueued_at: float) -> None:
    """Write down how long a job waited, in ms, as its own first act."""
    waited = (time.time() - enqueued_at) * 1000
    if "BENCH_WAITS" in os.environ:
        file = os.open(os.environ["BENCH_WAITS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{waited:.3f}\n".encode())
        os.close(file)


def read_waits(path: Path) -> list[float]:
    """Return what the jobs wrote down."""
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []
