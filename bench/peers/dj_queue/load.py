"""Enqueues tasks in the peer's own virtual environment.

`python -m bench.peers.dj_queue.load COUNT [INTERVAL]`: in bulk, or one at a time at a pace.
"""

from __future__ import annotations

import sys

import django

_BATCH = 500


def main(count: int, interval_seconds: float) -> None:
    """Enqueue as the documentation says: `enqueue_all` for many, `enqueue` for one."""
    django.setup()
    from bench.pacing import pace
    from bench.payload import PAYLOAD
    from bench.peers.dj_queue.tasks import noop

    if interval_seconds:
        pace(count, interval_seconds, lambda at: noop.enqueue({**PAYLOAD, "at": at}))
        return
    backend = noop.get_backend()
    for start in range(0, count, _BATCH):
        backend.enqueue_all([(noop, [PAYLOAD], {})] * min(_BATCH, count - start))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
