"""Providers that post at an even pace, each delivery again until it is acknowledged, and what they were told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

POSTERS = 6
POSTS_PER_SECOND = 30.0


@dataclass
class Answers:
    """What providers were told."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acked: list[tuple[float, float, str]] = field(default_factory=list)
    others: Counter[int] = field(default_factory=Counter)
    slowest_other: float = 0.0

    def note(self, started: float, status: int, delivery: str) -> None:
        """Keep one answer."""
        now = time.monotonic()
        with self.lock:
            if status == 200:
                self.acked.append((now, now - started, delivery))
            else:
                self.others[status] += 1
                self.slowest_other = max(self.slowest_other, now - started)

    def rate(self, start: float, end: float) -> float:
        """Return how many deliveries a second were acknowledged."""
        with self.lock:
            return sum(start <= at < end for at, _, _ in self.acked) / (end - start)

    def first_after(self, moment: float) -> float | None:
        """Return when the first delivery that was answered after a moment was acknowledged."""
        with self.lock:
            return min((at for at, _, _ in self.acked if at > moment), default=None)


def post(port: int, delivery: str, number: int) -> int:
    """Post one signed webhook; 0 when there was no answer."""
    from tests.support import webhooks

    return webhooks.send(f"http://127.0.0.1:{port}", webhooks.deal(number), delivery, timeout=30)


def load(port: int, name: int, answers: Answers, stop: threading.Event) -> None:
    """Post at an even pace, each delivery again until it is acknowledged."""
    number, due = 0, time.monotonic()
    while not stop.is_set():
        number += 1
        delivery = f"d-{name}-{number}"
        while not stop.is_set():
            started = time.monotonic()
            status = post(port, delivery, name * 1_000_000 + number)
            answers.note(started, status, delivery)
            if status == 200:
                break
            stop.wait(0.2)
        due = max(due + POSTERS / POSTS_PER_SECOND, time.monotonic() - 1)
        stop.wait(max(0.0, due - time.monotonic()))
