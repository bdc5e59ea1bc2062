"""The scheduler lease: one Event executor a pack. Token and epoch decide; expiry only permits a takeover."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, field
from typing import Final

from django.db import IntegrityError

from integration import errors
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.locks import LockedProcess, lock_scheduler_lease
from integration.storage.sql import scheduler_leases as sql
from integration.work.process import ClaimFenced

LEASE_NAME: Final = sql.EVENT_EXECUTOR
LEASE_SECONDS: Final = 60
#: Database servers' clocks may differ by this much.
SLACK_SECONDS: Final = 5
_TOKEN_BYTES: Final = 24


class LeaseLost(errors.ConcurrentChange):
    """Another executor has the pack's scheduler lease; nothing was changed."""

    code = "scheduler_lease_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLease:
    """A lease that this process has acquired.

    Attributes:
        pack_install_id: The pack.
        token: The secret that makes it this process's; never shown.
        epoch: The ownership epoch that the acquisition installed.
        seconds: How long it runs from its acquisition or its last renewal.
    """

    pack_install_id: str
    token: str = field(repr=False)
    epoch: int
    seconds: int

    def _key(self) -> dict[str, object]:
        return {
            "pack_install_id": self.pack_install_id,
            "lease_name": LEASE_NAME,
            "lease_token": self.token,
            "epoch": self.epoch,
        }

    def renew(self) -> bool:
        """Extend the lease from now; False when it is another's.

        Locks: LEAF.
        """
        return db.execute_alone(sql.RENEW_SCHEDULER_LEASE, {**self._key(), "lease_seconds": self.seconds}) == 1

    def release(self) -> bool:
        """Give the lease up; False when it is another's.

        Locks: LEAF.
        """
        return db.execute_alone(sql.RELEASE_SCHEDULER_LEASE, self._key()) == 1


def acquire(
    pack_install_id: str,
    *,
    owner: str,
    lease_seconds: int = LEASE_SECONDS,
    slack_seconds: int = SLACK_SECONDS,
) -> SchedulerLease | None:
    """Try to take a pack's scheduler lease.

    Args:
        pack_install_id: The pack.
        owner: The process row that takes it.
        lease_seconds: How long it runs, by the database's clock.
        slack_seconds: How far past its end another's must be.

    Returns:
        The lease, or None while another has it.

    Raises:
        Busy: The database does not answer.
        CommitUnknown: The database does not say whether it was stored; the lease then expires.

    Locks: LEAF.
    """
    key = {"pack_install_id": pack_install_id, "lease_name": LEASE_NAME}
    found = db.read().fetch_one(sql.FIND_SCHEDULER_LEASE, key)
    if found is None:
        # Another may have made the row just now; the swap decides which of them has the lease.
        with contextlib.suppress(IntegrityError):
            db.execute_alone(sql.INSERT_SCHEDULER_LEASE, key)
    epoch = 0 if found is None else int(found["OwnershipEpoch"])
    lease = SchedulerLease(
        pack_install_id=pack_install_id,
        token=secrets.token_urlsafe(_TOKEN_BYTES),
        epoch=epoch + 1,
        seconds=lease_seconds,
    )
    params = {
        **key,
        "lease_owner": owner,
        "lease_token": lease.token,
        "lease_seconds": lease_seconds,
        "slack_seconds": slack_seconds,
        "epoch": epoch,
    }
    return lease if db.execute_alone(sql.ACQUIRE_SCHEDULER_LEASE, params) == 1 else None


def refuse_seized(tx: Tx, pack_install_id: str) -> None:
    """Refuse a pack of which a cutover has stopped the claims; the pack's lock makes the answer hold.

    Raises:
        ClaimFenced: A cutover has the scheduler lease, until it has written its receipt or is abandoned.

    Rule: C-01.
    """
    found = tx.fetch_one(sql.FIND_SCHEDULER_LEASE, {"pack_install_id": pack_install_id, "lease_name": LEASE_NAME})
    if found is not None and found["LeaseOwner"] == sql.SEIZED:
        message = "A cutover of this pack is under way: its Events are not executed."
        raise ClaimFenced(message, pack_install_id=pack_install_id)


def demand(process: LockedProcess, lease: SchedulerLease) -> None:
    """Make sure, until the transaction ends, that a lease is this process's and runs.

    Raises:
        LeaseLost: It is another's, or it has expired.

    Locks: LEAF, the last lock of its transaction.
    """
    locked = lock_scheduler_lease(process, lease.pack_install_id, LEASE_NAME)
    if (
        locked is None
        or locked.row["LeaseToken"] != lease.token
        or locked.row["OwnershipEpoch"] != lease.epoch
        or not locked.row["IsLive"]
    ):
        raise LeaseLost(pack_install_id=lease.pack_install_id)
