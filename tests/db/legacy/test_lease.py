"""The scheduler lease: one at a time, taken over after its end with slack, decided by token and epoch."""

from __future__ import annotations

import pytest

from integration.legacy import lease as leases
from integration.legacy.lease import LeaseLost, SchedulerLease, acquire
from integration.storage import db
from integration.storage.locks import lock_process
from integration.storage.statements import LockRank
from tests.support.legacy import LegacyPack, expire_scheduler_lease
from tests.support.work import query

pytestmark = pytest.mark.django_db


def row() -> dict:
    (found,) = query("SELECT * FROM _System_ConnectorSchedulerLease")
    return found


def demand(process, lease: SchedulerLease) -> list[LockRank]:
    def unit(tx):
        leases.demand(lock_process(tx, process.process_id), lease)
        return list(tx.lock_trace)

    return db.run(unit, name="tests.demand")


def test_acquire__makes_the_row_and_takes_it():
    pack = LegacyPack()
    lease = acquire(pack.pack_id, owner="one", lease_seconds=60)
    assert lease is not None
    found = row()
    assert (found["LeaseName"], found["LeaseOwner"], found["LeaseToken"]) == ("event_executor", "one", lease.token)
    assert (found["OwnershipEpoch"], lease.epoch) == (1, 1)
    assert lease.token not in repr(lease)


def test_acquire__is_refused_while_another_has_it_or_may_have_it():
    pack = LegacyPack()
    assert acquire(pack.pack_id, owner="one") is not None
    before = row()
    assert acquire(pack.pack_id, owner="two") is None
    expire_scheduler_lease(seconds=300)
    assert acquire(pack.pack_id, owner="two", slack_seconds=600) is None
    assert row()["LeaseToken"] == before["LeaseToken"]


def test_acquire__takes_over_what_expired_and_fences_the_loser():
    pack = LegacyPack()
    process, first = pack.hold()
    expire_scheduler_lease(seconds=601)
    with pytest.raises(LeaseLost):
        demand(process, first)
    second = acquire(pack.pack_id, owner="two", slack_seconds=600)
    assert second is not None
    assert second.epoch == first.epoch + 1
    assert first.renew() is False
    assert first.release() is False
    with pytest.raises(LeaseLost):
        demand(process, first)
    assert demand(process, second) == [LockRank.PROCESS, LockRank.LEAF]


def test_renew__extends_and_release_lets_the_next_one_in():
    pack = LegacyPack()
    first = acquire(pack.pack_id, owner="one", lease_seconds=30)
    assert first is not None
    before = row()["LeaseUntil"]
    assert first.renew() is True
    assert row()["LeaseUntil"] >= before
    assert first.release() is True
    assert (row()["LeaseToken"], row()["LeaseUntil"], row()["LeaseOwner"]) == (None, None, None)
    second = acquire(pack.pack_id, owner="two")
    assert second is not None
    assert second.epoch == first.epoch + 1


def test_demand__without_a_lease_is_refused():
    pack = LegacyPack()
    process, lease = pack.hold()
    other = LegacyPack(name="other")
    with pytest.raises(LeaseLost):
        demand(process, SchedulerLease(pack_install_id=other.pack_id, token="t", epoch=1, seconds=60))
    assert demand(process, lease)


def test_lease__of_one_pack_says_nothing_of_another():
    assert acquire(LegacyPack().pack_id, owner="one") is not None
    assert acquire(LegacyPack(name="other").pack_id, owner="two") is not None
