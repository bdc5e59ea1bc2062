"""What racing processes run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from integration.authority import cancellation
from integration.authority.values import BOTH_PERMISSIONS, Ref
from integration.storage.sql import cancellations, work_items
from integration.storage.statements import Statement
from integration.values import Actor
from integration.work import candidates
from integration.work import claim as claims
from integration.work.candidates import CandidateQueue, candidate_from_row
from integration.work.claim import claim
from integration.work.options import Options
from integration.work.process import register_process
from integration.work.supervisor import Supervisor
from tests.concurrency.work.waits import until
from tests.support.work import Pack, due_rows, query

#: The claim with everything that the row must still be taken out of its WHERE.
UNGUARDED = replace(
    work_items.FIRST_CLAIM,
    text=work_items.FIRST_CLAIM.text.split("AND w.State = 'pending'")[0],  # type: ignore[arg-type]
)


def take_guard_away(**statements: Statement) -> None:
    """Replace statements of the connector's port in this process."""
    for name, statement in statements.items():
        object.__setattr__(work_items.CONNECTOR, name, statement)


def claim_every_row(count: int, folder: str, racers: int, *, guarded: bool = True) -> list[str]:
    """Try to claim each of the same rows, which everybody has read before, in the same order; return the WorkIds won."""
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    rows = due_rows(count)
    (Path(folder) / f"read-{os.getpid()}").touch()
    until(lambda: len(list(Path(folder).glob("read-*"))) == racers, "everybody has read the rows")
    if not guarded:
        take_guard_away(first_claim=UNGUARDED)
        # The attempt's primary key would still catch it.
        claims._insert_attempts = lambda tx, wanted: None
    won: list[str] = []
    for row in rows:
        item = candidate_from_row(row)
        fence = process.fence_for(item.pack_install_id)
        assert fence is not None
        won += [taken.work_id for taken in claim((item,), fence).claims]
    return won


def admit(count: int, file: str) -> int:
    """Admit items whose flow writes its WorkId to a file."""
    return len(Pack(flow="tests.record").admit(count, payload={"file": file}, MaxAttempts=100))


def ended() -> list[tuple[str, str, int, int, list[str | None]]]:
    """Return each item's id, state, attempt, epoch and the outcomes of its attempts."""
    outcomes: dict[str, list[str | None]] = {}
    for row in query("SELECT WorkId, Outcome FROM _System_ConnectorExecutionAttempt ORDER BY WorkId, Attempt"):
        outcomes.setdefault(row["WorkId"], []).append(row["Outcome"])
    return [
        (row["WorkId"], row["State"], row["Attempt"], row["OwnershipEpoch"], outcomes.get(row["WorkId"], []))
        for row in query("SELECT * FROM _System_ConnectorWorkItem ORDER BY WorkId")
    ]


def cancel_each(work_ids: list[str], *, guarded: bool = True) -> dict[str, str]:
    """Cancel each of some items as an operator; return how each attempt ended."""
    actor = Actor(user_id=1, name="rolf", permissions=BOTH_PERMISSIONS)
    if not guarded:
        cancellation._check = lambda was, event: None
        text = cancellations.CANCEL_WORK_ITEM.text.split("AND State IN")[0]
        cancellations.CANCEL_WORK_ITEM = replace(cancellations.CANCEL_WORK_ITEM, text=text)  # type: ignore[arg-type]
    answers = {}
    for work_id in work_ids:
        try:
            answers[work_id] = cancellation.cancel(
                Ref(id=work_id), actor=actor, reason="The deal is gone"
            ).outcome.value
        except cancellation.CancelRefused as refused:
            answers[work_id] = refused.refusal_code.value
    return answers


def cancel_or_work(work_ids: list[str], *, guarded: bool = True) -> dict[str, str]:
    """Cancel each of some items, or, when there are none to cancel, run a worker."""
    if work_ids:
        return cancel_each(work_ids, guarded=guarded)
    work_until_idle()
    return {}


def work_until_idle(*, without: str = "") -> int:
    """Run a worker until nothing is left, with one of the guards of the lanes taken away."""
    if without == "source_lanes":
        CandidateQueue._behind_another = lambda self, window: set()
        CandidateQueue._open_ones = lambda self, window, blocked, busy: window
    if without in {"busy_look", "target_lanes"}:
        candidates._busy_target_keys = lambda window, family: set()
    if without == "target_lanes":
        CandidateQueue._open_ones = lambda self, window, blocked, busy: window
        first = work_items.FIRST_CLAIM.text
        start, end = first.index("SHA2("), first.index("w.UpdatedAt")
        text = f"{first[:start]}NULL, {first[end:]}"
        take_guard_away(first_claim=replace(work_items.FIRST_CLAIM, text=text))  # type: ignore[arg-type]
    options = Options(roles=frozenset({"claim"}), concurrency=4, poll_seconds=0.01, until_idle=True)
    return Supervisor(options).run().executed
