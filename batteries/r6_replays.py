"""R6 for replay: clients replay the same dead items beside those that claim and end them, and replay the children.

The model of one item then has its child: there is one for ever, whoever asks, and a refusal says what holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from batteries import unguarded
from batteries.database import Ground
from batteries.figures import Figures
from batteries.r6_clients import ITEMS, Client
from batteries.r6_histories import check
from integration import errors
from integration.authority import service
from integration.authority.values import BOTH_PERMISSIONS, Ref, RefKind, Refused
from integration.storage import db
from integration.values import Actor, new_id
from tests.support.work import Pack, change, query

#: Those that nobody has replayed first: there the clients meet.
_DEAD = """
    SELECT WorkId FROM _System_ConnectorWorkItem
     WHERE State = 'dead' ORDER BY ReplayedAt IS NOT NULL, ReplayedAt DESC, WorkId LIMIT 3
"""
_TRIES = 10


class Replayer(Client):
    """A client that also replays."""

    ends: Mapping[str, int] = MappingProxyType({"bury": 10, "retry": 3, "renew": 2, "complete": 1})

    @staticmethod
    def take_guard_away() -> None:
        for take_away in (unguarded.without_rule, unguarded.without_item_guard, unguarded.without_keys):
            take_away()

    def acts(self) -> list[tuple[Callable[[], None], int]]:
        return [(self.claim, 5), (self.end, 6), (self.reap, 1), (self.read, 2), (self.replay, 5)]

    def replay(self) -> None:
        """Replay a dead item, or now and then one that may not be dead; after a lost answer ask by the same name."""
        dead = [row["WorkId"] for row in query(_DEAD)]
        self.items = [row["WorkId"] for row in query("SELECT WorkId FROM _System_ConnectorWorkItem")]
        work_id = self._chance.choice(dead if dead and self._chance.random() < 0.9 else self.items)
        name = new_id()
        for _ in range(_TRIES):
            if self._ask(work_id, name):
                return

    def _ask(self, work_id: str, name: str) -> bool:
        """Ask once; return whether it was answered."""
        actor = Actor(user_id=self._number + 1, name=f"client-{self._number}", permissions=BOTH_PERMISSIONS)
        self._tokens.child = ""
        call = time.monotonic_ns()
        try:
            outcome = service.replay(
                Ref(id=work_id, kind=RefKind.WORK_ITEM), actor=actor, reason="R6", idempotency_key=name
            )
        except errors.CommitUnknown:
            db.close_connections()
            if self._tokens.child:
                self._log("replay", work_id, call=call, back=0, ok=True, epoch=0, child=self._tokens.child)
            return False
        back = time.monotonic_ns()
        if isinstance(outcome, Refused):
            winner = outcome.winner
            child = winner.child_work_id if winner is not None else None
            facts = {"ok": False, "code": outcome.code, "child": child or ""}
        else:
            facts = {"ok": True, "child": outcome.child_work_id, "repeat": outcome.is_repeat}
        # Its own child's id tells a replay what became of a lost COMMIT: a refusal after one is a refusal.
        self._log("replay", work_id, call=call, back=back, is_settled=True, epoch=0, **facts)
        return True


def admit() -> list[str]:
    """Admit items whose children have a route to follow."""
    pack = Pack()
    pack.route(retry={"max_attempts": 100})
    items = pack.admit(ITEMS, MaxAttempts=100)
    # The pack's rows were put in by hand, so that its counter knows nothing of them.
    change("UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s", ITEMS + 1)
    return items


def run(ground: Ground, figures: Figures) -> None:
    """Check histories with replays."""
    histories, steps = ground.pick((1, 60), (5, 250), (100, 625))
    kinds = check(ground, figures, histories=histories, steps=steps, admit=admit, client_class=Replayer)
    taken = kinds["replay lost_race"] + kinds["replay already_replayed"]
    figures.demand("replays were among them, refused ones too", ground.mutant or min(kinds["replay ok"], taken) > 0)
