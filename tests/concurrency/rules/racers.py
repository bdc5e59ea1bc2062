"""What the processes of the rules' races run; a process takes guards away from itself alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from django.db import DatabaseError

from integration.catalog import activation
from integration.catalog.policy import CatalogRefused
from integration.ingress.service import materialize_ready
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.locks import lock_pack, lock_process
from integration.storage.sql import cutovers, processes, routes, work_items
from integration.storage.statements import LockRank, Returns, Statement
from integration.values import SYSTEM_ACTOR, digest_text, new_id
from integration.work import claim as claims
from integration.work import process as registering
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim, claim_next
from integration.work.finish import complete
from integration.work.process import WorkerProcess, register_process
from tests.concurrency.work.racers import take_guard_away
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import item_row, query

#: As a cutover evicts the claimers of a pack.
EVICT: Final = Statement(
    name="EVICT",
    text="""
    UPDATE _System_ConnectorClaimProcess
       SET EvictedAt = UTC_TIMESTAMP(6), EvictedBy = 'tests'
     WHERE PackInstallId = %(pack_install_id)s AND EvictedAt IS NULL
    """,
    returns=Returns.COUNT,
    locks=(LockRank.PROCESS,),
)


def play(part: str, folder: str, **options: Any) -> Any:
    """Play one part of a race."""
    return _PARTS[part](Path(folder), **options)


def register() -> WorkerProcess:
    """Return a registered claimer."""
    return register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")


# Rule 4: the position in a lane.


def extend(folder: Path) -> int:
    """Admit once a claimer has read its candidates."""
    await_file(folder / "read")
    count = materialize_ready()
    (folder / "extended").touch()
    return count


def work_lane(folder: Path, *, moving: bool = False) -> dict[str, Any]:
    """Read the head of a lane, let it be extended, and then claim and end what the lane has, one after the other.

    Args:
        folder: Where the processes meet.
        moving: Order the lane by what an extension moves, as the schema without ranges must.

    Returns:
        Why the first claim was lost, and each item in order with its bounds as they were claimed.
    """
    if moving:
        by_ordinal = work_items.CONNECTOR_OF_ADDITIVE
        take_guard_away(list_candidates=by_ordinal.list_candidates, list_head_positions=by_ordinal.list_head_positions)
    process = register()
    queue = CandidateQueue(process)
    (head,) = queue.take(1)
    fence = process.fence_for(head.pack_install_id)
    assert fence is not None
    (folder / "read").touch()
    await_file(folder / "extended")
    lost = claim((head,), fence).lost
    queue.forget()
    worked = []
    while (found := claim_next(process, queue)) is not None:
        row = item_row(found.work_id)
        worked.append([found.work_id, row["InputStartOrdinal"], row["LaneOrdinal"]])
        complete(found)
    return {"head": head.work_id, "lost": lost, "worked": worked}


# Rule 5: the fence of a process.


def evict(folder: Path) -> dict[str, str]:
    """Evict the claimers while one of them claims; return the items' states as they are once that is done."""
    await_file(folder / "claiming")
    db.run(lambda tx: tx.execute(EVICT, {"pack_install_id": _only_pack()}), name="tests.evict")
    states = {row["WorkId"]: row["State"] for row in query("SELECT WorkId, State FROM _System_ConnectorWorkItem")}
    (folder / "evicted").touch()
    return states


def claim_around_eviction(folder: Path, *, removed: str = "") -> list[list[str]]:
    """Claim one item while the eviction begins, and another one once it is done.

    Args:
        folder: Where the processes meet.
        removed: `lock`, the lock of the own row; `condition`, what that row must say.

    Returns:
        Each item with what came of its claim.
    """
    process = register()
    first, second = CandidateQueue(process).take(2)
    fence = process.fence_for(first.pack_install_id)
    assert fence is not None
    if removed == "lock":
        text = processes.LOCK_PROCESS.text.replace("FOR UPDATE", "")
        # The later statements believe that it was taken.
        processes.LOCK_PROCESS = replace(processes.LOCK_PROCESS, text=text)
    if removed == "condition":
        claims.lock_fence = lambda tx, fence: lock_process(tx, fence.process_id)  # type: ignore[attr-defined]
    insert = claims._insert_attempts

    def insert_and_stay(tx: Tx, wanted: Any) -> None:
        claims._insert_attempts = insert
        insert(tx, wanted)
        (folder / "claiming").touch()
        if removed == "lock":
            await_file(folder / "evicted")
        else:
            hold_until_waited_for(folder, "_System_ConnectorClaimProcess")

    claims._insert_attempts = insert_and_stay
    found = [claim((first,), fence)]
    await_file(folder / "evicted")
    found.append(claim((second,), fence))
    return [[item.work_id, one.lost or "claimed"] for item, one in zip((first, second), found, strict=True)]


