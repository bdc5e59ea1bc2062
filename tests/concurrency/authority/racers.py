"""What the processes of the replay's races run; a mutant takes away a guard in its own process only."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from batteries import kernel, unguarded
from integration.authority import gate, locked, service
from integration.authority.values import BOTH_PERMISSIONS, Ref, Replayed
from integration.storage.locks import LockedPack, lock_packs
from integration.storage.sql import packs
from integration.storage.statements import Returns, Statement
from integration.values import Actor
from tests.support.work import change


def replay(work_id: str, name: str, user_id: int, mutant: str = "") -> dict[str, Any]:
    """Replay a row as an operator and tell what came of it."""
    for part in filter(None, mutant.split("+")):
        MUTANTS[part]()
    actor = Actor(user_id=user_id, name=name, via="command", permissions=BOTH_PERMISSIONS)
    outcome = service.replay(Ref(id=work_id), actor=actor, reason=f"race of {name}")
    if isinstance(outcome, Replayed):
        return {"name": name, "outcome": "replayed", "child": outcome.child_work_id}
    winner = outcome.winner
    return {
        "name": name,
        "outcome": outcome.code,
        "winner": None if winner is None else winner.actor_name,
        "child": None if winner is None else winner.child_work_id,
        "event": None if winner is None else winner.child_event_id,
        "at": None if winner is None or winner.at is None else winner.at.isoformat(),
    }


def replay_each(refs: list[str], mutant: str = "") -> list[str]:
    """Replay rows one after the other; return what came of each."""
    if mutant:
        MUTANTS[mutant]()
    actor = Actor(user_id=1, name="maria", via="command", permissions=BOTH_PERMISSIONS)
    outcomes = [service.replay(Ref.parse(ref), actor=actor, reason="One of each kind") for ref in refs]
    return ["replayed" if isinstance(outcome, Replayed) else outcome.code for outcome in outcomes]


def end_claims(ends: dict[str, str], mutant: str = "") -> dict[str, bool]:
    """Claim items, say so, wait for a line, and end each as told; return what was accepted."""
    process = kernel.register()
    held = {claim.work_id: claim for claim in kernel.claim_all(process, len(ends))}
    print("claimed", flush=True)
    sys.stdin.readline()
    accepted = {}
    for work_id, name in ends.items():
        accepted[work_id] = kernel.WRITES[name](held[work_id])
        if mutant == "event_too":
            change("UPDATE _System_ConnectorEvent SET Status = Status WHERE EventId = %s", held[work_id].item.event_id)
    return accepted


def own_until_changed(event_id: str) -> list[dict[str, Any]]:
    """Ask the gate who owns an Event, wait for a line, and ask on in the same process until it says another."""
    first = _own(event_id)
    print("asked", flush=True)
    sys.stdin.readline()
    deadline = time.monotonic() + 40
    while (found := _own(event_id)) == first and time.monotonic() < deadline:
        time.sleep(0.1)
    return [first, found]


def own_twice(event_id: str) -> list[dict[str, Any]]:
    """Ask the gate who owns an Event, wait for a line, and ask again in the same process."""
    first = _own(event_id)
    print("asked", flush=True)
    sys.stdin.readline()
    return [first, _own(event_id)]


def _own(event_id: str) -> dict[str, Any]:
    owner = gate.owner_of(event_id)
    return {"kind": owner.kind.value, "work_id": owner.work_id, "rule": owner.why.rule, "code": owner.why.code}


def _event_before_pack() -> None:
    early = Statement(
        name="EARLY",
        text="SELECT EventId FROM _System_ConnectorEvent WHERE SourceLane IS NOT NULL ORDER BY EventId FOR UPDATE",
        returns=Returns.ROWS,
    )

    def lock_wrongly(tx: Any, pack_install_ids: Sequence[str]) -> list[LockedPack]:
        tx.fetch_all(early)
        return lock_packs(tx, pack_install_ids)

    locked.lock_packs = lock_wrongly


def _pack_unlocked() -> None:
    text = packs.LOCK_PACKS.text.replace("FOR UPDATE", "")
    packs.LOCK_PACKS = unguarded.changed(packs.LOCK_PACKS, text)


MUTANTS = {
    "no_event_guard": unguarded.without_event_guard,
    "no_rule": unguarded.without_rule,
    "no_guard": unguarded.without_item_guard,
    "no_keys": unguarded.without_keys,
    "event_before_pack": _event_before_pack,
    "pack_unlocked": _pack_unlocked,
}
