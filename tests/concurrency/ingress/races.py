"""What the racing processes run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.db import IntegrityError

from integration import errors
from integration.ingress import materialize
from integration.storage.db import Tx
from integration.storage.locks import LockedPack
from integration.storage.sql import packs
from integration.storage.statements import Returns, Statement
from tests.support import webhooks
from tests.support.admission import materialize_patiently

READ_PACK_WITHOUT_LOCK = Statement(
    name="READ_PACK_WITHOUT_LOCK", text=packs.LOCK_PACK.text.replace("FOR UPDATE", ""), returns=Returns.ROW
)


def deliver(base: str, body: bytes, delivery_id: str) -> int:
    """Post as a provider does, again while it is told to come back; return the first other status."""
    deadline = time.monotonic() + 200
    while (status := webhooks.send(base, body, delivery_id)) == 503 and time.monotonic() < deadline:
        time.sleep(0.1)
    return status


def post_deliveries(base: str, delivery_ids: list[str | None]) -> list[int]:
    """Post one body once for each delivery id."""
    return [webhooks.send(base, webhooks.deal(), delivery_id) for delivery_id in delivery_ids]


def materialize_all(limit: int) -> int:
    """Materialize in small pages until nothing waits."""
    return materialize_patiently(limit)


def materialize_without_pack_lock(pack_install_id: str, folder: str, name: str, others: list[str]) -> str:
    """Materialize a page as if the pack's row were not locked; both sides have read before either writes."""

    def read_pack(tx: Tx, pack_id: str) -> LockedPack:
        row = tx.fetch_one(READ_PACK_WITHOUT_LOCK, {"pack_install_id": pack_id})
        assert row is not None
        (Path(folder) / name).touch()
        deadline = time.monotonic() + 240
        while not all((Path(folder) / other).exists() for other in others):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # The guards believe that the lock was taken.
        tx.lock_trace.append(packs.LOCK_PACK.locks[0])
        return LockedPack(_tx=tx, row=row)

    materialize.lock_pack = read_pack
    page = materialize.read_page(pack_install_id, 100, materialize.START)
    if page is None:
        return "nothing"
    half: Any = page.receipt_ids[::2] if name == "a" else page.receipt_ids[1::2]
    try:
        for receipt_id in half[:1]:
            materialize.materialize_page(page.only(receipt_id))
    except (IntegrityError, errors.InvariantBroken) as error:
        return type(error).__name__
    return "stored"
