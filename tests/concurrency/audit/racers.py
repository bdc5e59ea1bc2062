"""What the processes run that look at one row at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from integration.audit import service
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_once
from integration.storage.db import Row, Tx
from integration.storage.sql import audit
from integration.values import Actor
from tests.support.meetings import await_file

ROW = "0192f39e-5b1a-7d20-9c3e-0e1f6a7711d0"
VIEWED = AuditFact(
    action="work_item.viewed",
    outcome=AuditOutcome.DONE,
    actor=Actor(user_id=7, name="ana", via="console"),
    ref_kind="work_item",
    ref_id=ROW,
)


def look(folder: str, *, part: str, head_first: bool = True) -> bool:
    """Look at the row; return whether this process wrote the entry.

    Args:
        folder: Where the two meet.
        part: `stays` has looked for an earlier entry and found none when the other one writes its own; `writes` does.
        head_first: Or the head of the stream is read after that, and the guard is gone.
    """
    here = Path(folder)
    if part == "writes":
        await_file(here / "looked")
        wrote = record_once(VIEWED, within_seconds=3600) is not None
        (here / "written").touch()
        return wrote
    fetch_one = Tx.fetch_one

    def stay(self: Tx, statement: Any, params: Any = None) -> Row | None:
        row = fetch_one(self, statement, params)
        if statement is audit.FIND_RECENT_AUDIT_ENTRY and not (here / "looked").exists():
            (here / "looked").touch()
            await_file(here / "written")
        return row

    Tx.fetch_one = stay
    if not head_first:
        append = service._append_behind

        def append_late(tx: Tx, stream: str, _head: Row | None, fact: AuditFact) -> str:
            return append(tx, stream, tx.fetch_one(audit.READ_AUDIT_HEAD, {"stream": stream}), fact)

        service._append_behind = append_late
    return record_once(VIEWED, within_seconds=3600) is not None
