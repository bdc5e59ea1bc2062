"""The flows of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

from bench.pacing import note
from integration.work.flows import FlowContext, flow


@flow("bench.noop", 1)
def noop(context: FlowContext) -> None:
    """Do nothing, so that only the kernel is measured."""
    del context


@flow("bench.timed", 1)
def timed(context: FlowContext) -> None:
    """Write down how long the item waited since it was admitted."""
    note(float(context.payload["at"]))


@flow("bench.inputs", 1)
def inputs(context: FlowContext) -> None:
    """Read every input, and do nothing with them."""
    for _ in context.inputs:
        pass


@flow("bench.walk", 1)
def walk(context: FlowContext) -> None:
    """Write down the numbers of all inputs, in the order in which they were given; of per-event work its own."""
    payloads = [item.payload for item in context.inputs] or [context.payload]
    line = json.dumps([context.work_id, [payload["n"] for payload in payloads]])
    with Path(payloads[-1]["file"]).open("a", encoding="ascii") as file:
        file.write(f"{line}\n")
