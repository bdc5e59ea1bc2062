"""Enqueues tasks in the peer's own virtual environment.

`python -m bench.peers.tasks_db.load COUNT [INTERVAL]`: in bulk, or one at a time at a pace.
"""

from __future__ import annotations

import sys

import django


def main(count: int, interval_seconds: float) -> None:
    """Store READY tasks as the backend's own enqueue would, many a statement; or call it."""
    django.setup()
    from django_tasks_db.models import DBTaskResult, get_date_max

    from bench.pacing import pace
    from bench.payload import PAYLOAD
    from bench.peers.tasks_db.tasks import noop

    if interval_seconds:
        pace(count, interval_seconds, lambda at: noop.enqueue({**PAYLOAD, "at": at}))
        return
    DBTaskResult.objects.bulk_create(
        (
            DBTaskResult(
                args_kwargs={"args": [PAYLOAD], "kwargs": {}},
                task_path=noop.module_path,
                run_after=get_date_max(),
                backend_name="default",
            )
            for _ in range(count)
        ),
        batch_size=500,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
