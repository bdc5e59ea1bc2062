"""Charts as plain numbers for a server-side SVG; every one has a table as its twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from integration.work.figures import Hour

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One hour: its bar of arrivals, its mark of deaths, and the middle of its column."""

    start: datetime
    x: float
    y: float
    width: float
    height: float
    middle: float
    died_y: float
    died: int
    labelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The geometry of the arrivals and completions chart, in user units of its view box."""

    bars: tuple[Bar, ...]
    line: str
    ticks: tuple[tuple[float, int], ...]
    view_box: str
    floor: float
    left: float
    right: float


def hour_chart(hours: Sequence[Hour]) -> Chart:
    """Return the geometry for arrivals (bars), successes (line) and deaths (marks) by hour.

    Args:
        hours: The hours, oldest first; not empty.

    Returns:
        Coordinates rounded to a tenth.
    """
    top = _nice(
        max(
            (max(hour.arrived.value, hour.succeeded.value, hour.died.value) for hour in hours),
            default=0,
        )
    )
    floor = HEIGHT - BOTTOM
    span = floor - TOP
    step = (WIDTH - LEFT - RIGHT) / max(1, len(hours))

    def height(value: int) -> float:
        return round(span * value / top, 1)

    bars = tuple(
        Bar(
            start=hour.start,
            x=round(LEFT + index * step + step * 0.18, 1),
            y=round(floor - height(hour.arrived.value), 1),
            width=round(step * 0.64, 1),
            height=height(hour.arrived.value),
            middle=round(LEFT + (index + 0.5) * step, 1),
            died_y=round(floor - height(hour.died.value), 1),
            died=hour.died.value,
            labelled=(len(hours) - 1 - index) % 3 == 0,
        )
        for index, hour in enumerate(hours)
    )
    line = " ".join(
        f"{bar.middle},{round(floor - height(hour.succeeded.value), 1)}" for bar, hour in zip(bars, hours, strict=True)
    )
    ticks = tuple((round(floor - span * part / 2, 1), round(top * part / 2)) for part in range(3))
    return Chart(
        bars=bars,
        line=line,
        ticks=ticks,
        view_box=f"0 0 {WIDTH} {HEIGHT}",
        floor=floor,
        left=LEFT,
        right=WIDTH - RIGHT,
    )


def _nice(value: int) -> int:
    """Return the next round number at or above a value, at least 4, so that half of it is whole."""
    if value <= 4:
        return 4
    power: int = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
