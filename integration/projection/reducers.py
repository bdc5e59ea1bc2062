"""Reducers: what becomes of a generation's inputs before the flow sees its payload. Pure.

A route declares one: the last input wins, the inputs are merged field by field, or a function of an app's own does
it. All of them see the inputs in ordinal order and nothing else, so that the same interval always gives the same
payload, whatever the inputs' own clocks say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from integration.errors import IntegrationError
from integration.projection.inputs import Input
from integration.registry import registering
from integration.states import ReduceBy

Payload = Mapping[str, Any]
Reducer = Callable[[Iterable[Input]], Payload]
F = TypeVar("F", bound=Reducer)


class ReducerUnknown(IntegrationError):
    """No reducer of this name and version is registered in this process."""

    code = "reducer_unknown"


_registry: dict[tuple[str, str], Reducer] = {}


def reducer(name: str, version: int | str) -> Callable[[F], F]:
    """Register a function as the reducer of this name and version, in the `flows` module of an installed app.

    Args:
        name: As in a pack's route.
        version: As in a pack's route; versions are only ever compared for equality.

    Returns:
        The decorator; it gives the function back unchanged.

    Raises:
        InvariantBroken: Another function has this name and version.
    """
    return registering(_registry, "reducers", name, version)


def get_reducer(by: ReduceBy, *, name: str | None = None, version: int | str | None = None) -> Reducer:
    """Return the reducer that a route declares.

    Args:
        by: The way.
        name: The function's name, for a custom one.
        version: Its version.

    Raises:
        ReducerUnknown: No function of this name and version is registered in this process.
    """
    match by:
        case ReduceBy.LAST:
            return reduce_last
        case ReduceBy.MERGE:
            return reduce_merge
        case ReduceBy.CUSTOM:
            found = _registry.get((name or "", str(version)))
            if found is None:
                raise ReducerUnknown(reducer=name, version=str(version))
            return found


def reduce_last(inputs: Iterable[Input]) -> Payload:
    """Return the last input's payload.

    Raises:
        ValueError: There is no input.
    """
    last = None
    for last in inputs:  # noqa: B007 - every input is read, since a missing one is an error
        pass
    if last is None:
        raise ValueError(_EMPTY)
    return last.payload


def reduce_merge(inputs: Iterable[Input]) -> Payload:
    """Merge the inputs field by field.

    A field keeps the value that an input gave it last. Objects are merged by their own fields, at every depth; lists
    and plain values are replaced whole. A null is a value: it says that the field was emptied, and it stays.

    Raises:
        ValueError: There is no input.
    """
    merged: dict[str, Any] | None = None
    for item in inputs:
        merged = {} if merged is None else merged
        _merge_into(merged, item.payload)
    if merged is None:
        raise ValueError(_EMPTY)
    return merged


def _merge_into(target: dict[str, Any], source: Payload) -> None:
    # Without recursion: a payload may be nested as deeply as the parser lets it be.
    waiting: list[tuple[dict[str, Any], Payload]] = [(target, source)]
    while waiting:
        into, values = waiting.pop()
        for name, value in values.items():
            known = into.get(name)
            if isinstance(value, Mapping):
                if not isinstance(known, dict):
                    known = into[name] = {}
                waiting.append((known, value))
            else:
                into[name] = value


_EMPTY: Final = "a generation has at least one input"
