"""Waiting for what another process does; no sleep stands for an event."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.processes import Command


def until(condition: Callable[[], object], what: str, seconds: float = 240.0) -> None:
    """Wait until a condition holds, and fail by name when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def until_said(command: Command, words: str) -> str:
    """Read a process's output until a line holds some words; return that line."""
    assert command.process.stdout is not None
    seen = []
    for line in command.process.stdout:
        seen.append(line)
        if words in line:
            return line
    message = f"never said {words!r}:\n{''.join(seen)[-4000:]}"
    raise AssertionError(message)
