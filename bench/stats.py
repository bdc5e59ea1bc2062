"""The arithmetic of the benchmarks: medians, percentiles, and ratios of paired rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How one side compares with the other, round by round.

    Attributes:
        median: The median of the rounds' ratios.
        low: The lowest round.
        high: The highest round.
        rounds: How many rounds there were.
    """

    median: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        """Return the median with its range, as the tables show it."""
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def median(values: Sequence[float]) -> float:
    """Return the median; an empty sequence is an error, not a zero."""
    return float(statistics.median(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile.

    Args:
        values: At least one value, in any order.
        share: From 0 (the smallest) to 1 (the largest).

    Returns:
        A value that occurs in `values`.

    Raises:
        ValueError: There is no value, or the share is not between 0 and 1.
    """
    if not values or not 0 <= share <= 1:
        message = "a percentile needs values, and a share from 0 to 1"
        raise ValueError(message)
    ordered = sorted(values)
    return float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Compare two sides that were measured in the same rounds.

    The ratio is taken within each round and only then across rounds: what else the machine did meanwhile
    changes from round to round, and hits both sides of one round alike.

    Args:
        ours: One value a round.
        theirs: The peer's value of the same rounds, none of them zero.

    Returns:
        The median of ours / theirs, and its range.

    Raises:
        ValueError: The rounds do not pair up, or a peer's value is not positive.
    """
    if not ours or len(ours) != len(theirs):
        message = f"{len(ours)} rounds of one side, {len(theirs)} of the other"
        raise ValueError(message)
    if any(value <= 0 for value in theirs):
        message = "a peer that did nothing is no measure"
        raise ValueError(message)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios), rounds=len(ratios))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line.

    Args:
        points: (x, y), at least two different x.

    Returns:
        The rise for each unit of x.

    Raises:
        ValueError: A line cannot be laid through the points.
    """
    if len({x for x, _ in points}) < 2:
        message = "a slope needs two different points"
        raise ValueError(message)
    return float(statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope)