def cut_back(folder: Path, *, removed: str = "") -> int:
    """Evict the claimers of a pack under its lock and write that it has gone back; return how many there were."""
    pack_id = _only_pack()

    def unit(tx: Tx) -> int:
        lock_pack(tx, pack_id)
        if not removed:
            hold_until_waited_for(folder, "_System_ConnectorPackInstall")
        evicted = tx.execute(EVICT, {"pack_install_id": pack_id})
        newest = tx.fetch_one(cutovers.NEWEST_CUTOVER_RECEIPT, {"pack_install_id": pack_id})
        assert newest is not None
        tx.execute(
            cutovers.INSERT_CUTOVER_RECEIPT,
            {
                "receipt_id": new_id(),
                "pack_install_id": pack_id,
                "direction": "rollback",
                "owner_generation": newest["OwnerGeneration"] + 1,
                "proof": "{}",
                "proof_digest": digest_text("{}"),
                "previous_receipt_id": newest["ReceiptId"],
                "written_at": datetime.now(UTC),
                "written_by": "tests",
            },
        )
        return evicted

    if removed:
        await_file(folder / "read")
    evicted = db.run(unit, name="tests.cut_back")
    (folder / "cut").touch()
    return evicted


def fence_around_cutover(folder: Path, *, removed: str = "") -> dict[str, Any]:
    """Register a fence while the pack is cut back, and claim under it if it was had.

    Args:
        folder: Where the processes meet.
        removed: `pack`, the lock of the pack.

    Returns:
        Whether the fence was had, and what came of the claim.
    """
    process = register()
    # A list of packs and a look at the work need no fence.
    (pack_id,) = process.pack_ids()
    if removed == "pack":
        registering.lock_pack = lambda tx, pack_install_id: None  # type: ignore[assignment,return-value,attr-defined]
        _after_read(cutovers.NEWEST_CUTOVER_RECEIPT, lambda: _meet(folder, "read", "cut"))
    else:
        await_lock(folder)
    fence = process.fence_for(pack_id)
    if fence is None:
        return {"fenced": False, "claim": None}
    (item,) = CandidateQueue(process).take(1)
    return {"fenced": True, "claim": claim((item,), fence).lost or "claimed"}


# Rule 6: one live route a namespace and kind.


def activate(folder: Path, *, pack_install_id: str, is_first: bool, removed: str = "") -> str:
    """Activate a pack while another one of its namespace is being activated.

    Args:
        folder: Where the processes meet.
        pack_install_id: The incarnation.
        is_first: Whether this one is ahead; it commits first.
        removed: `lock`, the namespace's; `key`, the unique key of a live route, too.

    Returns:
        `active`, the refusal's code, or the error's class.
    """
    decide = activation.decide_activation  # type: ignore[attr-defined]

    def decide_and_stay(facts: Any) -> Any:
        if not removed and is_first:
            hold_until_waited_for(folder, "_System_ConnectorNamespace")
        if removed and is_first:
            _meet(folder, "first", "second")
        if removed and not is_first:
            # Both have read that nobody routes the kinds; the other one commits before this one writes.
            _meet(folder, "second", "active")
        return decide(facts)

    activation.decide_activation = decide_and_stay  # type: ignore[attr-defined]
    if removed:
        activation.lock_namespace = lambda tx, namespace: None  # type: ignore[assignment,return-value,attr-defined]
    if removed == "key":
        text = routes.MARK_ROUTES_LIVE.text.replace("CONCAT(%(namespace)s, ':', EventKind)", "NULL")
        routes.MARK_ROUTES_LIVE = replace(routes.MARK_ROUTES_LIVE, text=text)
    if not removed and not is_first:
        await_lock(folder)
    try:
        activation.activate_pack(pack_install_id, actor=SYSTEM_ACTOR)
    except CatalogRefused as refused:
        return refused.refusal_code.value
    except DatabaseError as error:
        return type(error).__name__
    if is_first:
        (folder / "active").touch()
    return "active"


def _only_pack() -> str:
    (row,) = query("SELECT PackInstallId FROM _System_ConnectorPackInstall")
    return str(row["PackInstallId"])


def _meet(folder: Path, own: str, other: str) -> None:
    """Say that this process has come so far, and wait until the other one has."""
    (folder / own).touch()
    await_file(folder / other)


def _after_read(statement: Statement, stay: Callable[[], None]) -> None:
    """Stop after a statement has been read in a transaction."""
    fetch = Tx.fetch_one

    def fetch_and_stay(self: Tx, asked: Statement, params: Any = None) -> Any:
        row = fetch(self, asked, params)
        if asked is statement:
            Tx.fetch_one = fetch  # type: ignore[method-assign]
            stay()
        return row

    Tx.fetch_one = fetch_and_stay  # type: ignore[method-assign,assignment]


_PARTS: Final[dict[str, Callable[..., Any]]] = {
    "extend": extend,
    "work_lane": work_lane,
    "evict": evict,
    "claim": claim_around_eviction,
    "cut_back": cut_back,
    "fence": fence_around_cutover,
    "activate": activate,
}
