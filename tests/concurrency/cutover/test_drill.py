"""The mixed-version drill: old builds and new ones on one database, webhooks all the time, forward, back and forward.

Everybody who takes part is a process, and is killed once at each step in which it takes part.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from integration.cutover.fences import service as fences
from integration.cutover.inbound import projector, rollback
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.cutover.inbound.verify import verify
from integration.cutover.projection.patience import Patience
from integration.cutover.projection.service import cut_over
from integration.management.builds import build_version
from tests.concurrency.cutover import drill_racers as racers
from tests.concurrency.cutover.drill import (
    OLD,
    Drill,
    faults,
    kill_child_of,
    let_leases_run_out,
    old_database,
    old_pack,
    overlaps,
    upgrade,
)
from tests.support import inbound
from tests.support.legacy import LegacyPack, expire_claim
from tests.support.processes import web_server
from tests.support.rollback import receipts_of
from tests.support.work import Pack, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
#: Where the operator is killed, one time after the other, before the step is made.
FORWARD = (
    "inbound_forward.stopped",
    "inbound_forward.materialized",
    "inbound_forward.taken_back",
    "inbound_forward.written",
)
BACK = ("rollback.before_open_commit", "rollback.after_open", "rollback.after_receipt", "rollback.after_commit")
RECONCILING = ("projector.after_items", "projector.before_close_commit")
#: What a killed worker left and nobody has begun again.
LOST = "State = 'retry' OR (State = 'processing' AND LeaseUntil < UTC_TIMESTAMP(6))"


# What the operator does, here or in a process that is killed


def arm() -> str:
    return fences.arm_fence("demo", "*", reason="cutover", actor=inbound.OWNER).fence.fence_id


def forward(run: Drill) -> int:
    pack = Pack.__new__(Pack)
    pack.pack_id = run.pack_id
    return inbound.forward(pack, timeout_seconds=200.0).owner_generation


def cut_projections_over(run: Drill) -> bool:
    patience = Patience(timeout=timedelta(minutes=3))
    return cut_over(run.pack_id, actor=inbound.OWNER, patience=patience).is_new


def roll_back(run: Drill) -> str:
    """Roll back; return the refusal, or an empty string."""
    try:
        rollback.roll_back(
            run.pack_id,
            actor=inbound.OWNER,
            reason="The new build loses deals",
            attestation="none runs",
            approved_builds=[build_version()],
        )
    except RollbackRefused as refused:
        return refused.finding.code.value
    return ""


def reconcile(run: Drill) -> bool:
    return projector.reconcile(run.pack_id, actor=inbound.OWNER).is_closed


def count(table: str, where: str = "1 = 1") -> int:
    return int(query(f"SELECT COUNT(*) AS n FROM _System_Connector{table} WHERE {where}")[0]["n"])


def without(table: str, where: str) -> Sequence[Any]:
    """Return the Events or WorkItems for whose Event another table has no row."""
    return query(
        f"SELECT e.EventId FROM {where} AND NOT EXISTS"
        f" (SELECT 1 FROM _System_Connector{table} other WHERE other.EventId = e.EventId)"
    )


def refused(ended: dict[str, Any]) -> str:
    """Return with which code a command was refused."""
    assert ended["code"] == 3, ended
    return str(json.loads(ended["out"].splitlines()[-1])["error"])


@pytest.mark.evidence("C-01", "C-02", "C-05", "C-06", "C-08", "C-09", "C-14", "P-13")
def test_drill__old_builds_forward_back_and_forward_again_execute_every_input_once(database_url, tmp_path):
    gate, second_gate, over = tmp_path / "gate", tmp_path / "second-gate", tmp_path / "over"
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(old_database(database_url))
        run = Drill(url, old_pack(), tmp_path, stack)
        web, base = stack.enter_context(web_server(url))
        record = str(run.record)

        # Old executor, old writer, old schema; the new schema comes under them.
        run.start("writer", racers.write_as_an_old_build, run.pack_id, record, OLD)
        run.start("provider", racers.post, base, record, str(over))
        run.executor()
        run.await_more()
        upgrade()
        run.await_more()
        run.until(lambda: count("IngressReceipt") >= 5, "receipts of before")
        run.die_at("materialize.before_commit", racers.command, "materialize", "--once")
        assert count("IngressReceipt", "State <> 'received'") == 0
        run.start("materializer", racers.command, "materialize", "--poll", "0.05", "--json")
        run.until(lambda: count("IngressReceipt", "State = 'materialized'") >= 5, "the receipts of before become work")

        # An executor is killed at work, and another stands by.
        held = run.send(base, lane=7, gate=str(gate))
        line = run.await_started(held)
        run.kill("executor")
        gate.touch()
        run.executor()
        run.until(lambda: without("WorkItem", "_System_ConnectorEvent e WHERE e.Status = 'pending'"), "an Event alone")

        # The fence: whatever was acknowledged waits, and the old writer ends.
        run.die_at("fence.before_barrier", arm)
        fence_id = arm()
        old_numbers = run.dismiss("writer").value()
        admitted = count("Event")
        standing_by = run.dismiss("executor")
        for point in FORWARD:
            if point == "inbound_forward.taken_back":
                expire_claim(line["event"])
            run.die_at(point, forward, run)
            assert receipts_of(run.pack_id) == []
        assert forward(run) == 1
        assert refused(standing_by.value()) == "claim_fenced"
        kill_child_of(web)
        run.kills.append("web server")
        behind = [run.send(base) for _ in range(4)]
        assert count("IngressReceipt", "State = 'received'") >= len(behind)
        assert count("Event") == admitted

        # The new build starts only now, and not before it knows where the old projections end.
        assert run.fork(racers.command, "work", "--json").value()["code"] == 3
        run.die_at("projection_cutover.before_commit", cut_projections_over, run)
        assert cut_projections_over(run)
        run.worker()
        fences.lift_fence(fence_id, actor=inbound.OWNER)
        run.await_more()

        # A worker is killed at work. Back, with work in hand at first and work outstanding in the end.
        held = run.send(base, lane=8, gate=str(second_gate))
        run.await_started(held)
        run.kill("worker")
        let_leases_run_out()
        run.worker()
        run.await_started(held, times=2)
        run.until(lambda: count("WorkItem", LOST) == 0, "what was lost is executed")
        assert roll_back(run) == "not_drained"
        second_gate.touch()
        run.until(lambda: count("WorkItem", "State = 'processing'") == 0, "what was in hand has ended")
        assert held in run.ended()
        for _ in range(4):
            run.send(base)
        run.until(lambda: count("WorkItem", "State = 'pending' AND Attempt = 0") >= 4, "work is outstanding")
        for point in BACK:
            run.die_at(point, roll_back, run)
        assert roll_back(run) == ""
        assert count("WorkItem", "State = 'awaiting_legacy_outcome'") >= 4
        run.executor(failpoint="legacy_end.after_event")
        run.died("executor", "legacy_end.after_event")
        let_leases_run_out()
        run.executor()
        waiting = "_System_ConnectorWorkItem e WHERE e.State = 'awaiting_legacy_outcome'"
        run.until(lambda: not without("LegacyOutcomeReceipt", waiting), "every outcome is known")

        # And forward again, when what was fenced is reconciled.
        for point in RECONCILING:
            run.die_at(point, reconcile, run)
        assert reconcile(run)
        evicted = run.dismiss("executor")
        run.die_at("inbound_forward.proved", forward, run)
        assert forward(run) == 3
        assert refused(evicted.value()) == "claim_fenced"
        run.await_more()

        # A pack that has admitted a range does not go back.
        run.send(base, event="contact.changed", lane=9)
        run.until(lambda: count("WorkItem", "InputStartOrdinal IS NOT NULL") == 1, "the range")
        assert roll_back(run) == "ranges_admitted"
        over.touch()
        acknowledged = run.dismiss("provider").value()
        run.until(lambda: count("IngressReceipt", "State = 'received'") == 0, "everything is admitted")
        run.until(lambda: count("WorkItem", "State IN ('pending', 'processing')") == 0, "every end is stored")
        assert [run.finish(name)["code"] for name in ("worker", "materializer")] == [0, 0]

        assert faults(run, [*acknowledged, *old_numbers]) == {}
        assert [row["Direction"] for row in receipts_of(run.pack_id)] == ["forward", "rollback", "forward"]
        assert verify(run.pack_id).holds


def test_drill__a_worker_that_observes_no_receipt_overlaps_with_the_executor(database_url, tmp_path):
    """The negative control: both executors at once, and the drill sees it."""
    gate = tmp_path / "gate"
    pack = LegacyPack(flow="tests.drill")
    pack.route()
    with contextlib.ExitStack() as stack:
        run = Drill(database_url, pack.pack_id, tmp_path, stack)
        pack.events(payload={"n": 0, "file": str(run.record), "gate": str(gate)})
        run.executor()
        run.await_started(0)
        for number in range(1, 6):
            pack.mirror(*pack.events(payload={"n": number, "file": str(run.record)}))
        run.unguarded_worker()
        run.await_more(5)
        gate.touch()
        run.until(lambda: 0 in run.ended(), "what the executor held has ended")
        assert run.finish("worker") == 5
        assert run.finish("executor")["code"] == 0
        found = overlaps(run)
    assert any(one.startswith("attempt of") for one in found)
    assert any(one.startswith("owners by what ran") for one in found)
