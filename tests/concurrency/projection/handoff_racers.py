"""What the processes of the handoff's races run; a variant takes the order of statements away in its own process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from django.db import connections

from integration.projection import admission as admitting
from integration.projection import handoff
from integration.storage.db import Tx
from integration.storage.sql import handoffs, projections
from integration.storage.statements import LockRank, Returns, Statement
from integration.work import finish
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.execute import execute
from integration.work.flows import discover_flows
from integration.work.process import WorkerProcess, register_process
from tests.support import admission, webhooks
from tests.support.meetings import await_file, await_lock, hold_until_waited_for

_LONGEST_SECONDS = 200.0
_WORK_ITEMS = "_System_ConnectorWorkItem"
#: So many batches are admitted before the first claim.
_COALESCING = 2
FLOW = ("flow: {name: demo.apply_deal, version: 1}", "flow: {name: tests.inputs, version: 1}")
#: Both rows in one statement, which looks for the second before it waits for the first.
ONE_SWAP = Statement(
    name="ONE_SWAP",
    text="""
    UPDATE _System_ConnectorWorkItem
       SET ProjectionActiveKey = IF(WorkId = %(work_id)s, NULL, ProjectionKey),
           State = IF(WorkId = %(work_id)s, 'succeeded', State),
           TerminalAt = IF(WorkId = %(work_id)s, UTC_TIMESTAMP(6), TerminalAt),
           LeaseUntil = IF(WorkId = %(work_id)s, NULL, LeaseUntil)
     WHERE WorkId IN (SELECT WorkId
                        FROM (SELECT WorkId
                                FROM _System_ConnectorWorkItem
                               WHERE (WorkId = %(work_id)s AND LeaseToken = %(lease_token)s
                                      AND OwnershipEpoch = %(epoch)s)
                                  OR (ProjectionKey = %(projection_key)s AND State = 'pending' AND Attempt = 0
                                      AND ProjectionActiveKey IS NULL)
                               LIMIT 2) AS both_rows)
     ORDER BY WorkId
    """,
    returns=Returns.COUNT,
    locks=(LockRank.WORK_ITEM,),
)


def take_part(role: str, folder: str, variant: str = "guarded") -> dict[str, Any]:
    """Play one part of the race in which the completion waits for the admission's lock."""
    place = Path(folder)
    if role == "admit":
        await_file(place / "claimed")
        admitting.failpoint = lambda name: (
            hold_until_waited_for(place, _WORK_ITEMS) if name == "admission.after_locks" else None
        )
        return {"receipts": admission.materialize_patiently()}
    finish.end_generation = {"guarded": handoff.end_generation, "looked_first": _looked_first, "one_swap": _one_swap}[
        variant
    ]
    process = _register()
    claim = claim_next(process, CandidateQueue(process))
    assert claim is not None
    (place / "claimed").touch()
    await_lock(place)
    finish.complete(claim)
    return {"work_id": claim.work_id}


def play(part: str, folder: str, **options: Any) -> dict[str, Any]:
    """Play one part of the race of an admission with workers."""
    return admit_batches(folder=folder, **options) if part == "admit" else work_until_over(folder)


def admit_batches(lanes: int, batches: int, file: str, folder: str) -> dict[str, Any]:
    """Admit one input of each lane a batch, and say when it is over.

    The first batches coalesce, since nobody claims yet; the others find something claimed.
    """
    count = 0
    for number in range(batches):
        if number == _COALESCING:
            (Path(folder) / "begun").touch()
            await_file(Path(folder) / "claimed")
        for lane in range(lanes):
            body = json.loads(webhooks.deal(lane, event=admission.PROJECTED))
            admission.receive(json.dumps({**body, "n": number, "file": file}).encode())
        count += admission.materialize_patiently()
    (Path(folder) / "over").touch()
    return {"admitted": count}


def work_until_over(folder: str) -> dict[str, Any]:
    """Claim and run until the admission is over and nothing is left that is due."""
    discover_flows()
    process = _register()
    queue = CandidateQueue(process)
    await_file(Path(folder) / "begun")
    ended = 0
    deadline = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < deadline:
        is_over = (Path(folder) / "over").exists()
        claim = claim_next(process, queue)
        if claim is not None:
            (Path(folder) / "claimed").touch()
            ended += execute(claim) is not None
        elif is_over and not _is_live():
            break
    return {"ended": ended}


def _is_live() -> bool:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM _System_ConnectorWorkItem WHERE State = 'processing' OR (State IN ('pending', 'retry')"
            " AND ProjectionActiveKey IS NOT NULL) LIMIT 1"
        )
        return cursor.fetchone() is not None


def _register() -> WorkerProcess:
    return register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")


def _looked_first(tx: Tx, ending: Statement, params: dict[str, Any], *, projection_key: str | None) -> bool:
    """Look for the successor before the own row is ended, as though the order did not matter."""
    newest = tx.fetch_one(projections.FIND_NEWEST_OF_PROJECTION, {"projection_key": projection_key})
    if tx.execute(ending, params) != 1:
        return False
    if newest is not None and handoff._is_queued(newest):
        tx.execute(handoffs.ACTIVATE_SUCCESSOR, {"work_id": newest["WorkId"], "projection_key": projection_key})
    return True


def _one_swap(tx: Tx, ending: Statement, params: dict[str, Any], *, projection_key: str | None) -> bool:
    """End the one and activate the other in one statement."""
    return tx.execute(ONE_SWAP, {**params, "projection_key": projection_key}) >= 1
