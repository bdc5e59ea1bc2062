"""`python -m batteries.soaking worker|materializer|executor PACK`: the processes of the soak, with its flow.

`--unfenced` takes the look at the cutover receipt away from a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
from typing import Any

LEASE_SECONDS = 3
SLACK_SECONDS = 1
FLOWS_AT_ONCE = 2
#: Said by a process that begins to run.
READY = "ready"
_BELIEVED = (
    "SELECT %(pack_install_id)s AS ReceiptId, 'forward' AS Direction, 1 AS OwnerGeneration, '' AS ProofDigest,"
    " UTC_TIMESTAMP(6) AS WrittenAt"
)


def work(*roles: str) -> Any:
    """Return a worker."""
    from integration.work.options import Options
    from integration.work.supervisor import Supervisor

    return Supervisor(
        Options(
            roles=frozenset(roles),
            concurrency=FLOWS_AT_ONCE,
            poll_seconds=0.02,
            lease_seconds=LEASE_SECONDS,
            slack_seconds=SLACK_SECONDS,
            per_event_only=True,
            build_version="batteries",
        )
    )


def execute(pack_id: str) -> Any:
    """Return an Event executor of the build that rollbacks approve."""
    from integration.legacy.executor import Executor, Options
    from tests.support.rollback import BUILD

    return Executor(
        Options(pack_install_id=pack_id, lease_seconds=LEASE_SECONDS, slack_seconds=SLACK_SECONDS, build_version=BUILD)
    )


def believe_every_pack() -> None:
    """Take it for granted that every pack is the WorkItems'."""
    from integration.storage.sql import cutovers

    cutovers.NEWEST_CUTOVER_RECEIPT = dataclasses.replace(cutovers.NEWEST_CUTOVER_RECEIPT, text=_BELIEVED)  # type: ignore[misc]


def main() -> None:
    """Run one process until it is told to stop, or may not go on."""
    import django

    django.setup()
    import batteries.flows  # noqa: F401 - registers the flows of the batteries
    from integration.work.process import ClaimFenced

    role, pack_id, *rest = sys.argv[1:]
    if rest == ["--unfenced"]:
        believe_every_pack()
    runs = {
        "worker": lambda: work("claim", "reap"),
        "materializer": lambda: work("materialize"),
        "executor": lambda: execute(pack_id),
    }
    running = runs[role]()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: running.stop())
    print(READY, flush=True)
    with contextlib.suppress(ClaimFenced):
        running.run()


if __name__ == "__main__":
    main()
