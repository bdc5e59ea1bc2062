"""Flows that tests watch: what ran is written to a file, and a flow waits for a file to appear."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from integration.errors import IntegrationError
from integration.projection.inputs import Input
from integration.projection.reducers import reducer
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


@flow("tests.inputs", 1)
def inputs(context: FlowContext) -> None:
    """Append what it was given to the file that the payload names, if it names one; then end as `end` says."""
    given = {
        "work_id": context.work_id,
        "event_id": context.event_id,
        "attempt": context.attempt,
        "ordinals": [item.ordinal for item in context.inputs],
        "numbers": [item.payload.get("n") for item in context.inputs],
        "payload": {name: value for name, value in context.payload.items() if name != "file"},
    }
    if "file" in context.payload:
        with Path(context.payload["file"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(given) + "\n")
    if context.payload.get("end") == "fail":
        raise RuntimeError
    if context.payload.get("end") == "reject":
        raise FlowRejected


@flow("tests.careless", 1)
def careless(context: FlowContext) -> None:
    """Go on without the inputs that could not be had."""
    try:
        list(context.inputs)
    except (IntegrationError, ValueError):
        return


@flow("tests.incurious", 1)
def incurious(context: FlowContext) -> None:
    """Look at no input."""


@reducer("tests.sum", 1)
def total(found: Iterable[Input]) -> dict[str, Any]:
    """Add up the numbers of the inputs."""
    return {"sum": sum(item.payload["n"] for item in found)}


@reducer("tests.broken", 1)
def broken(found: Iterable[Input]) -> dict[str, Any]:
    """Fail as a function may."""
    raise RuntimeError("canary-of-the-flow")


@reducer("tests.shapeless", 1)
def shapeless(found: Iterable[Input]) -> Any:
    """Return what is no payload."""
    return [item.ordinal for item in found]
