"""A file's parts: what a spreadsheet takes for a formula, what a reader gets back, what a broken-off file lacks."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.exports.policy import CsvWriter, End, JsonWriter, Summary

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def summary(**over: Any) -> Summary:
    return Summary(**{"rows": 2, "left_out": 0, "end": End.WHOLE, **over})


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        " =1",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1dcmd|' /C calc'!A0",
        '=HYPERLINK("http://evil")',
        "\tx",
    ],
)
def test_csv__a_text_that_would_be_a_formula_is_a_text(text: str) -> None:
    (row,) = read_csv(CsvWriter(["a"]).rows([{"a": text}]))
    assert row == [f"'{text}"]


@given(st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), max_size=4))
def test_csv__comes_back_as_it_was_and_no_cell_is_a_formula(rows: list[dict[str, str]]) -> None:
    writer = CsvWriter(["a", "b"])
    head, *found, tail = read_csv(writer.head() + writer.rows(rows) + writer.tail(summary(rows=len(rows))))
    assert (head, tail) == (["a", "b"], [f"# {len(rows)} rows, all that matched"])
    for row, given_row in zip(found, rows, strict=True):
        for cell, text in zip(row, (given_row["a"], given_row["b"]), strict=True):
            assert cell in {text, f"'{text}"}
            assert cell.lstrip()[:1] not in set(FORMULA)


def test_csv__numbers_truth_and_nothing_have_one_form() -> None:
    rows = [{"a": -3, "b": None}, {"a": True, "b": {"x": "=1"}}]
    assert read_csv(CsvWriter(["a", "b"]).rows(rows)) == [["-3", ""], ["true", '{"x": "=1"}']]


@given(st.lists(st.dictionaries(TEXTS, TEXTS | st.integers() | st.none(), max_size=3), max_size=4))
def test_json__is_one_document_in_whatever_parts_it_is_written(rows: list[dict[str, Any]]) -> None:
    writer = JsonWriter({"filter": {"namespace": "acme"}})
    text = writer.head() + "".join(writer.rows([row]) for row in rows) + writer.tail(summary(rows=len(rows)))
    document = json.loads(text)
    assert (document["rows"], document["count"], document["is_capped"]) == (rows, len(rows), False)
    assert document["filter"] == {"namespace": "acme"}


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"end": End.CAP}, "2 rows, stopped at the most that a file may have: more may match"),
        ({"end": End.BOUND}, "2 rows, the search stopped at its bound: more may match"),
        ({"left_out": 3}, "2 rows, all that matched; 3 left out for ambiguous ownership"),
    ],
)
def test_tail__says_what_the_file_lacks(over: dict[str, Any], said: str) -> None:
    assert read_csv(CsvWriter(["a"]).tail(summary(**over))) == [[f"# {said}"]]
    writer = JsonWriter({"export": "x"})
    document = json.loads(writer.head() + writer.tail(summary(**over)))
    assert (document["end"], document["is_capped"]) == (said, "end" in over)


def test_file__that_is_broken_off_has_no_tail() -> None:
    writer = JsonWriter({"of": "x"})
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the parser says
        json.loads(writer.head() + writer.rows([{"a": 1}]))
    csv_writer = CsvWriter(["a"])
    assert not read_csv(csv_writer.head() + csv_writer.rows([{"a": "1"}]))[-1][0].startswith("#")
