"""Flows that tests watch: what ran is written to a file, and a flow waits for a file to appear."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from pathlib import Path

from integration.work.flows import FlowContext, FlowRejected, FlowRetry, FlowSkip, flow

_LONGEST_SECONDS = 60.0


@flow("tests.noop", 1)
def noop(context: FlowContext) -> None:
    """Succeed."""


@flow("tests.record", 1)
def record(context: FlowContext) -> None:
    """Append the WorkId to the file that the payload names."""
    with Path(context.payload["file"]).open("a", encoding="ascii") as file:
        file.write(f"{context.work_id}\n")


@flow("tests.hold", 1)
def hold(context: FlowContext) -> None:
    """Say that it started, then wait until the file that the payload names is there."""
    gate = Path(context.payload["file"])
    gate.with_suffix(".started").touch()
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not gate.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


@flow("tests.end", 1)
def end(context: FlowContext) -> None:
    """End as the payload says."""
    match context.payload["end"]:
        case "skip":
            raise FlowSkip
        case "reject":
            raise FlowRejected("canary-of-the-flow")
        case "retry":
            raise FlowRetry("canary-of-the-flow", after_seconds=120)
        case "fail":
            raise RuntimeError("canary-of-the-flow", dict(context.payload))
        case "exit":
            sys.exit("canary-of-the-flow")
        case "cancelled":
            raise asyncio.CancelledError("canary-of-the-flow")
        case "retry at no time":
            raise FlowRetry(after_seconds=math.nan)
