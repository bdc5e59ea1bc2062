"""The kernel's scenarios of the kill matrix: ingest, materialization, admission, claims and ends, reap, hand-over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from batteries import books, kernel
from batteries.forking import fork
from batteries.scenarios import Prepared, Scenario, paths
from integration.catalog.documents import PackDocument
from integration.ingress.service import materialize_ready
from integration.values import new_id
from tests.support import webhooks
from tests.support.work import Pack, change

#: What each item's flow does on its attempts, and how the item must end.
PLANS: tuple[tuple[list[str], str, dict[str, Any]], ...] = (
    (["complete"], "succeeded", {}),
    (["skip"], "skipped", {}),
    (["retry", "complete"], "succeeded", {}),
    (["reject"], "dead", {}),
    (["retry"], "dead", {"MaxAttempts": 2}),
    (["cancel"], "cancelled", {}),
    (["complete"], "succeeded", {}),
)


def hold(*, count: int) -> int:
    """Claim, and end without a word."""
    return len(kernel.claim_all(kernel.register(), count))


class Ingest(Scenario):
    """Signed webhooks through the web application; the provider repeats what was not answered, and more."""

    name = "ingest"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        webhooks.activate()
        record, acked = paths(folder)
        return Prepared({}, [f"d-{number}" for number in range(3)], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        from django.test import Client

        client = Client()
        for number, delivery in enumerate(prepared.deliveries):
            if webhooks.post(client, webhooks.deal(number), delivery_id=delivery).status_code == 200:
                with prepared.acked.open("a", encoding="ascii") as file:
                    file.write(f"{delivery}\n")

    def lost(self, prepared: Prepared) -> list[str]:
        stored = Counter(row["DeliveryId"] for row in webhooks.rows("IngressReceipt"))
        answered = set(prepared.acked.read_text().split()) if prepared.acked.exists() else set()
        return sorted({name for name in prepared.deliveries if stored[name] != 1} | (answered - set(stored)))


class Materialize(Ingest):
    """Receipts to Events and WorkItems, in pages of three."""

    name = "materialize"
    document: PackDocument | None = None

    def prepare(self, folder: Path, seed: int) -> Prepared:
        from django.test import Client

        webhooks.activate(self.document)
        record, acked = paths(folder)
        client = Client()
        deliveries = [f"d-{number}" for number in range(5)]
        for number, delivery in enumerate(deliveries):
            answer = webhooks.post(client, webhooks.deal(number % 3), delivery_id=delivery)
            assert answer.status_code == 200, answer.content
        return Prepared({}, deliveries, record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        materialize_ready(2 + seed % 3)

    def lost(self, prepared: Prepared) -> list[str]:
        receipts = {row["ReceiptId"]: row for row in webhooks.rows("IngressReceipt")}
        events = webhooks.rows("Event", "LaneOrdinal")
        made = Counter(row["ReceiptId"] for row in events)
        wrong = [
            receipt_id
            for receipt_id, row in receipts.items()
            if row["State"] != "materialized" or made[receipt_id] != 1
        ]
        if [row["LaneOrdinal"] for row in events] != list(range(1, len(prepared.deliveries) + 1)):
            wrong.append("ordinals")
        return wrong + books.uncovered_events()


class Admit(Materialize):
    """The same with a route whose inputs are collected into ranges."""

    name = "admission"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        self.document = webhooks.variant("demo", ("execution: per_event", "execution: source_projection"))
        return super().prepare(folder, seed)


class Work(Scenario):
    """Claims, completions and failures by a whole worker."""

    name = "work"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        pack = Pack(flow="batteries.end")
        wanted: dict[str, str] = {}
        for plan, state, over in PLANS:
            values = {"MaxAttempts": 6, **over}
            (work_id,) = pack.admit(payload={"file": str(record), "plan": plan}, **values)
            if state == "cancelled":
                change(
                    "UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s",
                    work_id,
                )
            wanted[work_id] = state
        return Prepared(wanted, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.work_until_idle(concurrency=1 + seed % 3)

    def lost(self, prepared: Prepared) -> list[str]:
        rows, ran = books.items(), set(kernel.runs(prepared.record))
        wrong = [work_id for work_id, state in prepared.wanted.items() if rows[work_id]["State"] != state]
        unrun = [
            work_id
            for work_id, row in rows.items()
            if row["State"] in {"succeeded", "skipped"} and (work_id, row["Attempt"]) not in ran
        ]
        return wrong + unrun


class Reap(Work):
    """Taking back what a lost claimant held: some with attempts left, some without."""

    name = "reap"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        pack = Pack(flow="batteries.end")
        kept = pack.admit(2, payload={"file": str(record), "plan": ["complete"]}, MaxAttempts=6)
        spent = pack.admit(2, payload={"file": str(record), "plan": ["complete"]}, MaxAttempts=1)
        held = fork(folder, hold, count=4).value()
        assert held == 4, held
        books.expire_leases()
        return Prepared({**dict.fromkeys(kept, "succeeded"), **dict.fromkeys(spent, "dead")}, [], record, acked)

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.reap_now(kernel.register("reap"))
        kernel.work_until_idle(roles=["claim"], concurrency=1)


class Ranges(Scenario):
    """Generations of a projection: one is taken back from its lost claimant, and hands on to its queued successor."""

    name = "ranges"

    def prepare(self, folder: Path, seed: int) -> Prepared:
        record, acked = paths(folder)
        webhooks.activate(
            webhooks.variant(
                "demo",
                ("execution: per_event", "execution: source_projection"),
                ("flow: {name: demo.apply_deal, version: 1}", "flow: {name: tests.noop, version: 1}"),
            )
        )
        self._receive(1, 1, 2)
        materialize_ready()
        held = fork(folder, hold, count=1 + seed % 2).value()
        assert held == 1 + seed % 2, held
        self._receive(1, 2, 2)
        materialize_ready()
        books.expire_leases()
        wanted = dict.fromkeys(books.items(), "succeeded")
        assert len(wanted) > 2, "no successor was queued"
        return Prepared(wanted, [], record, acked)

    def _receive(self, *deals: int) -> None:
        from django.test import Client

        for deal in deals:
            answer = webhooks.post(Client(), webhooks.deal(deal), delivery_id=new_id())
            assert answer.status_code == 200, answer.content

    def act(self, prepared: Prepared, seed: int) -> None:
        kernel.reap_now(kernel.register("reap"))
        kernel.work_until_idle(roles=["claim"], concurrency=1 + seed % 2)

    def lost(self, prepared: Prepared) -> list[str]:
        rows = books.items()
        ended = {"succeeded", "skipped"}
        # An input that a later one took over while it waited ends as skipped.
        wrong = [work_id for work_id in prepared.wanted if rows[work_id]["State"] not in ended]
        keyed = [work_id for work_id, row in rows.items() if row["ProjectionActiveKey"] is not None]
        return wrong + keyed + books.uncovered_events()
