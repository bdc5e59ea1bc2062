"""What the processes of the bulk replays' tests run; a mutant takes away a guard in its own process only."""

from __future__ import annotations

import time
from typing import Any

from integration.batches import runner as running
from integration.batches.runner import Runner
from integration.storage.sql import replay_batches as sql
from tests.support.batches import run_to_rest


def run_batches(*, named: bool = True, leased: bool = True, lease_seconds: int = 1) -> int:
    """Run bulk replays until none is running; return how many items this process ended."""
    if not named:
        replay = running.authority.replay

        def replay_unnamed(*args: Any, **kwargs: Any) -> Any:
            return replay(*args, **{**kwargs, "idempotency_key": None})

        running.authority = type("Unnamed", (), {"replay": staticmethod(replay_unnamed)})
    runner, done = Runner(lease_seconds=lease_seconds), 0
    if not leased:
        runner._take = lambda batch_id: True
        read = running.db.read

        class Everybodys:
            """Say of every batch that it is this runner's."""

            def __init__(self) -> None:
                self._reader = read()

            def fetch_one(self, statement: Any, params: Any = None) -> Any:
                row = self._reader.fetch_one(statement, params)
                if statement is sql.READ_BATCH_TURN and row is not None:
                    return {**row, "runner_id": runner._id, "IsLeased": 1}
                return row

            def fetch_all(self, statement: Any, params: Any = None) -> Any:
                return self._reader.fetch_all(statement, params)

        running.db = type("Open", (), {"read": Everybodys, "execute_alone": running.db.execute_alone})
        return run_to_rest(runner)
    while not runner.is_idle():
        count = runner.round()
        done += count
        if not count:
            # Another one's lease has to run out first.
            time.sleep(0.05)
    return done
