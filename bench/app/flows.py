"""The flow of the benchmarks."""

from __future__ import annotations

from integration.work.flows import FlowContext, flow


@flow("bench.noop", 1)
def noop(context: FlowContext) -> None:
    """Do nothing, so that only the kernel is measured."""
    del context
