"""What the processes of a projection's replay races run: one of them holds the pack until the other waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from integration.authority import child, service
from integration.authority.values import BOTH_PERMISSIONS, Ref, Replayed
from integration.projection import admission as admitting
from integration.values import Actor
from tests.support.admission import materialize_patiently
from tests.support.meetings import await_lock, hold_until_waited_for

_PACKS = "_System_ConnectorPackInstall"


def take_part(role: str, folder: str, first: str, work_id: str) -> dict[str, Any]:
    """Replay a generation, or admit what is stored; whoever is first holds the pack until the other waits for it.

    A role of `replay` followed by more is a replay by another operator.
    """
    place = Path(folder)
    if role == first:
        _hold(role, place)
    else:
        await_lock(place)
    if role == "admit":
        return {"receipts": materialize_patiently()}
    actor = Actor(user_id=len(role), name=role, via="command", permissions=BOTH_PERMISSIONS)
    outcome = service.replay(Ref(id=work_id), actor=actor, reason="race")
    if isinstance(outcome, Replayed):
        return {"outcome": "replayed", "child": outcome.child_work_id}
    winner = outcome.winner
    return {"outcome": outcome.code, "winner": None if winner is None else winner.actor_name}


def _hold(role: str, place: Path) -> None:
    if role == "admit":
        admitting.failpoint = lambda name: (
            hold_until_waited_for(place, _PACKS) if name == "admission.after_locks" else None
        )
        return
    values = child.shared_values

    def held(*arguments: Any, **options: Any) -> dict[str, Any]:
        # Every lock is held, every rule has answered, and the reservation is written.
        hold_until_waited_for(place, _PACKS)
        return values(*arguments, **options)

    child.shared_values = held
