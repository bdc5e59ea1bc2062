"""Charts as plain numbers for a server-side SVG; every one has a table as its twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from integration.work.figures import Hour

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One hour: its bar, and the middle of its column."""

    start: datetime
    x: float
    y: float
    width: float
    height: float
    middle: float
    labelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The geometry of a chart by hour, in user units of its view box; `line` is empty where there is none."""

    bars: tuple[Bar, ...]
    line: str
    ticks: tuple[tuple[float, int], ...]
    view_box: str
    floor: float
    left: float
    right: float


def hour_chart(hours: Sequence[Hour]) -> Chart:
    """Return the geometry for arrivals (bars) and successes (line) by hour.

    Args:
        hours: The hours, oldest first; not empty.

    Returns:
        Coordinates rounded to a tenth.
    """
    return _chart(hours, [hour.arrived.value for hour in hours], [hour.succeeded.value for hour in hours])


def death_chart(hours: Sequence[Hour]) -> Chart:
    """Return the geometry for deaths by hour, on a scale of their own: among arrivals a few would not be seen.

    Args:
        hours: The hours, oldest first; not empty.
    """
    return _chart(hours, [hour.died.value for hour in hours])


def _chart(hours: Sequence[Hour], counts: Sequence[int], line: Sequence[int] = ()) -> Chart:
    top = _nice(max(0, *counts, *line))
    floor = HEIGHT - BOTTOM
    span = floor - TOP
    step = (WIDTH - LEFT - RIGHT) / max(1, len(hours))

    def height(value: int) -> float:
        return round(span * value / top, 1)

    bars = tuple(
        Bar(
            start=hour.start,
            x=round(LEFT + index * step + step * 0.18, 1),
            y=round(floor - height(count), 1),
            width=round(step * 0.64, 1),
            height=height(count),
            middle=round(LEFT + (index + 0.5) * step, 1),
            labelled=(len(hours) - 1 - index) % 3 == 0,
        )
        for index, (hour, count) in enumerate(zip(hours, counts, strict=True))
    )
    points = (f"{bar.middle},{round(floor - height(value), 1)}" for bar, value in zip(bars, line, strict=False))
    ticks = tuple((round(floor - span * part / 2, 1), round(top * part / 2)) for part in range(3))
    return Chart(
        bars=bars,
        line=" ".join(points),
        ticks=ticks,
        view_box=f"0 0 {WIDTH} {HEIGHT}",
        floor=floor,
        left=LEFT,
        right=WIDTH - RIGHT,
    )


SPARK_WIDTH, SPARK_HEIGHT = 120, 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A course as bars without axes, and what it says in words.

    Attributes:
        bars: x, y, width and height of each part that is not empty, in user units.
        label: The same for whoever does not see it.
    """

    bars: tuple[tuple[float, float, float, float], ...]
    label: str
    width: int = SPARK_WIDTH
    height: int = SPARK_HEIGHT


def spark(course: Sequence[int], *, since: datetime, slot_seconds: int) -> Spark:
    """Return the geometry of a course, scaled to its own highest part.

    Args:
        course: What each part of the window counts, oldest first; not empty.
        since: When the first part begins, aware.
        slot_seconds: How long a part is.
    """
    top, step = max(1, *course), SPARK_WIDTH / len(course)
    bars = tuple(
        (
            round(index * step + 0.5, 1),
            # The smallest count is still seen.
            round(SPARK_HEIGHT - max(2, (SPARK_HEIGHT - 2) * value / top), 1),
            round(step - 1, 1),
            round(max(2, (SPARK_HEIGHT - 2) * value / top), 1),
        )
        for index, value in enumerate(course)
        if value
    )
    peak = course.index(max(course))
    moment = timezone.localtime(since + timedelta(seconds=peak * slot_seconds))
    return Spark(
        bars=bars, label=f"Most at once: {max(course)}, from {moment:%Y-%m-%d %H:%M} on; {sum(course)} in all."
    )


def _nice(value: int) -> int:
    """Return the next round number at or above a value, at least 4, so that half of it is whole."""
    if value <= 4:
        return 4
    power: int = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
