"""Flows that tests watch: what ran is written to a file, and a flow waits for a file to appear."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from integration.errors import IntegrationError
from integration.projection.inputs import Input
from integration.projection.reducers import reducer
from integration.work.claim import Claim
from integration.work.execute import Verdict, register_runner
from integration.work.families import EFFECT
from integration.work.finish import Ended
from integration.work.flows import FlowCancelled, FlowContext, FlowRejected, FlowRetry, FlowSkip, flow

_LONGEST_SECONDS = 300.0


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
        case "stop":
            raise FlowCancelled("canary-of-the-flow")
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


@flow("tests.until_cancelled", 1)
def until_cancelled(context: FlowContext) -> None:
    """Say that it started, wait until it is asked to stop, and end as the payload says."""
    Path(context.payload["file"]).with_suffix(".started").touch()
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not context.is_cancelled() and time.monotonic() < deadline:
        time.sleep(0.01)
    if context.payload["end"] != "return":
        end(context)


@flow("tests.hold_each", 1)
def hold_each(context: FlowContext) -> None:
    """Hold each attempt at a gate of its own; the first ends as the payload says, the others succeed."""
    gate = Path(f"{context.payload['file']}-{context.attempt}")
    gate.with_suffix(".started").touch()
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not gate.exists() and time.monotonic() < deadline:
        if context.is_cancelled():
            gate.with_suffix(".told").touch()
        time.sleep(0.01)
    if context.attempt == 1:
        end(context)


@flow("tests.span", 1)
def span(context: FlowContext) -> None:
    """Write down when it starts and when it ends, with the lane and the number that the payload has."""
    said = f"{context.payload['lane']} {context.payload['n']}"
    path = Path(context.payload["file"])
    with path.open("a", encoding="ascii") as file:
        file.write(f"start {said}\n")
    # Long enough for another to begin meanwhile, if anything lets it.
    time.sleep(0.003)
    with path.open("a", encoding="ascii") as file:
        file.write(f"end {said}\n")


@flow("tests.drill", 1)
def drill(context: FlowContext) -> None:
    """Write down who starts and ends it; in between wait for the gate that the payload names, if it names one."""
    path = Path(context.payload["file"])

    def note(at: str) -> None:
        line = json.dumps({"at": at, "n": context.payload["n"], "event": context.event_id, "pid": os.getpid()})
        with path.open("a", encoding="ascii") as file:
            file.write(f"{line}\n")

    note("start")
    if "gate" in context.payload:
        gate = Path(context.payload["gate"])
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    note("end")


@flow("tests.walk", 1)
def walk(context: FlowContext) -> None:
    """Write down the numbers of all inputs, in the order in which they were given."""
    found = list(context.inputs)
    line = json.dumps([context.work_id, [item.payload["n"] for item in found]])
    with Path(found[-1].payload["file"]).open("a", encoding="ascii") as file:
        file.write(f"{line}\n")


def run_effect(claim: Claim, is_cancelled: Callable[[], bool]) -> Verdict:
    """Append the WorkId of an effect to the file that the environment names, and succeed."""
    with Path(os.environ["LOCKHOUSE_TEST_RECORD"]).open("a", encoding="ascii") as file:
        file.write(f"{claim.work_id}\n")
    return Verdict(ended=Ended.COMPLETE)


register_runner(EFFECT, run_effect)
