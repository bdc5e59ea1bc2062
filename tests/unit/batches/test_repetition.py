"""What counts as the same thing again and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.batches.repetition import dead_children, repeated_code

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ended(*codes: str) -> list[dict[str, object]]:
    return [{"outcome": "refused" if code else "replayed", "code": code} for code in codes]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), None),
        (("a",), None),
        (("a", "a"), None),
        (("a", "a", "a"), "a"),
        (("a", "a", "b"), None),
        (("b", "a", "a", "a"), None),
        (("a", "a", "a", "b"), "a"),
        (("", "", ""), None),
        (("a", "", "a", "a"), None),
    ],
)
def test_repeated_code__is_that_of_the_last_three(codes: tuple[str, ...], expected: str | None):
    assert repeated_code(ended(*codes), 3) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("ddd", True),
        ("sddd", True),
        ("ddds", False),
        ("ddpd", True),
        ("dpd", False),
        ("dsd", False),
        ("", False),
    ],
)
def test_dead_children__are_the_last_three_that_ended(states: str, expected: bool):
    names = {"d": "dead", "s": "succeeded", "p": "pending"}
    children = [
        {
            "WorkId": str(place),
            "State": names[letter],
            "TerminalAt": None if letter == "p" else NOW + timedelta(seconds=place),
        }
        for place, letter in enumerate(states)
    ]
    assert dead_children(children, 3) is expected
