"""The filters of dead rows as options of a command."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from integration import errors
from integration.authority.listing import DeadFilters

_TEXT_FILTERS: Final = (
    "org",
    "namespace",
    "pack",
    "provider",
    "event-kind",
    "work-type",
    "owner",
    "execution-class",
    "source-lane",
    "search",
)


def add_filters(parser: ArgumentParser) -> None:
    """Declare one option for each filter."""
    for name in _TEXT_FILTERS:
        parser.add_argument(f"--{name}")
    parser.add_argument("--min-attempts", type=int)
    parser.add_argument("--max-attempts", type=int)
    parser.add_argument("--died-after", help="ISO 8601 with a zone.")
    parser.add_argument("--died-before", help="ISO 8601 with a zone.")
    parser.add_argument("--replayed", choices=["yes", "no"])


def filters_of(options: Mapping[str, Any]) -> DeadFilters:
    """Return the filters that were given.

    Raises:
        InvalidInput: One of them is not valid.
    """
    texts = {name.replace("-", "_"): options[name.replace("-", "_")] or None for name in _TEXT_FILTERS}
    return DeadFilters(
        **texts,
        min_attempts=options["min_attempts"],
        max_attempts=options["max_attempts"],
        died_after=moment_of("died_after", options["died_after"]),
        died_before=moment_of("died_before", options["died_before"]),
        replayed={"yes": True, "no": False}.get(options["replayed"]),
    )


def moment_of(field: str, text: str | None) -> datetime | None:
    """Return the moment that an option names, None for none.

    Raises:
        InvalidInput: It is no moment.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        message = f"{field} is a time like 2026-01-31T12:00:00Z."
        raise errors.InvalidInput(message, field=field) from None
