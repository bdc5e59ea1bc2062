"""What an execution is given: the opened payload, and for a projection every input of its generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from integration.catalog.documents import ReduceRule
from integration.catalog.reads import get_route
from integration.errors import IntegrationError, NotFound
from integration.ingress.crypto import SealedColumn, open_sealed, row_aad
from integration.ingress.json_bodies import read_json
from integration.projection.inputs import Input, InputsMissing, open_inputs
from integration.projection.reducers import ReducerUnknown, get_reducer
from integration.states import FailureClass
from integration.storage.db import Row
from integration.work.claim import Claim
from integration.work.outage import OUTAGE, patiently

Payload = Mapping[str, Any]
_UNREADABLE: Final = (IntegrationError, ValueError, RecursionError)


class Readable(Protocol):
    """Inputs that can be iterated again, and that know whether a reading of them failed."""

    fault: Exception | None

    def __iter__(self) -> Iterator[Input]:
        """Yield every input in ordinal order."""


class NotGiven(Exception):
    """An execution cannot be given what it works on."""

    def __init__(self, failure: FailureClass) -> None:
        """Keep how it fails."""
        super().__init__(failure.value)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a flow works on.

    Attributes:
        payload: The Event's payload, or what the route's reducer made of the inputs.
        inputs: A projection's inputs; None for per-event work.
    """

    payload: Payload
    inputs: Readable | None = None

    def check_inputs(self) -> None:
        """Ask whether every reading of the inputs had all of them, whatever the flow made of it.

        Raises:
            NotGiven: One of them was missing or could not be opened.
            Busy: The database did not answer for as long as the lease runs.
        """
        if self.inputs is not None and self.inputs.fault is not None:
            raise _not_given(self.inputs.fault) from self.inputs.fault


def read_material(claim: Claim, selected: Row) -> Material:
    """Open what a claimed item's flow works on.

    Args:
        claim: The live claim.
        selected: The Event's row, its payload sealed.

    Returns:
        The payload; for a projection its inputs too, their bounds checked, and reduced as the route declares.

    Raises:
        NotGiven: A payload cannot be opened, an input is missing, or no such reducer is registered.
        Busy: The database did not answer for as long as the lease runs.

    Rule: P-05, P-06.
    """
    return gather_material(
        selected,
        work_id=claim.work_id if claim.item.is_projection else None,
        route_id=claim.item.route_id,
        seconds=claim.lease_seconds,
    )


def gather_material(selected: Row, *, work_id: str | None, route_id: str, seconds: float) -> Material:
    """Open what a flow works on, whoever executes it.

    Args:
        selected: The Event's row, its payload sealed.
        work_id: The generation whose inputs are read; None for work that is given the Event's payload alone.
        route_id: The route that took the Event.
        seconds: How long the reads may wait for a database that is away.

    Returns:
        As `read_material`.

    Raises:
        NotGiven: A payload cannot be opened, an input is missing, or no such reducer is registered.
        Busy: The database did not answer for that long.
    """
    try:
        if work_id is None:
            return Material(payload=open_payload(selected))
        fetch = partial(patiently, role="execute", seconds=seconds)
        inputs = open_inputs(work_id, open_payload, fetch=fetch)
        rule = patiently(lambda: _rule_of(route_id), role="execute", seconds=seconds)
        if rule is None:
            return Material(payload=open_payload(selected), inputs=inputs)
        return Material(payload=reduce_inputs(inputs, rule), inputs=inputs)
    except NotGiven:
        raise
    except (*OUTAGE, *_UNREADABLE) as error:
        raise _not_given(error) from error


def open_payload(row: Row) -> dict[str, Any]:
    """Open an Event's payload.

    Args:
        row: With its `EventId` and `Payload`.

    Raises:
        IntegrationError: It cannot be opened with this installation's keys, or was changed.
        ValueError: It is not a JSON object.
    """
    plain = open_sealed(bytes(row["Payload"]), row_aad(SealedColumn.EVENT_PAYLOAD, row["EventId"]))
    value = read_json(plain)
    if isinstance(value, dict):
        return value
    message = "a payload is an object"
    raise ValueError(message)


def _rule_of(route_id: str) -> ReduceRule | None:
    try:
        return get_route(route_id).rule.reduce
    except NotFound:
        return None


def reduce_inputs(inputs: Readable, rule: ReduceRule) -> Payload:
    """Make one payload of inputs, as a route declares.

    Args:
        inputs: All of them.
        rule: The route's.

    Raises:
        NotGiven: No such reducer is registered, it failed, or an input could not be read.
        Busy: The database did not answer for as long as it may be away.
    """
    try:
        payload = get_reducer(rule.by, name=rule.name, version=rule.version)(inputs)
    except ReducerUnknown as error:
        raise NotGiven(FailureClass.FLOW_UNKNOWN) from error
    except BaseException as error:
        # A reducer is an app's own function, as a flow is; what it raises says as little.
        fault = inputs.fault
        raise (NotGiven(FailureClass.FLOW_ERROR) if fault is None else _not_given(fault)) from error
    if inputs.fault is not None:
        raise _not_given(inputs.fault) from inputs.fault
    if not isinstance(payload, Mapping):
        raise NotGiven(FailureClass.FLOW_ERROR)
    return payload


def _not_given(error: Exception) -> Exception:
    """Return what an error of reading means to the execution: an outage stays one."""
    if isinstance(error, OUTAGE):
        return error
    if isinstance(error, InputsMissing):
        return NotGiven(FailureClass.INPUTS_MISSING)
    return NotGiven(FailureClass.PAYLOAD_UNREADABLE)
