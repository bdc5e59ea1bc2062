"""Flows: the Python functions that do the work, by name and version.

A flow is registered by a decorator in the `flows` module of any installed app. It is given a `FlowContext`
and says how it ended: it returns, or raises one of the four errors below. Any other error is a failure
that is tried again by the route's policy.

The flow of a source projection is given all inputs of its generation. The same module registers reducers
(`integration.projection.reducers.reducer`), which make one payload of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.utils.module_loading import autodiscover_modules

from integration.errors import IntegrationError
from integration.projection.inputs import Input
from integration.registry import registering


class FlowSkip(Exception):
    """The flow found that there is nothing to do; the work ends as skipped."""


class FlowRejected(Exception):
    """The flow will never accept this input; the work is dead at once."""


class FlowCancelled(Exception):
    """The flow stopped because an operator asked for it; the work ends as cancelled.

    Without a request it is an error like any other.
    """


class FlowRetry(Exception):
    """The flow asks to be tried again."""

    def __init__(self, message: str = "", *, after_seconds: float | None = None) -> None:
        """Ask for another try.

        Args:
            message: For the flow's own tests; it is stored nowhere.
            after_seconds: When, at the earliest; the route's policy decides when it is absent.

        Raises:
            TypeError: The wait is not a number.
            ValueError: The wait is not a number.
        """
        super().__init__(message)
        self.after_seconds = None if after_seconds is None else float(after_seconds)
        if self.after_seconds is not None and math.isnan(self.after_seconds):
            raise ValueError


class FlowUnknown(IntegrationError):
    """No flow of this name and version is registered in this process."""

    code = "flow_unknown"


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """What a flow is given.

    Attributes:
        work_id: The generation that is executed; stable over its attempts.
        event_id: The Event whose payload this is; a projection's last one.
        org_id: The org that owns it.
        namespace: The namespace that it arrived in.
        event_kind: What happened.
        payload: The normalized event, opened; not shown in `repr`. A projection's is what its route's reducer makes
            of all inputs, and without one it is the last input's.
        attempt: The number of this attempt, from 1.
        max_attempts: How many there may be.
        occurred_at: When it happened at the provider, aware UTC, if it said so; a projection's last input.
        received_at: When the webhook was stored, aware UTC; a projection's last input.
        inputs: A projection's inputs, all of them, in ordinal order, each opened as it is reached; iterate as often
            as you like. Empty for per-event work. An input that is missing or cannot be opened raises, and the
            execution has failed even if the flow swallows that.
        is_cancelled: Tells whether an operator asked for the work to stop, as of a second ago. A long flow asks now and
            then, leaves things as they may stay and raises `FlowCancelled`; one that returns has succeeded.
    """

    work_id: str
    event_id: str
    org_id: str
    namespace: str
    event_kind: str
    payload: Mapping[str, Any] = field(repr=False)
    attempt: int
    max_attempts: int
    occurred_at: datetime | None
    received_at: datetime
    inputs: Iterable[Input] = field(default=(), repr=False)
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False)


Flow = Callable[[FlowContext], None]
F = TypeVar("F", bound=Flow)
_registry: dict[tuple[str, str], Flow] = {}


def flow(name: str, version: int | str) -> Callable[[F], F]:
    """Register a function as the flow of this name and version.

    Args:
        name: As in a pack's route.
        version: As in a pack's route; versions are only ever compared for equality.

    Returns:
        The decorator; it gives the function back unchanged.

    Raises:
        InvariantBroken: Another function has this name and version.
    """
    return registering(_registry, "flows", name, version)


def get_flow(name: str, version: int | str) -> Flow:
    """Return the flow of a name and version.

    Raises:
        FlowUnknown: There is none in this process.
    """
    found = _registry.get((name, str(version)))
    if found is None:
        raise FlowUnknown(flow=name, version=str(version))
    return found


def discover_flows() -> int:
    """Import the `flows` module of every installed app and return how many flows there are."""
    autodiscover_modules("flows")
    return len(_registry)
