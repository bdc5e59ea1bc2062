"""The worker is killed at every step of an item's life; the next one loses nothing and repeats nothing stored."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.support.processes import Command, manage
from tests.support.work import Pack, attempt_rows, change, expire_lease, item_row, query

pytestmark = pytest.mark.django_db(transaction=True)
WORK = ["work", "--until-idle", "--concurrency", "1", "--roles", "claim,reap", "--poll-ms", "10"]

#: Failpoint -> the state that the killed worker leaves, the attempts that the next one makes, runs of the flow.
KILLS = {
    "claim.before": ("pending", [None], 1),
    "claim.after_commit": ("processing", ["lost", None], 1),
    "finish.before": ("processing", ["lost", None], 2),
    "finish.after_commit": ("succeeded", [None], 1),
}


def started(command: Command) -> Command:
    assert command.wait() == 0, command.output
    return command


@pytest.mark.evidence("K-03", "K-04")
@pytest.mark.parametrize("point", KILLS)
def test_worker__killed_and_started_again_loses_nothing_and_stores_nothing_twice(database_url, tmp_path, point):
    state, outcomes, runs = KILLS[point]
    record = tmp_path / "runs"
    ids = Pack(flow="tests.record").admit(3, payload={"file": str(record)})

    killed = manage(WORK, database_url, failpoint=point, folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == point

    states = Counter(item_row(work_id)["State"] for work_id in ids)
    assert states == Counter({state: 1}) + Counter({"pending": 2})
    victim = next((work_id for work_id in ids if item_row(work_id)["State"] == state), ids[0])
    expire_lease(victim)

    started(manage(WORK, database_url))

    rows = [item_row(work_id) for work_id in ids]
    assert [(row["State"], row["Outcome"]) for row in rows] == [("succeeded", "succeeded")] * 3
    assert [attempt["Outcome"] for attempt in attempt_rows(victim)] == outcomes
    assert item_row(victim)["Attempt"] == item_row(victim)["OwnershipEpoch"] == len(outcomes)
    ran = Counter(record.read_text().split())
    assert ran == Counter(dict.fromkeys(ids, 1)) | Counter({victim: runs})


@pytest.mark.evidence("K-04")
def test_worker__killed_without_an_expired_lease_keeps_its_item_until_then(database_url, tmp_path):
    (work_id,) = Pack(flow="tests.noop").admit()
    killed = manage(WORK, database_url, failpoint="claim.after_commit", folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL
    before = item_row(work_id)
    (lease,) = query("SELECT LeaseUntil > UTC_TIMESTAMP(6) AS Live FROM _System_ConnectorWorkItem")
    assert lease["Live"] == 1

    # Without the reaper's role nobody may take it, however long it waits.
    change("UPDATE _System_ConnectorWorkItem SET LeaseUntil = UTC_TIMESTAMP(6) + INTERVAL 600 SECOND")
    from integration.work.process import register_process
    from integration.work.reap import reap_expired

    process = register_process(roles=frozenset({"reap"}), concurrency=1, build_version="tests")
    assert reap_expired(process).total == 0
    assert item_row(work_id)["LeaseToken"] == before["LeaseToken"]
