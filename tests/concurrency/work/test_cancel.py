"""Cancelling against workers that run, claim and finish: each item ends in one way, and that way is what happened."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from django.contrib.auth.models import Group

from console.models import User
from integration.values import new_id
from tests.concurrency.work.waits import until
from tests.support.processes import manage, race, until_met
from tests.support.work import Pack, attempt_rows, event_row, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-08")]
WORK = ["work", "--until-idle", "--concurrency", "1", "--roles", "claim,reap", "--poll-ms", "10"]
RACERS = "tests.concurrency.work.racers"
COUNT = 400


def operator() -> str:
    user = User.objects.create_user("rolf")
    user.groups.set(Group.objects.filter(name="Replayer"))
    return "rolf"


@pytest.mark.parametrize(("end", "state"), [("stop", "cancelled"), ("return", "succeeded"), ("fail", "cancelled")])
def test_cancel__reaches_the_flow_that_runs_and_its_claimant_ends_it(database_url, tmp_path, end, state):
    file = tmp_path / "flow"
    (work_id,) = Pack(flow="tests.until_cancelled").admit(payload={"file": str(file), "end": end})
    worker = manage(WORK, database_url)
    until(file.with_suffix(".started").exists, "the flow started")
    assert item_row(work_id)["State"] == "processing"

    command = ["cancel", work_id, "--as", operator(), "--reason", "The deal is gone", "--json"]
    asked = manage(command, database_url)
    assert asked.wait() == 0, asked.output

    assert json.loads(asked.output.splitlines()[-1])["outcome"] == "requested"
    assert worker.wait() == 0, worker.output
    row = item_row(work_id)
    assert (row["State"], row["Outcome"], row["CancelRequestedBy"]) == (state, state, "rolf")
    assert (row["Attempt"], row["LeaseToken"], row["TargetLaneActiveKey"]) == (1, None, None)
    assert row["TerminalAt"] >= row["CancelRequestedAt"]
    assert len(attempt_rows(work_id)) == 1
    assert event_row(row["EventId"])["ExecutionOwner"] == "work_item"


def cancel_against_a_worker(database_url, tmp_path, *, guarded: bool) -> tuple[list[dict], Counter, list]:
    """Let operators cancel every item, two of them each, while a worker claims and runs them, from the oldest on; return rows, runs and answers."""
    record = tmp_path / "runs"
    record.touch()
    pack = Pack(flow="tests.record", namespace=f"acme-{new_id()[:8]}")
    ids = pack.admit(COUNT, payload={"file": str(record)})
    cancels = [{"work_ids": ids[start::2], "guarded": guarded} for start in (0, 1)]
    answers = race(f"{RACERS}:cancel_or_work", [{"work_ids": []}, *cancels, *cancels], database_url)
    rows = query(
        "SELECT w.*, e.Status, e.ExecutionOwner FROM _System_ConnectorWorkItem w"
        " JOIN _System_ConnectorEvent e ON e.EventId = w.EventId WHERE w.PackInstallId = %s",
        pack.pack_id,
    )
    return rows, Counter(record.read_text().split()), answers


def contradictions(rows: list[dict], runs: Counter) -> list[str]:
    """Return the items whose rows do not say what happened."""
    found = []
    for row in rows:
        ran, claimed = runs[row["WorkId"]], row["Attempt"] == 1
        expected = {
            ("cancelled", False): ("event", "skipped", 0),
            ("succeeded", True): ("work_item", "pending", 1),
        }.get((row["State"], claimed))
        if expected != (row["ExecutionOwner"], row["Status"], ran):
            found.append(row["WorkId"])
    return found


def test_cancel__against_claim_and_completion_has_one_winner_an_item(database_url, tmp_path):
    def once() -> set[str]:
        rows, runs, answers = cancel_against_a_worker(database_url, tmp_path, guarded=True)
        assert len(rows) == COUNT
        assert contradictions(rows, runs) == []
        states = Counter(row["State"] for row in rows)
        cancelled = Counter(answer for mine in answers for answer in mine.values())
        assert cancelled["cancelled"] == states["cancelled"], "one operator ended each of them"
        assert set(cancelled) <= {"cancelled", "requested", "already_ended"}
        return set(states)

    assert until_met(once, lambda states: len(states) > 1) == {"cancelled", "succeeded"}


def test_cancel__without_its_guard_contradicts_itself(database_url, tmp_path):
    def once() -> list[str]:
        rows, runs, _ = cancel_against_a_worker(database_url, tmp_path, guarded=False)
        return contradictions(rows, runs)

    assert until_met(once, bool)
