"""The tables of docs/replay-matrix.md, made from the lines: a test holds the page against them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.matrix.cells import DIMENSIONS, all_cells
from tests.matrix.decisions import DECISIONS
from tests.matrix.subset import suite_cells
from tests.matrix.table import LINES, breaks_a_key, count_answers, decide, refusals_for


def tables() -> str:
    """Return the generated part of the page."""
    parts = {
        "Dimensions": _dimensions(),
        "Decision table": _lines(),
        "What was left open": _decisions(),
        "Counts": _counts(),
    }
    return "\n\n".join(f"## {title}\n\n{table}" for title, table in parts.items())


def _dimensions() -> str:
    rows = [(f"`{name}`", ", ".join(f"`{value}`" for value in values)) for name, values in DIMENSIONS.items()]
    return _table(("dimension", "values"), rows)


def _lines() -> str:
    decided = Counter(decide(cell).name for cell in all_cells())
    in_suite = Counter(decide(cell).name for cell in suite_cells())
    rows = [
        (
            str(number),
            line.name + (" *" if line.is_open else ""),
            _condition(line.when),
            f"`{line.answer}`",
            f"{line.source}: {line.says}",
            f"{decided[line.name]:,}",
            str(in_suite[line.name]),
        )
        for number, line in enumerate(LINES, start=1)
    ]
    return _table(("", "line", "speaks for", "answer", "where it is written", "cells", "in the suite"), rows)


def _condition(when: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{name} {' or '.join(values)}" for name, values in when.items()) or "the rest"


def _decisions() -> str:
    rows = [
        (
            decision.question,
            " or ".join(f"`{answer}`" for answer in decision.answers),
            decision.why,
            f"{sum(map(decision.cells, all_cells())):,}",
        )
        for decision in DECISIONS
    ]
    return _table(("what", "answer", "why", "cells"), rows)


def _counts() -> str:
    cells = all_cells()
    answers = count_answers(cells)
    refused = sum(count for answer, count in answers.items() if not answer.startswith("replayed"))
    several = Counter(len(refusals_for(cell)) for cell in cells)
    rows = [
        ("cells", len(cells)),
        ("of them impossible, with a stand-in for the successor", sum(map(breaks_a_key, cells))),
        ("in the suite", len(suite_cells())),
        ("refused", refused),
        *((f"refused: `{answer}`", count) for answer, count in sorted(answers.items()) if ":" not in answer),
        *((f"`{answer}`", count) for answer, count in sorted(answers.items()) if ":" in answer),
        ("for which several codes are right, and the first one is said", sum(n for k, n in several.items() if k > 1)),
    ]
    return _table(("what", "cells"), [(what, f"{count:,}") for what, count in rows])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
