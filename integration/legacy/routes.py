"""What the Event executor needs of an Event's route: the row that it names, or the snapshot that it carries."""

from __future__ import annotations

from dataclasses import dataclass

from integration import errors
from integration.catalog.documents import ReduceRule, RetryRule, RouteRule
from integration.catalog.reads import get_route
from integration.states import ExecutionClass
from integration.storage.db import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRoute:
    """An Event's immutable route, as far as an execution needs it.

    Attributes:
        flow_name: The flow; empty when neither the route nor a readable snapshot is there.
        flow_version: Its version.
        execution_class: How its inputs became work.
        retry: When a failed execution is tried again, and how often.
        reduce: How a projection's inputs become one payload.
    """

    flow_name: str
    flow_version: str
    execution_class: ExecutionClass
    retry: RetryRule
    reduce: ReduceRule | None


_NONE = EventRoute(
    flow_name="", flow_version="", execution_class=ExecutionClass.PER_EVENT, retry=RetryRule(), reduce=None
)


def route_of(event: Row) -> EventRoute:
    """Return an Event's route.

    Args:
        event: With its `RouteId` and `RouteSnapshot`.

    Returns:
        The route; one that names no flow when it cannot be told.
    """
    rule = _find(event["RouteId"]) or _parse(event["RouteSnapshot"])
    if rule is None:
        return _NONE
    return EventRoute(
        flow_name=rule.flow.name,
        flow_version=str(rule.flow.version),
        execution_class=rule.execution,
        retry=rule.retry,
        reduce=rule.reduce,
    )


def _find(route_id: str) -> RouteRule | None:
    try:
        return get_route(route_id).rule
    except errors.RouteNotFound:
        return None


def _parse(snapshot: str | None) -> RouteRule | None:
    try:
        return None if snapshot is None else RouteRule.model_validate_json(snapshot)
    except ValueError:
        return None
