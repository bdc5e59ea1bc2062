"""The cells that the suite runs on every change: few, and chosen so that no rule is hidden behind another. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

from tests.matrix.cells import NO_ITEM, Cell, all_cells
from tests.matrix.pairs import cover, pairs_of
from tests.matrix.table import LINES, decide


def owner_of(cell: Cell) -> str:
    """Return who has authority over a cell's replay, by its attempts alone."""
    if cell.attempt == "1+":
        return "work_item"
    return "event_only" if cell.item_state == NO_ITEM else "mirror"


def meetings(cell: Cell) -> set[tuple[str, str, str]]:
    """Return the owner, the line that decides a cell, and each line that would if that one were not there.

    The last one is always that of a replay: a line is alone if nothing else stands between it and that.
    """
    first, *others = [line.name for line in LINES if line.speaks_for(cell)]
    alone = {(owner_of(cell), first, "alone")} if len(others) == 1 else set()
    return {(owner_of(cell), first, other) for other in others} | alone


def wanted_of(cell: Cell) -> set[Hashable]:
    """Return what a cell shows.

    Its pairs of values; for its owner, the line that decides it, beside each other line that this one goes before; and
    if it is replayed its pairs again, since nearly every other cell is refused before most of its values are looked at.
    """
    pairs = pairs_of(cell.values())
    line = decide(cell)
    if line.is_refusal:
        return {*pairs, *meetings(cell)}
    return {*pairs, *meetings(cell), *((line.name, pair) for pair in pairs)}


@cache
def suite_cells() -> tuple[Cell, ...]:
    """Return the suite's cells, by number: all that any cell of the matrix shows, one of them shows."""
    return tuple(sorted(cover(all_cells(), wanted_of), key=lambda cell: cell.number))
