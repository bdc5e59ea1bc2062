"""What racing processes run."""

from __future__ import annotations

from dataclasses import replace

from integration.storage import db
from integration.storage.sql import work_items
from integration.work import claim as claims
from integration.work.candidates import candidate_from_row
from integration.work.claim import claim
from integration.work.process import register_process
from tests.support.work import Pack, query

NOTHING = ("-",)
#: The claim with everything that the row must still be taken out of its WHERE.
UNGUARDED = replace(
    work_items.FIRST_CLAIM,
    text=work_items.FIRST_CLAIM.text.split("AND w.State = 'pending'")[0],  # type: ignore[arg-type]
)


def claim_every_row(count: int, *, guarded: bool = True) -> list[str]:
    """Try to claim each of the same rows in the same order; return the WorkIds won."""
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    rows = db.read().fetch_all(
        work_items.LIST_CLAIM_CANDIDATES,
        {"closed_packs": NOTHING, "blocked_lanes": NOTHING, "busy_targets": NOTHING, "limit": count},
    )
    if not guarded:
        work_items.FIRST_CLAIM = UNGUARDED
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
    return len(Pack(flow="tests.record").admit(count, payload={"file": file}))


def ended() -> list[tuple[str, str, int, int, list[str | None]]]:
    """Return each item's id, state, attempt, epoch and the outcomes of its attempts."""
    outcomes: dict[str, list[str | None]] = {}
    for row in query("SELECT WorkId, Outcome FROM _System_ConnectorExecutionAttempt ORDER BY WorkId, Attempt"):
        outcomes.setdefault(row["WorkId"], []).append(row["Outcome"])
    return [
        (row["WorkId"], row["State"], row["Attempt"], row["OwnershipEpoch"], outcomes.get(row["WorkId"], []))
        for row in query("SELECT * FROM _System_ConnectorWorkItem ORDER BY WorkId")
    ]
