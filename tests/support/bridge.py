"""Rolled-back packs that the Event executor works on."""

from __future__ import annotations

from tests.support.legacy import LegacyPack
from tests.support.rollback import MovedPack


class BridgedPack(MovedPack):
    """A pack whose work was the WorkItems', with an executor for what is given back."""

    events = LegacyPack.events
    executor = LegacyPack.executor
    hold = LegacyPack.hold
    claim = LegacyPack.claim

    def run_out(self) -> dict[str, int]:
        """Run an executor until nothing is due; return what it stored."""
        executor = self.executor()
        while executor.round():
            pass
        executor._say_stopped()
        return dict(executor.report().ended)
