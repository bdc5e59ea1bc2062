"""Flows that batteries watch: they note each run, and end as the payload says."""

from __future__ import annotations

import os
import signal

from integration.work.flows import FlowContext, FlowRejected, FlowRetry, FlowSkip, flow


def _note(context: FlowContext, path: str) -> None:
    # One short write to a file opened for appending is one line, whoever else writes.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{context.work_id} {context.attempt}\n".encode())
    finally:
        os.close(file)


@flow("batteries.note", 1)
def note(context: FlowContext) -> None:
    """Note the run in the file that the environment names."""
    _note(context, os.environ["LOCKHOUSE_BATTERY_RECORD"])


@flow("batteries.end", 1)
def end(context: FlowContext) -> None:
    """Note the run; end as the plan says for this attempt, and after the plan's end as its last word."""
    _note(context, context.payload["file"])
    plan = context.payload["plan"]
    match plan[min(context.attempt, len(plan)) - 1]:
        case "skip":
            raise FlowSkip
        case "reject":
            raise FlowRejected
        case "retry":
            raise FlowRetry(after_seconds=0)
        case "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
