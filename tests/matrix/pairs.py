"""A small set of cells in which whatever is asked for occurs. Pure, and the same at each run."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import TypeAlias, TypeVar

Pair: TypeAlias = tuple[tuple[str, str], tuple[str, str]]
T = TypeVar("T")


def pairs_of(values: Mapping[str, str]) -> set[Pair]:
    """Return the pairs of values of two dimensions that one combination has."""
    return set(itertools.combinations(values.items(), 2))


def cover(candidates: Iterable[T], wanted_of: Callable[[T], Set[Hashable]]) -> list[T]:
    """Choose candidates until all that any candidate has to offer is there: the one that adds the most is next.

    Args:
        candidates: What can be chosen; of two that add as much, the earlier one is.
        wanted_of: What a candidate offers.

    Returns:
        The choice, in the order in which it was made.
    """
    # Each thing that is wanted is one bit.
    bits: dict[Hashable, int] = {}
    offers = [
        (candidate, sum(bits.setdefault(wanted, 1 << len(bits)) for wanted in wanted_of(candidate)))
        for candidate in candidates
    ]
    left = (1 << len(bits)) - 1
    # What a candidate adds never grows, so that only the one in front has to be counted anew.
    queue = [(-offer.bit_count(), place) for place, (_, offer) in enumerate(offers)]
    heapq.heapify(queue)
    chosen: list[T] = []
    while left:
        _, place = heapq.heappop(queue)
        candidate, offer = offers[place]
        gain = (-(offer & left).bit_count(), place)
        if queue and gain > queue[0]:
            heapq.heappush(queue, gain)
            continue
        left &= ~offer
        chosen.append(candidate)
    return chosen
