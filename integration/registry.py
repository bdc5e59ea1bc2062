"""Functions that apps register by name and version, for packs to name."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

from integration.errors import InvariantBroken

F = TypeVar("F", bound=Callable[..., Any])


def registering(
    registry: MutableMapping[tuple[str, str], Any], kinds: str, name: str, version: int | str
) -> Callable[[F], F]:
    """Return a decorator that enters a function under a name and version.

    Args:
        registry: Where it is entered.
        kinds: What two of them are called.
        name: As in a pack's route.
        version: As in a pack's route; versions are only ever compared for equality.

    Returns:
        The decorator; it gives the function back unchanged, and enters the same function again when its module is
        imported anew. It raises InvariantBroken when another function has this name and version.
    """

    def register(function: F) -> F:
        key = (name, str(version))
        known = registry.get(key)
        if known is not None and (known.__module__, known.__qualname__) != (function.__module__, function.__qualname__):
            message = f"two {kinds} are called {name} version {version}"
            raise InvariantBroken(message)
        registry[key] = function
        return function

    return register
