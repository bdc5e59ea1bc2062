"""The Event executor of a rolled-back pack as a process: admitted or not, killed at an end, and the whole way back and
forth."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import Any

import pytest

from console.models import User
from integration.cutover import receipts
from integration.cutover.inbound.rollback_policy import digest_set
from integration.management.builds import build_version
from integration.storage import db
from tests.concurrency.work.waits import until
from tests.support.bridge import BridgedPack
from tests.support.legacy import expire_claim, expire_scheduler_lease
from tests.support.meetings import await_file
from tests.support.processes import Command, manage
from tests.support.rollback import kill, outcome_rows, receipts_of, states
from tests.support.work import attempt_rows, change, event_row, item_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
WORK = ["work", "--concurrency", "1", "--roles", "claim,reap", "--poll-ms", "20", "--json"]


@pytest.fixture(autouse=True)
def operator(transactional_db: None) -> None:
    User.objects.create_superuser("olga")


def cutover(pack: BridgedPack, verb: str, *options: str) -> list[str]:
    return ["inbound_cutover", verb, "--pack-install-id", pack.pack_id, "--as", "olga", "--json", *options]


def back(pack: BridgedPack, *options: str) -> list[str]:
    return cutover(pack, "rollback", "--reason", "The new build loses deals", "--attest", "none runs", *options)


def execute(pack: BridgedPack) -> list[str]:
    return ["legacy_execute", "--pack-install-id", pack.pack_id, "--until-idle", "--json"]


def ended(command: Command, code: int = 0) -> Any:
    assert command.wait() == code, command.output
    return json.loads(command.output.splitlines()[-1])


@pytest.mark.evidence("C-02", "C-03", "C-05", "C-10")
def test_pack__goes_back_to_its_executor_and_forth_again_without_an_overlap(database_url, tmp_path):
    """The whole way, every step a real command, a worker running all the time."""
    gate, record = tmp_path / "gate", tmp_path / "runs"
    pack = BridgedPack(flow="tests.record")
    (held,) = pack.admit(payload={"file": str(gate)}, FlowName="tests.hold")
    worker = manage(WORK, database_url)
    await_file(gate.with_suffix(".started"))
    work_ids = pack.admit(6, payload={"file": str(record)})
    try:
        refused = ended(manage(back(pack), database_url), 3)
        assert refused["refusal"] == "not_drained"
        assert states([held, *work_ids]) == {"processing": 1, "pending": 6}
        assert len(receipts_of(pack.pack_id)) == 1
        fenced = ended(manage(execute(pack), database_url), 3)
        assert fenced["error"] == "claim_fenced"

        gate.touch()
        until(lambda: item_row(held)["State"] == "succeeded", "what runs has ended")
        done = ended(manage(back(pack), database_url))
        assert (done["item_count"], done["set_digest"]) == digest_set(sorted(work_ids))
        assert states(work_ids) == {"awaiting_legacy_outcome": 6}
        assert not record.exists()

        refused = ended(manage(back(pack, "--approve-build", "another"), database_url))
        assert refused["is_new"] is False
        assert ended(manage(execute(pack), database_url))["ended"] == {"processed": 6}
    finally:
        worker.process.send_signal(signal.SIGTERM)
        assert ended(worker)["executed"] == 1
    assert Counter(record.read_text().split()) == Counter(work_ids)
    reconciled = ended(manage(cutover(pack, "reconcile"), database_url))
    assert (reconciled["reconciled"], reconciled["is_closed"]) == (6, True)

    late = pack.admit(2, payload={"file": str(record)})
    forth = ended(manage(cutover(pack, "forward", "--reason", "Mended", "--attest", "none runs"), database_url))
    assert forth["owner_generation"] == 3
    assert ended(manage([*WORK, "--until-idle"], database_url))["executed"] == 2
    assert Counter(record.read_text().split()) == Counter([*work_ids, *late])
    assert states(work_ids) == {"reconciled_legacy_terminal": 6}
    assert {len(attempt_rows(work_id)) for work_id in work_ids} == {0}
    assert receipts.find_faults(receipts.list_receipts(db.read(), pack.pack_id)) == ()


@pytest.mark.evidence("C-10")
def test_executor__of_a_build_that_was_not_approved_is_refused_by_its_own_process(database_url):
    pack = BridgedPack()
    (work_id,) = pack.waiting()
    ended(manage(back(pack, "--approve-build", "0.0-another"), database_url))
    refused = ended(manage(execute(pack), database_url), 3)
    assert (refused["error"], build_version() == "0.0-another") == ("bridge_refused", False)
    assert (item_row(work_id)["State"], outcome_rows()) == ("awaiting_legacy_outcome", [])


#: Failpoint of the executor -> whether the Event has ended when it is killed there, and its receipt is stored.
EXECUTOR_KILLS = {
    "legacy_end.after_event": False,
    "legacy_end.after_receipt": False,
    "legacy_end.before_commit": False,
    "legacy_end.after_commit": True,
}


@pytest.mark.evidence("C-05")
@pytest.mark.parametrize("point", EXECUTOR_KILLS)
def test_executor__killed_at_an_end_leaves_the_event_and_its_receipt_or_neither(tmp_path, point):
    pack = BridgedPack()
    (work_id,) = pack.waiting()
    pack.roll_back()
    event_id = item_row(work_id)["EventId"]
    kill(tmp_path, point, pack.run_out)

    has_ended = EXECUTOR_KILLS[point]
    assert (event_row(event_id)["Status"], len(outcome_rows())) == (
        ("processed", 1) if has_ended else ("processing", 0)
    )
    assert item_row(work_id)["State"] == "awaiting_legacy_outcome"
    done = pack.reconcile()
    assert (done.reconciled, done.is_closed) == ((1, True) if has_ended else (0, False))
    if not has_ended:
        expire_scheduler_lease()
        expire_claim(event_id)
        pack.run_out()
        change("UPDATE _System_ConnectorEvent SET NextRetryAt = NULL")
        pack.run_out()
        assert pack.reconcile().is_closed
    assert item_row(work_id)["State"] == "reconciled_legacy_terminal"
