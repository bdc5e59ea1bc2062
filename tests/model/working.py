"""The actions that admit and claim, and those of time: leases run out, retries come due, workers are lost."""

from __future__ import annotations

from typing import Final

from integration import errors
from integration.ingress.service import materialize_ready
from integration.storage import db
from integration.values import new_id
from integration.work.blocking import Resolver
from integration.work.claim import claim_some, renew
from integration.work.reap import reap_expired
from tests.model import checks, faults
from tests.model.actions import action
from tests.model.pack import Input, body, document
from tests.model.shadow import Receipt, Shadow, pick
from tests.model.tally import tally
from tests.model.world import Worker, World
from tests.support import webhooks
from tests.support.work import change, expire_lease, make_due

MOST_PACKS: Final = 3
ADMISSION: Final = (
    "admission.before_locks",
    "admission.after_locks",
    "admission.after_inserts",
    "materialize.before_commit",
    "materialize.after_commit",
)


class Working(World):
    """Admission, claims and time."""

    @action(5)
    def admit(self, deliveries: list[list[Input]], trouble: str, number: int, flag: bool) -> None:
        """Post signed deliveries and materialize them; perhaps somebody claims between the reads and the locks."""
        for inputs in deliveries:
            self._post(Receipt(new_id(), tuple(inputs)))
        self._materialize(trouble, number, between=flag)

    @action(1)
    def deliver(self, deliveries: list[list[Input]]) -> None:
        self._post(Receipt(new_id(), tuple(deliveries[0])))

    @action(2, when=lambda self: self.shadow.receipts)
    def repeat(self, number: int, flag: bool, trouble: str) -> None:
        """Post a delivery again; or forget that it was materialized, as a crash before the confirmation does."""
        receipt = self.shadow.receipts[number % len(self.shadow.receipts)]
        self._send(receipt)
        if flag and receipt.is_materialized:
            change(
                "UPDATE _System_ConnectorIngressReceipt SET State = 'received', MaterializedAt = NULL,"
                " MaterializedPackInstallId = NULL WHERE DeliveryId = %s",
                receipt.delivery_id,
            )
            receipt.is_materialized = False
            tally.other["receipts taken again"] += 1
            self._materialize(trouble, number, between=False)

    def _post(self, receipt: Receipt) -> None:
        self._send(receipt)
        self.shadow.receipts.append(receipt)
        tally.other["inputs repeated"] += sum((found.kind, found.item) in self.shadow.seen for found in receipt.inputs)
        tally.other["inputs delivered"] += len(receipt.inputs)

    def _send(self, receipt: Receipt) -> None:
        response = webhooks.post(self.client, body(receipt.inputs), delivery_id=receipt.delivery_id)
        assert response.status_code == 200, response.content

    def _materialize(self, trouble: str, number: int, *, between: bool) -> None:
        if between:
            # Whoever claims from a pack for the first time needs its lock, which the admission holds.
            for pack in self.packs:
                assert self.workers[1].process.fence_for(pack) is not None
            with faults.at("admission.before_locks", self._claim_elsewhere):
                materialize_ready()
            self.shadow.admit()
            return
        self._try(trouble, number, ADMISSION, materialize_ready, Shadow.admit)

    @action(1, when=lambda self: len(self.packs) < MOST_PACKS and len(self.shadow.items) > 2 * len(self.packs))
    def rotate(self) -> None:
        """Activate a new incarnation; what the older ones admitted stays to be done, and comes first."""
        self.packs.append(str(webhooks.activate(document(len(self.packs)))))
        self.shadow.rotate()
        tally.other["incarnations rotated"] += 1

    @action(2)
    def look(self, worker: int) -> None:
        """Claim where perhaps nothing can be claimed."""
        self.claim(worker, 8, "none", 0)

    @action(12, when=lambda self: any(map(self.shadow.may_be_claimed, self.shadow.items)))
    def claim(self, worker: int, limit: int, trouble: str, number: int) -> None:
        found = self.workers[worker]
        claims = None
        try:
            with faults.fault(trouble, number, ("claim.before", "claim.after_commit")):
                claims = claim_some(found.process, found.queue, limit)
        except faults.Crash:
            tally.other["crashes"] += 1
        except errors.CommitUnknown:
            tally.other["answers lost"] += 1
        self._observe(checks.read(), claims)
        if claims == [] and trouble == "none":
            # What it had read may be out of date; what it reads now is not.
            found.queue.forget()
            claims = claim_some(found.process, found.queue, limit)
            self._observe(checks.read(), claims)
            assert claims or not self.shadow.claimable(), f"nothing was claimed: {self.shadow.claimable()}"

    @action(1, when=lambda self: self.claims)
    def renew(self, number: int) -> None:
        claim = self._pick_claim(number)
        assert renew(claim)
        self.shadow.by_work_id(claim.work_id).is_expired = False
        tally.other["renewals"] += 1

    @action(4, when=lambda self: any(not i.is_expired for i in self.shadow.in_state("processing")))
    def expire(self, number: int) -> None:
        claimed = self.shadow.in_state("processing")
        last = [found for found in claimed if found.is_last_attempt]
        item = pick(last if last and number % 2 else claimed, number // 2)
        expire_lease(item.work_id)
        item.is_expired = True

    @action(4, when=lambda self: self.shadow.in_state("processing"))
    def reap(self, worker: int) -> None:
        moves = self.shadow.reap()
        reaped = reap_expired(self.workers[worker].process)
        assert reaped.total == len(moves)
        for name, item in moves:
            tally.made[name, "processing"] += 1
            self._lose(item.work_id)

    @action(1, when=lambda self: self.claims)
    def restart(self, worker: int) -> None:
        """A worker dies and another begins; what it had claimed stays claimed until it is reaped."""
        owners = {fence.process_id for fence in self.workers[worker].process._fences.values()}
        for claim in list(self.claims.values()):
            if claim.lease_owner in owners:
                del self.claims[claim.work_id]
        db.close_connections()
        self.workers[worker] = Worker.start()
        tally.other["workers lost"] += 1

    @action(3, when=lambda self: any(not item.is_due for item in self.shadow.live()))
    def come_due(self, number: int) -> None:
        item = pick((item for item in self.shadow.live() if not item.is_due), number)
        make_due(item.work_id)
        item.is_due = True

    @action(3, when=lambda self: self.shadow.in_state("blocked"))
    def resolve(self) -> None:
        freed = self.shadow.resolve()
        assert Resolver().resolve() == len(freed)
        if freed:
            tally.made["unblock", "blocked"] += len(freed)
