"""R3, the zombie owner: a claimant sleeps past its lease, another ends its work, and then it wakes and writes."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from typing import Any

from batteries import books, hook, kernel
from batteries.database import Ground
from batteries.figures import Figures
from batteries.forking import BatteryBroken, fork, killed_at_exit
from integration.work import metrics
from tests.support import cleaning
from tests.support.work import Pack, query

#: Every transition of a claimed row without its token and its epoch.
UNGUARDED = hook.Rewrite(
    r"(COMPLETE|SKIP|RETRY|BURY|RELEASE)_WORK_ITEMS?|ACKNOWLEDGE_CANCEL|RENEW_LEASE",
    r"(?s)AND State = 'processing'\s+AND LeaseToken = %\(lease_token\)s\s+AND OwnershipEpoch = %\(epoch\)s",
)


def zombie(*, count: int, mutant: bool) -> dict[str, Any]:
    """Claim, sleep until woken, then try every kind of write on what was claimed."""
    if mutant:
        hook.install(UNGUARDED)
    process = kernel.register()
    held = kernel.claim_all(process, count, lease_seconds=1)
    os.kill(os.getpid(), signal.SIGSTOP)
    names = sorted(kernel.WRITES)
    accepted: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for number, claim in enumerate(held):
        name = names[number % len(names)]
        tried[name] += 1
        if kernel.WRITES[name](claim):
            accepted[name] += 1
    return {"held": len(held), "tried": tried, "accepted": accepted, "counted": metrics.STALE._value.get()}


def reap(*, count: int) -> int:
    """Take back every expired lease."""
    return kernel.reap_now(kernel.register("reap"), limit=count)


def own_anew(*, count: int) -> int:
    """Claim what was taken back, and complete half of it."""
    held = kernel.claim_all(kernel.register(), count, lease_seconds=60)
    for claim in held[::2]:
        kernel.WRITES["complete"](claim)
    return len(held)


def await_expired(count: int) -> None:
    """Look until so many leases are over by the database's clock."""
    for _ in range(24_000):
        (row,) = query(
            "SELECT COUNT(*) AS N FROM _System_ConnectorWorkItem"
            " WHERE State = 'processing' AND LeaseUntil < UTC_TIMESTAMP(6)"
        )
        if row["N"] >= count:
            return
        time.sleep(0.005)
    message = "the leases did not run out"
    raise BatteryBroken(message)


def freeze_a_worker(ground: Ground, figures: Figures) -> tuple[int, int]:
    """Stop a whole worker inside its flow until another has ended the item; return (changed rows, runs)."""
    cleaning.empty_database()
    record = ground.folder / f"runs-{time.monotonic_ns()}"
    Pack(flow="batteries.end").admit(payload={"file": str(record), "plan": ["freeze", "complete"]}, MaxAttempts=5)
    frozen = fork(ground.folder, work, roles=["claim"], lease_seconds=3, mutant=ground.mutant)
    with killed_at_exit([frozen]):
        frozen.await_stopped()
        await_expired(1)
        fork(ground.folder, work, roles=["claim", "reap"], lease_seconds=60, mutant=False).value()
        before = books.items()
        frozen.resume()
        stale = frozen.value()["stale"]
    after = books.items()
    figures.values["worker_stale_writes"] = figures.values.get("worker_stale_writes", 0) + int(stale)
    return sum(after[work_id] != row for work_id, row in before.items()), len(kernel.runs(record))


def work(*, roles: list[str], lease_seconds: int, mutant: bool) -> dict[str, Any]:
    """Run a whole worker."""
    if mutant:
        hook.install(UNGUARDED)
    return kernel.work_until_idle(roles=roles, concurrency=1, lease_seconds=lease_seconds)


def run(ground: Ground, figures: Figures) -> None:
    """Sleep, take over, wake, and compare the rows."""
    rounds, count = ground.pick((1, 24), (4, 48), (12, 48))
    frozen_workers = ground.pick(1, 3, 20)
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    counted = changed = unreclaimed = not_reaped = stale_rounds = 0
    for _ in range(rounds):
        cleaning.empty_database()
        record = ground.folder / f"runs-{time.monotonic_ns()}"
        Pack(flow="batteries.end").admit(count, payload={"file": str(record), "plan": ["complete"]}, MaxAttempts=9)
        sleeper = fork(ground.folder, zombie, count=count, mutant=ground.mutant)
        with killed_at_exit([sleeper]):
            sleeper.await_stopped()
            await_expired(count)
            not_reaped += count - fork(ground.folder, reap, count=count).value()
            # A third stays unclaimed: the zombie meets ended, claimed and waiting items.
            fork(ground.folder, own_anew, count=count * 2 // 3).value()
            before = books.items()
            sleeper.resume()
            told = sleeper.value()
        after = books.items()
        stale_rounds += told["held"]
        tried.update(told["tried"])
        accepted.update(told["accepted"])
        counted += int(told["counted"])
        changed += sum(after[work_id] != row for work_id, row in before.items())
        books.expire_leases()
        fork(ground.folder, kernel.work_until_idle).value()
        unreclaimed += count - len(books.terminal(books.items()))
    repeated = 0
    for _ in range(frozen_workers):
        moved, ran = freeze_a_worker(ground, figures)
        changed += moved
        repeated += ran - 2
    cleaning.empty_database()
    figures.note(
        rounds=stale_rounds + frozen_workers,
        stops=rounds + frozen_workers,
        stale_writes_tried=dict(sorted(tried.items())),
        stale_writes_accepted=sum(accepted.values()),
        accepted=dict(accepted),
        counted_by_the_metric=counted,
        rows_changed=changed,
        never_reclaimed=unreclaimed,
        expired_but_not_reaped=not_reaped,
    )
    figures.demand("no stale write was accepted", sum(accepted.values()) == 0)
    figures.demand("no row that the zombie wrote to was changed", changed == 0)
    figures.demand("every expired lease was taken back", not_reaped == 0)
    figures.demand("every item ended", unreclaimed == 0)
    figures.demand("each frozen flow was run once more and not twice", repeated == 0)
    figures.demand("each frozen worker met the refusal", figures.values["worker_stale_writes"] >= frozen_workers)
