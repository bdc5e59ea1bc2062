"""Retries every failed job, as dj-queue's own command for it does, and prints jobs and seconds.

`python -m bench.peers.dj_queue.retry`: the jobs that wait are made failed ones first, which is not measured.
"""

from __future__ import annotations

import json
import time

import django

_BATCH = 500


def main() -> None:
    """Let what waits fail, then retry it in transactions of five hundred."""
    django.setup()
    from dj_queue.operations.jobs import retry_failed_jobs
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dj_queue_failed_executions (job_id, exception_class, message, traceback, created_at)"
            " SELECT job_id, 'ValueError', 'The flow raised an error.', '', UTC_TIMESTAMP(6)"
            " FROM dj_queue_ready_executions"
        )
        cursor.execute("DELETE FROM dj_queue_ready_executions")
    started, jobs = time.perf_counter(), 0
    while count := retry_failed_jobs(batch_size=_BATCH):
        jobs += count
    print(json.dumps([jobs, time.perf_counter() - started]))


if __name__ == "__main__":
    main()
