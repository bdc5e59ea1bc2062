"""How rows are written as CSV or as JSON, in parts, so that no more than a page is ever held. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

#: What a spreadsheet takes for the start of a formula, wide forms included.
_FORMULA: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
#: What it skips before it looks, or takes for the end of a cell.
_BLANK: Final = "\t\r\n\x00"


class Format(StrEnum):
    """What a file is written as."""

    CSV = "csv"
    JSON = "json"


class End(StrEnum):
    """Why an export has no further row."""

    #: There is none that matches.
    WHOLE = "whole"
    #: The most rows that a file may have were written.
    CAP = "cap"
    #: The search for further ones stopped at its bound.
    BOUND = "bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the last line of a file says; a file without it was broken off.

    Attributes:
        rows: How many rows it has.
        left_out: How many matching rows are not in it, since they must not be shown.
        end: Why there are no more.
    """

    rows: int
    left_out: int
    end: End

    @property
    def sentence(self) -> str:
        """Say it to a reader."""
        said = {
            End.WHOLE: "all that matched",
            End.CAP: "stopped at the most that a file may have: more may match",
            End.BOUND: "the search stopped at its bound: more may match",
        }[self.end]
        left_out = f"; {self.left_out} left out for ambiguous ownership" if self.left_out else ""
        return f"{self.rows} rows, {said}{left_out}"


class Writer(Protocol):
    """Writes a file in parts: the head, rows, the tail."""

    def head(self) -> str:
        """Return what stands before the rows."""

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """Return some rows."""

    def tail(self, summary: Summary) -> str:
        """Return what stands behind the rows."""


class CsvWriter:
    """One line a row, every cell quoted, none of them a formula; the last line begins with `#` and sums up."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Take the columns, in order."""
        self._columns = columns

    def head(self) -> str:
        """Return the line with the columns' names."""
        return _line(self._columns)

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """Return the lines of some rows."""
        return "".join(_line([_cell(row[column]) for column in self._columns]) for row in rows)

    def tail(self, summary: Summary) -> str:
        """Return the last line."""
        return _line([f"# {summary.sentence}"])


class JsonWriter:
    """One document: what was asked for, the rows, one on a line, and the sum."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        """Take what stands in front of the rows."""
        self._asked = asked
        self._is_first = True

    def head(self) -> str:
        """Return the document's beginning."""
        return f'{_json(self._asked)[:-1]}, "rows": ['

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> str:
        """Return some rows."""
        parts = []
        for row in rows:
            parts.append(f"{'' if self._is_first else ','}\n{_json(row)}")
            self._is_first = False
        return "".join(parts)

    def tail(self, summary: Summary) -> str:
        """Return the document's end."""
        end = {
            "count": summary.rows,
            "left_out": summary.left_out,
            "is_capped": summary.end is not End.WHOLE,
            "end": summary.sentence,
        }
        return f"\n], {_json(end)[1:]}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Return a value as a spreadsheet may have it: text that it would take for a formula is quoted as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list)):
        value = _json(value)
    if isinstance(value, str) and (value[:1] in set(_BLANK) or value.lstrip()[:1] in _FORMULA):
        return f"'{value}"
    return value
