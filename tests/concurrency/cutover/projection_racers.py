"""What the processes of the projection cutover's races run; a process takes guards away from itself alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from integration.cutover.projection import service
from integration.cutover.projection.patience import Patience
from integration.cutover.projection.policy import CutoverRefused
from integration.storage.db import Tx
from integration.storage.locks import LockedNamespace, LockedPack
from integration.storage.sql import namespaces, packs, protocols
from integration.storage.statements import LockRank, Statement
from integration.values import Actor, new_id
from integration.work import process as processes
from integration.work.options import Options
from integration.work.supervisor import Supervisor
from tests.concurrency.cutover import fence_racers
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import insert

_NAMESPACES = "_System_ConnectorNamespace"


def play(part: str, folder: str, **options: Any) -> Any:
    """Play one part of a race."""
    return _PARTS[part](Path(folder), **options)


def _unlocked(statement: Statement) -> Statement:
    return replace(statement, text=statement.text.replace("FOR UPDATE", ""), locks=())  # type: ignore[arg-type]


def without_locks(module: Any) -> None:
    """Let a module read the namespace and the pack that it locks, and go on."""

    def namespace(tx: Tx, name: str) -> LockedNamespace:
        row = tx.fetch_one(_unlocked(namespaces.LOCK_NAMESPACE), {"namespace": name})
        assert row is not None
        return LockedNamespace(_tx=tx, row=row)

    def pack(tx: Tx, pack_install_id: str) -> LockedPack:
        row = tx.fetch_one(_unlocked(packs.LOCK_PACK), {"pack_install_id": pack_install_id})
        assert row is not None
        # The writes believe that the locks were taken.
        tx.lock_trace.append(LockRank.PACK)
        return LockedPack(_tx=tx, row=row)

    module.lock_namespace = namespace
    module.lock_pack = pack


def _without_key() -> None:
    """Write over what another has written: what the primary key and the look under the lock keep from happening."""
    text = protocols.INSERT_PROJECTION_PROTOCOL.text.replace("INSERT INTO", "REPLACE INTO")
    protocols.INSERT_PROJECTION_PROTOCOL = replace(protocols.INSERT_PROJECTION_PROTOCOL, text=text)  # type: ignore[arg-type]
    service.record = lambda pack, fact: ""
    real = service._find
    looks: list[Any] = []

    def find(reader: Any, pack_install_id: str) -> Any:
        # The one before the audit, and the one under the locks, find nothing.
        looks.append(None)
        return None if len(looks) <= 2 else real(reader, pack_install_id)

    service._find = find


_REMOVED = {"locks": lambda: without_locks(service), "key": _without_key}


def cut_over(folder: Path, *, pack_id: str, name: str = "racer", removed: tuple[str, ...] = ()) -> dict[str, Any]:
    """Cut over; return the checkpoint, or the reason of the refusal."""
    for guard in removed:
        _REMOVED[guard]()
    try:
        found = service.cut_over(
            pack_id, actor=Actor(user_id=None, name=name), patience=Patience(timeout=timedelta(minutes=3))
        )
    except CutoverRefused as refused:
        return {"reason": refused.reason.value}
    return {
        "is_new": found.is_new,
        "cutoff": found.legacy_max_ordinal,
        "at": found.written_at.isoformat(),
        "by": found.written_by,
    }


def cut_over_first(folder: Path, **options: Any) -> dict[str, Any]:
    """Cut over, and hold what is written back until another waits for the namespace."""

    def failpoint(name: str) -> None:
        if name == "projection_cutover.before_commit":
            hold_until_waited_for(folder, _NAMESPACES)

    service.failpoint = failpoint
    return cut_over(folder, **options)


def cut_over_second(folder: Path, **options: Any) -> dict[str, Any]:
    """Cut over while the first one holds its row back."""
    await_lock(folder)
    return cut_over(folder, **options)


def arm_and_cut_over(folder: Path, **options: Any) -> dict[str, Any]:
    """Arm a fence without waiting for the admission that is under way, and cut over."""
    await_lock(folder)
    fence = {"FenceId": new_id(), "Namespace": "demo", "Scope": "*", "ArmedAt": datetime.now(UTC)}
    insert("_System_ConnectorAdmissionFence", [{**fence, "ArmedBy": "tests", "Reason": "tests"}])
    found = cut_over(folder, **options)
    (folder / fence_racers.ARMED).touch()
    return found


def begin(folder: Path, *, ref: str = "", is_waited_for: bool = True) -> Any:
    """Admit one input, or replay, as somebody who saw no fence; hold its transaction until a cutover waits for it."""
    until = "waited_for" if is_waited_for else fence_racers.ARMED
    return fence_racers.replay(str(folder), until, ref) if ref else fence_racers.admit(str(folder), until)


def work_as_an_old_build(folder: Path) -> int:
    """Work until nothing is left, as a build without the gate that has ranges all the same."""
    await_file(folder / "refused")
    processes.may_project = lambda reader, pack_install_id, found: True
    Options.check_activation = lambda self: None
    return Supervisor(Options(roles=frozenset({"claim"}), until_idle=True, poll_seconds=0.01)).run().executed


def cut_over_when_it_can(folder: Path, *, pack_id: str) -> list[dict[str, Any]]:
    """Ask for the cutover again and again while another process works; return each answer that differs."""
    answers: list[dict[str, Any]] = []
    while not answers or "reason" in answers[-1]:
        answer = cut_over(folder, pack_id=pack_id)
        if not answers or answers[-1] != answer:
            answers.append(answer)
        (folder / "refused").touch()
    return answers


_PARTS: dict[str, Any] = {
    "cut_over": cut_over,
    "cut_over_first": cut_over_first,
    "cut_over_second": cut_over_second,
    "arm_and_cut_over": arm_and_cut_over,
    "begin": begin,
    "work": work_as_an_old_build,
    "cut_over_when_it_can": cut_over_when_it_can,
}
