"""What the processes run whose batches of ends meet each other, or an admission."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from integration.authority import service
from integration.authority.values import Ref, Replayed
from integration.ingress.service import materialize_ready
from integration.projection import admission as admitting
from integration.projection import handoff
from integration.storage import db, policy
from integration.storage.db import Tx
from integration.storage.sql import work_items
from integration.storage.statements import Statement
from integration.work import finish
from integration.work.candidates import CandidateQueue
from integration.work.claim import Claim, claim, claim_some
from integration.work.finish import Ended, finish_many
from tests.concurrency.rules.racers import register
from tests.concurrency.work.racers import take_guard_away
from tests.support import admission
from tests.support.authority import MARIA
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import change

SMALL_ID: Final = "00000000-0000-7000-8000-000000000000"
_WORK_ITEMS: Final = "_System_ConnectorWorkItem"
#: Batches of six items that overlap in the third and the fourth, given in opposite orders.
_FIRST: Final = (0, 1, 2, 3)
_SECOND: Final = (5, 4, 3, 2)


def play(part: str, folder: str, **options: Any) -> dict[str, Any]:
    """Play one part of a race; the answer has the numbers of the database's errors that were met."""
    met: list[int] = []
    classify = policy.classify

    def note(code: int, text: str, **where: Any) -> policy.Disposition:
        met.append(code)
        return classify(code, text, **where)

    policy.classify = note
    return {**_PARTS[part](Path(folder), **options), "met": met}


# Two batches that overlap.


def end_first(folder: Path, *, sorted_ids: bool) -> dict[str, Any]:
    """Claim six items, and end four of them while another process waits to end some of the same."""
    process = register()
    items = CandidateQueue(process).take(6)
    fence = process.fence_for(items[0].pack_install_id)
    assert fence is not None
    await_file(folder / "read")
    claims = sorted(claim(items, fence).claims, key=lambda one: one.work_id)
    (folder / "token").write_text(json.dumps([claims[0].lease_token, claims[0].lease_owner]))
    (folder / "claimed").touch()
    batch = [claims[place] for place in _FIRST]
    if not sorted_ids:
        return {"ended": _end_in_order(batch, stay_after=2, stay=lambda: hold_until_waited_for(folder, _WORK_ITEMS))}

    def stay(statement: Statement, params: Any) -> int:
        def unit(tx: Tx) -> int:
            matched = tx.execute(statement, params)
            hold_until_waited_for(folder, _WORK_ITEMS)
            return matched

        return db.run(unit, name="tests.end_first")

    db.execute_alone = stay  # type: ignore[assignment]
    return {"ended": sorted(finish_many(batch, Ended.COMPLETE))}


def end_second(folder: Path, *, sorted_ids: bool) -> dict[str, Any]:
    """End four of the items that the other process has claimed, two of which it is about to end itself."""
    items = sorted(CandidateQueue(register()).take(6), key=lambda one: one.work_id)
    (folder / "read").touch()
    await_file(folder / "claimed")
    token, owner = json.loads((folder / "token").read_text())
    batch = [
        Claim(item=items[place], attempt=1, epoch=1, lease_token=token, lease_owner=owner, lease_seconds=60)
        for place in _SECOND
    ]
    await_lock(folder)
    if not sorted_ids:
        return {"ended": _end_in_order(batch)}
    return {"ended": sorted(finish_many(batch, Ended.COMPLETE))}


def _end_in_order(
    batch: Sequence[Claim], *, stay_after: int | None = None, stay: Callable[[], None] = lambda: None
) -> list[str]:
    """End a batch in one transaction, row by row in the order in which it is given."""
    stayed: list[bool] = []

    def unit(tx: Tx) -> list[str]:
        ended = []
        for number, one in enumerate(batch):
            params = {"work_id": one.work_id, "lease_token": one.lease_token, "epoch": one.epoch}
            ended += [one.work_id] * tx.execute(work_items.COMPLETE_WORK_ITEM, params)
            if number == stay_after and not stayed:
                stayed.append(True)
                stay()
        return ended

    return sorted(db.run(unit, name="tests.end_in_order"))


# A batch of ends that meets an admission.


def admit(folder: Path) -> dict[str, Any]:
    """Queue successors behind claimed generations while the other process waits to end these."""
    await_file(folder / "claimed")
    admitting.failpoint = lambda name: (  # type: ignore[attr-defined]
        hold_until_waited_for(folder, _WORK_ITEMS) if name == "admission.after_locks" else None
    )
    return {"receipts": materialize_ready()}


def end_generations(folder: Path, *, together: bool = False) -> dict[str, Any]:
    """Claim what there is of generations and items at once, and end all of it once the admission holds its locks.

    Args:
        folder: Where the processes meet.
        together: The generations end in the batch, too; the worker ends each by itself.

    Returns:
        The WorkIds that ended.
    """
    process = register()
    claims = claim_some(process, CandidateQueue(process), 100)
    (folder / "claimed").touch()
    await_lock(folder)
    if together:
        many = work_items.COMPLETE_WORK_ITEMS
        text = many.text.replace("AND ProjectionKey IS NULL", "")
        assert text != many.text
        take_guard_away(complete_many=replace(many, text=text))
        return {"ended": sorted(finish_many(claims, Ended.COMPLETE))}
    generations = [one for one in claims if one.item.is_projection]
    alone = [one for one in claims if not one.item.is_projection]
    ended = finish_many(alone, Ended.COMPLETE)
    for one in generations:
        finish.complete(one)
    return {"ended": sorted({*ended, *(one.work_id for one in generations)})}


# A generation whose successor has the smaller id.


def extend_queued(folder: Path) -> dict[str, Any]:
    """Queue a generation behind a claimed one, give it the smaller id, and extend it: both are locked, by id."""
    _queue_small_id(folder)
    admission.inputs(1)
    (folder / "queued").touch()
    await_lock(folder)
    return {"receipts": materialize_ready()}


def replay_dead(folder: Path, *, work_id: str) -> dict[str, Any]:
    """Queue the same, and replay a generation of the source that died before: all of the source are locked, by id."""
    _queue_small_id(folder)
    (folder / "queued").touch()
    await_lock(folder)
    outcome = service.replay(Ref(id=work_id), actor=MARIA, reason="race")
    return {"outcome": "replayed" if isinstance(outcome, Replayed) else outcome.code}


def _queue_small_id(folder: Path) -> None:
    await_file(folder / "claimed")
    assert materialize_ready() == 1
    # As a host makes it whose clock is behind.
    change("UPDATE _System_ConnectorWorkItem SET WorkId = %s WHERE State = 'pending'", SMALL_ID)


def end_before_handoff(folder: Path) -> dict[str, Any]:
    """End a claimed generation, and stay between that and the handoff until the admission waits for the row."""
    process = register()
    (one,) = claim_some(process, CandidateQueue(process), 1)
    stayed: list[str] = []

    def stay(name: str) -> None:
        if name == "handoff.before" and not stayed:
            stayed.append(name)
            hold_until_waited_for(folder, _WORK_ITEMS)

    handoff.failpoint = stay  # type: ignore[attr-defined]
    (folder / "claimed").touch()
    await_file(folder / "queued")
    finish.complete(one)
    return {"ended": [one.work_id]}


_PARTS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "end_first": end_first,
    "end_second": end_second,
    "admit": admit,
    "end_generations": end_generations,
    "extend_queued": extend_queued,
    "replay_dead": replay_dead,
    "end_before_handoff": end_before_handoff,
}
