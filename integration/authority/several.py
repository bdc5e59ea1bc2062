"""Dead rows of several namespaces in one order: each is a range of its own index, and the pages of all are merged.

Nothing outside the namespaces is read, so that neither a cursor nor where a search stopped tells of others' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from integration.authority.listing import CappedCount, DeadFilters
from integration.scopes import Scope, names_to_read


def split(filters: DeadFilters, within: Scope) -> tuple[DeadFilters, ...]:
    """Return the filters that together find what a filter finds where the reader may look.

    Args:
        filters: What is asked for.
        within: Where the reader may look.

    Returns:
        The filter itself for a reader who may look everywhere, else one for each namespace.

    Raises:
        InvalidInput: There are more namespaces than a page merges, and the filter names none.
    """
    names = names_to_read(within, filters.namespace)
    if names is None:
        return (filters,)
    return tuple(replace(filters, namespace=name) for name in names)


def add_up(parts: Sequence[DeadFilters], count: Callable[[DeadFilters, int], CappedCount], cap: int) -> CappedCount:
    """Count what several filters find, up to one cap.

    Args:
        parts: The filters; no row matches two of them.
        count: Counts what one finds, up to a cap.
        cap: Where counting stops.
    """
    if len(parts) == 1:
        return count(parts[0], cap)
    found, is_capped = 0, False
    for part in parts:
        one = count(part, cap)
        found += one.count
        is_capped = is_capped or one.is_capped or found > cap
        if found > cap:
            break
    return CappedCount(count=min(found, cap), is_capped=is_capped)
