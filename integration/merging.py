"""Rows that were read in parts, put into one order. Pure; every context may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Row = TypeVar("Row")
Key = TypeVar("Key")


def merge(
    parts: Iterable[tuple[list[Row], Key | None]], *, key: Callable[[Row], Any], descending: bool
) -> tuple[list[Row], Key | None]:
    """Put the rows of several parts into one order, and leave out what lies beyond the bound of one of them.

    Args:
        parts: Rows, and the key at which the search for them stopped if it did so at its bound: between that and the
            rows of the others there may be more.
        key: What the rows are sorted by; bounds are such keys.
        descending: The order in which they were read.

    Returns:
        The rows, and the nearest bound; None where every part was read to its end.
    """
    found: list[Row] = []
    bounds: list[Any] = []
    for rows, bound in parts:
        found += rows
        if bound is not None:
            bounds.append(bound)
    found.sort(key=key, reverse=descending)
    if not bounds:
        return found, None
    nearest = max(bounds) if descending else min(bounds)
    return [row for row in found if (key(row) >= nearest if descending else key(row) <= nearest)], nearest
