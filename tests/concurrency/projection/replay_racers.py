"""What the processes of a projection's replay races run: one of them holds the pack until the other waits for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.db import connections

from integration.authority import child, service
from integration.authority.values import BOTH_PERMISSIONS, Ref, Replayed
from integration.ingress.service import materialize_ready
from integration.projection import admission as admitting
from integration.values import Actor
from tests.concurrency.projection.handoff_racers import _await
from tests.support.sessions import Session

_LONGEST_SECONDS = 60.0


def take_part(role: str, folder: str, first: str, work_id: str) -> dict[str, Any]:
    """Replay a generation, or admit what is stored; whoever is first holds the pack until the other waits for it.

    A role of `replay` followed by more is a replay by another operator.
    """
    place = Path(folder)
    if role == first:
        _hold(role, place)
    else:
        _await(place / "locked")
    if role == "admit":
        return {"receipts": materialize_ready()}
    actor = Actor(user_id=len(role), name=role, via="command", permissions=BOTH_PERMISSIONS)
    outcome = service.replay(Ref(id=work_id), actor=actor, reason="race")
    if isinstance(outcome, Replayed):
        return {"outcome": "replayed", "child": outcome.child_work_id}
    winner = outcome.winner
    return {"outcome": outcome.code, "winner": None if winner is None else winner.actor_name}


def _hold(role: str, place: Path) -> None:
    if role == "admit":
        admitting.failpoint = lambda name: _until_waited_for(place) if name == "admission.after_locks" else None
        return
    values = child.shared_values

    def held(*arguments: Any, **options: Any) -> dict[str, Any]:
        # Every lock is held, every rule has answered, and the reservation is written.
        _until_waited_for(place)
        return values(*arguments, **options)

    child.shared_values = held


def _until_waited_for(place: Path) -> None:
    """Let the other start, and go on once the database shows that it waits for the pack's row."""
    name = str(connections["default"].settings_dict["NAME"])
    session = Session(name)
    try:
        (place / "locked").touch()
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not _waiters(session, name):
            assert time.monotonic() < deadline, "nobody waited for the pack's row"
            # InnoDB keeps these tables for as long as they are read within 0.1 s of each other.
            time.sleep(0.2)
    finally:
        session.close()


def _waiters(session: Session, database: str) -> list[tuple[Any, ...]]:
    if connections["default"].settings_dict["ENGINE"] == "django_tidb":
        return session.rows(
            "SELECT ID FROM information_schema.TIDB_TRX WHERE State = 'LockWaiting' AND DB = %s", [database]
        )
    return session.rows(
        "SELECT w.REQUESTING_TRX_ID FROM information_schema.INNODB_LOCK_WAITS w"
        " JOIN information_schema.INNODB_LOCKS l ON l.LOCK_ID = w.REQUESTED_LOCK_ID WHERE l.LOCK_TABLE = %s",
        [f"`{database}`.`_System_ConnectorPackInstall`"],
    )
