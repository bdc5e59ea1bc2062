"""Wait for the admissions and replays that began before a fence: they hold their pack's row until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from integration import errors
from integration.cutover.fences.values import AdmissionsUnderWay
from integration.storage import db
from integration.storage.db import Row, Tx
from integration.storage.locks import lock_pack
from integration.storage.sql import fences as sql

T = TypeVar("T")

#: How long a barrier waits, in seconds.
WAIT_SECONDS: Final = 60.0


def await_admissions(
    namespace: str, *, fence_id: str, wait_seconds: float = WAIT_SECONDS, using: str = "default"
) -> tuple[str, ...]:
    """Return when every admission and replay into a namespace has ended that may not have seen a committed fence.

    Each pack's row is locked in a transaction of its own, after the fence was committed. Before that, whoever
    locks the row next would not see the fence yet. All rows in one transaction, the fence with them, would do as
    well; but a pack that is busy for long would then keep the others from ending what waits, and undo the fence.

    An incarnation that is not active is not waited for: who admits or replays into it holds its row while it is
    active, and retiring it locks that row too, so that all of it had ended when it was seen not to be. A replay of
    a retired incarnation's work goes into the active one, whose row it holds.

    Args:
        namespace: The namespace.
        wait_seconds: How long it may take.
        fence_id: The fence, for the error's fields.
        using: The database alias.

    Returns:
        The incarnations that were waited for.

    Raises:
        AdmissionsUnderWay: It took too long, or the database did not answer.

    Locks: PACK, one at a time.
    """
    deadline = time.monotonic() + wait_seconds
    reached: list[str] = []
    try:
        for row in _patiently(partial(_read_packs, namespace, using), deadline):
            _patiently(partial(_lock_once, row["PackInstallId"], using), deadline)
            reached.append(row["PackInstallId"])
    except (errors.Busy, errors.CommitUnknown) as error:
        raise AdmissionsUnderWay(fence_id=fence_id, waited_for=len(reached)) from error
    return tuple(reached)


def _read_packs(namespace: str, using: str) -> list[Row]:
    def unit(tx: Tx) -> list[Row]:
        return tx.fetch_all(sql.LIST_ADMITTING_PACKS, {"namespace": namespace})

    return db.run(unit, name="fences.list_packs", using=using)


def _lock_once(pack_install_id: str, using: str) -> bool:
    def unit(tx: Tx) -> bool:
        lock_pack(tx, pack_install_id)
        return True

    # The row was locked, whatever became of a COMMIT that writes nothing.
    return db.run(unit, name="fences.await_admissions", using=using, settle=lambda _: True)


def _patiently(unit: Callable[[], T], deadline: float) -> T:
    while True:
        try:
            return unit()
        except errors.Busy:
            if time.monotonic() >= deadline:
                raise
