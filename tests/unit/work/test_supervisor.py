"""The order in which a draining worker stops its threads."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

from integration.work.options import Options
from integration.work.supervisor import Supervisor


def test_drain__runs_what_a_claim_under_way_still_hands_over():
    supervisor = Supervisor(Options(concurrency=1, drain_seconds=20.0))
    late = cast(Any, object())
    ran: list[Any] = []

    def run() -> None:
        while (claim := supervisor._handed.get()) is not None:
            ran.append(claim)

    runner = threading.Thread(target=run, daemon=True)

    def claim() -> None:
        supervisor._stopping.wait()
        # Long enough for a runner that was told to end too early to have ended.
        runner.join(timeout=0.5)
        supervisor._handed.put(late)

    source = threading.Thread(target=claim, daemon=True)
    runner.start()
    source.start()
    started = time.monotonic()
    finisher = threading.Thread(target=supervisor._finisher.run, daemon=True)
    finisher.start()
    assert supervisor._drain([runner], [source], finisher)
    assert ran == [late]
    assert time.monotonic() - started < 20.0


def test_drain__that_leaves_a_claim_behind_does_not_call_itself_drained():
    supervisor = Supervisor(Options(concurrency=1, drain_seconds=0.1))
    supervisor._live.add([cast(Any, SimpleNamespace(work_id="w"))])
    finisher = threading.Thread(target=supervisor._finisher.run, daemon=True)
    finisher.start()
    assert not supervisor._drain([], [], finisher)
