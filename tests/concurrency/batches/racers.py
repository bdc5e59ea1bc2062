"""What the processes of the bulk replays' tests run; a mutant takes away a guard in its own process only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from integration.authority.values import BULK_PERMISSIONS
from integration.batches import runner as running
from integration.batches import service
from integration.batches.runner import Runner
from integration.batches.values import BatchStateRefused
from integration.storage.sql import replay_batches as sql
from integration.values import Actor
from tests.support.batches import run_to_rest
from tests.support.meetings import await_file


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
        pretend(runner_id=runner._id, IsLeased=1)
        return run_to_rest(runner)
    while not runner.is_idle():
        count = runner.round()
        done += count
        if not count:
            # Another one's lease has to run out first.
            time.sleep(0.05)
    return done


def pretend(**turn: Any) -> None:
    """Have the runners of this process read these values of every batch whose turn it is, whatever is stored."""
    read = running.db.read

    class Pretending:
        """A reader that does."""

        def __init__(self) -> None:
            self._reader = read()

        def fetch_one(self, statement: Any, params: Any = None) -> Any:
            row = self._reader.fetch_one(statement, params)
            return {**row, **turn} if statement is sql.READ_BATCH_TURN and row is not None else row

        def fetch_all(self, statement: Any, params: Any = None) -> Any:
            return self._reader.fetch_all(statement, params)

    running.db = type("Open", (), {"read": Pretending, "execute_alone": running.db.execute_alone})


def play(part: str, folder: str, **options: Any) -> Any:
    """Play one part of a meeting of a runner and an operator."""
    parts = {"run": run_and_stay, "act": act}
    return parts[part](Path(folder), **options)


def run_and_stay(folder: Path, *, point: str, times: int, deaf: bool = False) -> int:
    """Run bulk replays, and stay at a point until the operator has done what he wants.

    Args:
        folder: Where the two meet.
        point: The failpoint's name.
        times: How often it is met before that.
        deaf: The guard is gone: the runner takes the batch for its own, and for running, whatever is stored.

    Returns:
        How many items this process ended.
    """
    met: list[str] = []

    def stay(name: str) -> None:
        if name == point:
            met.append(name)
            if len(met) == times:
                (folder / "there").touch()
                await_file(folder / "done")

    running.failpoint = stay
    runner = Runner(lease_seconds=300)
    if deaf:
        pretend(state="running", runner_id=runner._id, IsLeased=1)
    return run_to_rest(runner)


def act(
    folder: Path,
    *,
    batch_id: str,
    user_id: int,
    verbs: Sequence[str],
    after: str = "there",
    before: str = "done",
    guarded: bool = True,
) -> list[str]:
    """Do one thing after the other to a batch, each as an operator; `run` is to run it to its rest.

    Args:
        folder: Where the others are met.
        batch_id: The batch.
        user_id: The operator.
        verbs: What is done.
        after: The file that is waited for first; empty for none.
        before: The file that is made last.
        guarded: Or a pause asks for no state.

    Returns:
        What each came to: the state, or a refusal's code.
    """
    if not guarded:
        text = sql.PAUSE_BATCH.text.replace("AND state = 'running'", "")
        assert text != sql.PAUSE_BATCH.text
        service._STATEMENTS["paused"] = replace(sql.PAUSE_BATCH, text=text)
    actor = Actor(user_id=user_id, name="rolf", via="command", permissions=BULK_PERMISSIONS)
    if after:
        await_file(folder / after)
    came_to: list[str] = []
    for verb in verbs:
        if verb == "run":
            came_to.append(f"{run_to_rest(Runner(lease_seconds=300))} ended")
            continue
        try:
            came_to.append(getattr(service, verb)(batch_id, actor=actor).state.value)
        except BatchStateRefused as error:
            came_to.append(error.code)
    (folder / before).touch()
    return came_to
