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
    """Listen to a process until a line holds some words; return that line."""
    until(lambda: _said(command, words) or command.process.poll() is not None, f"it said {words!r}")
    if command.process.poll() is not None:
        command.wait()
    found = _said(command, words)
    assert found, f"never said {words!r}:\n{''.join(command.heard)[-4000:]}"
    return found[0]


def _said(command: Command, words: str) -> list[str]:
    return [line for line in command.heard if words in line]
