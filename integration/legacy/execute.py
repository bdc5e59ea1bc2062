"""Running the flow of a claimed Event: the same registered flows that a worker runs, on what the schema can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from integration.catalog.documents import ReduceRule
from integration.errors import IntegrationError
from integration.legacy.claim import EventClaim
from integration.legacy.convergence import read_capabilities
from integration.legacy.routes import EventRoute, route_of
from integration.projection.coverage import read_cutoffs
from integration.projection.inputs import Input
from integration.states import ExecutionClass, FailureClass
from integration.storage import db
from integration.work import flows
from integration.work.execute import Verdict, call_flow
from integration.work.finish import Ended
from integration.work.material import Material, NotGiven, Payload, gather_material, open_payload, reduce_inputs
from integration.work.outage import patiently

_UNREADABLE = (IntegrationError, ValueError, RecursionError)
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class OwnInput:
    """The one input of an Event whose schema holds no range: itself.

    Attributes:
        only: The input, opened already.
        fault: Never set: there is nothing more to read.
    """

    only: Input
    fault: Exception | None = None

    def __iter__(self) -> Iterator[Input]:
        """Yield it."""
        yield self.only


def run(claim: EventClaim) -> Verdict:
    """Run a claimed Event's flow.

    Args:
        claim: The live claim.

    Returns:
        How it ended; nothing is stored yet.

    Raises:
        Busy: What the flow works on could not be read for as long as the claim runs.
    """
    event = claim.event
    trace_id = event["ReceiptId"] or claim.event_id
    with structlog.contextvars.bound_contextvars(event_id=claim.event_id, attempt=claim.attempt, trace_id=trace_id):
        route = patiently(lambda: route_of(event), role="legacy", seconds=claim.lease_seconds)
        try:
            function = flows.get_flow(route.flow_name, route.flow_version)
            material = _gather(claim, route)
        except flows.FlowUnknown:
            # Another build may know it.
            return Verdict(ended=Ended.RETRY, failure=FailureClass.FLOW_UNKNOWN)
        except NotGiven as error:
            return Verdict(ended=Ended.RETRY, failure=error.failure)
        verdict = call_flow(function, _context(claim, route, material))
        try:
            # A flow that went on without an input has not had its inputs.
            material.check_inputs()
        except NotGiven as error:
            return Verdict(ended=Ended.RETRY, failure=error.failure)
        return verdict


def _context(claim: EventClaim, route: EventRoute, material: Material) -> flows.FlowContext:
    event = claim.event
    return flows.FlowContext(
        # An Event without a WorkItem is its own unit of execution, and its id as stable.
        work_id=claim.event_id if claim.mirror is None else claim.mirror["WorkId"],
        event_id=claim.event_id,
        org_id=event["OrgId"],
        namespace=event["Namespace"],
        event_kind=event["EventKind"],
        payload=material.payload,
        attempt=claim.attempt,
        max_attempts=route.retry.max_attempts,
        occurred_at=event["OccurredAt"],
        received_at=event["ReceivedAt"],
        inputs=() if material.inputs is None else material.inputs,
    )


def _gather(claim: EventClaim, route: EventRoute) -> Material:
    """Open what the flow works on.

    A mirror that holds a range is given all of it. Without one the Event's own payload is the only input, where the
    schema or the incarnation's old protocol knows no ranges; where a range must be and is not, an input is missing.
    """
    mirror, seconds = claim.mirror, claim.lease_seconds
    route_id = claim.event["RouteId"]
    if not _is_projection(claim, route):
        return gather_material(claim.event, work_id=None, route_id=route_id, seconds=seconds)
    if mirror is not None and mirror.get("InputStartOrdinal") is not None:
        return gather_material(claim.event, work_id=mirror["WorkId"], route_id=route_id, seconds=seconds)
    if patiently(lambda: _needs_range(claim), role="legacy", seconds=seconds):
        raise NotGiven(FailureClass.INPUTS_MISSING)
    inputs = OwnInput(_own_input(claim))
    return Material(payload=_payload_of(inputs, route.reduce), inputs=inputs)


def _is_projection(claim: EventClaim, route: EventRoute) -> bool:
    if claim.mirror is not None:
        return claim.mirror["ProjectionKey"] is not None
    return route.execution_class is ExecutionClass.SOURCE_PROJECTION


def _needs_range(claim: EventClaim) -> bool:
    if not read_capabilities().has_ranges:
        return False
    pack_install_id = claim.event["PackInstallId"]
    cutoff = read_cutoffs(db.read(), (pack_install_id,)).get(pack_install_id)
    return cutoff is not None and (claim.event["LaneOrdinal"] or 0) > cutoff


def _own_input(claim: EventClaim) -> Input:
    event = claim.event
    try:
        payload = open_payload(event)
    except _UNREADABLE as error:
        raise NotGiven(FailureClass.PAYLOAD_UNREADABLE) from error
    return Input(
        payload=payload,
        ordinal=event["LaneOrdinal"] or 0,
        occurred_at=event["OccurredAt"],
        event_id=claim.event_id,
    )


def _payload_of(inputs: OwnInput, rule: ReduceRule | None) -> Payload:
    return inputs.only.payload if rule is None else reduce_inputs(inputs, rule)
