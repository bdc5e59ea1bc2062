"""The flows of the benchmarks."""

from __future__ import annotations

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
    for _ in getattr(context, "inputs", None) or ():
        pass
