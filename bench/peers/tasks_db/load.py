"""Enqueues tasks in bulk, in the peer's own virtual environment: `python -m bench.peers.tasks_db.load COUNT`."""

from __future__ import annotations

import sys

import django


def main(count: int) -> None:
    """Store READY tasks as the backend's own enqueue would, many a statement."""
    django.setup()
    from django_tasks_db.models import DBTaskResult, get_date_max

    from bench.loading import PAYLOAD
    from bench.peers.tasks_db.tasks import noop

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
    main(int(sys.argv[1]))
