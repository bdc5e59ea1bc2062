"""A claimant that slept past its lease: whatever it does when it wakes changes nothing."""

from __future__ import annotations

import signal
import time

import pytest
from django.db import OperationalError

from tests.concurrency.work.waits import until, until_said
from tests.support.processes import Command, manage
from tests.support.work import Pack, attempt_rows, change, expire_lease, item_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-02", "K-04")]
WORK = ["work", "--until-idle", "--concurrency", "1", "--roles", "claim,reap", "--poll-ms", "10"]
#: What the flow of the first attempt does once it wakes -> the transition that is refused.
ENDS = {"return": "complete", "skip": "skip", "fail": "retry", "reject": "bury", "cancelled": "acknowledge_cancel"}


def stop_between_transactions(sleeper: Command, work_id: str) -> None:
    """Stop a worker that holds no lock of its item, and let the item's lease run out."""
    while True:
        sleeper.process.send_signal(signal.SIGSTOP)
        try:
            expire_lease(work_id)
        except OperationalError:
            # It was stopped inside a renewal.
            sleeper.process.send_signal(signal.SIGCONT)
            time.sleep(0.1)
        else:
            return


@pytest.mark.parametrize("end", ENDS)
def test_claimant__stopped_past_its_lease_changes_nothing_when_it_goes_on(database_url, tmp_path, end):
    gate = tmp_path / "gate"
    payload = {"file": str(gate), "end": "stop" if end == "cancelled" else end}
    (work_id,) = Pack(flow="tests.hold_each").admit(payload=payload)
    sleeper = manage([*WORK, "--lease-seconds", "4"], database_url)
    until((tmp_path / "gate-1.started").exists, "the first attempt started")
    if end == "cancelled":
        change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = UTC_TIMESTAMP(6), CancelRequestedBy = 'ana'")
        until((tmp_path / "gate-1.told").exists, "the flow was told")
    stop_between_transactions(sleeper, work_id)
    try:
        if end == "cancelled":
            # Asked for again, the next claimant would stop before it begins.
            change("UPDATE _System_ConnectorWorkItem SET CancelRequestedAt = NULL")
        # No renewal of its own may change the row meanwhile.
        other = manage([*WORK, "--lease-seconds", "1200"], database_url)
        until((tmp_path / "gate-2.started").exists, "the second attempt started")
        before = item_row(work_id)
        assert (before["State"], before["Attempt"], before["OwnershipEpoch"]) == ("processing", 2, 2)
        (tmp_path / "gate-1").touch()
    finally:
        sleeper.process.send_signal(signal.SIGCONT)

    line = until_said(sleeper, "work.stale")

    assert ENDS[end] in line
    assert item_row(work_id) == before, "neither its end nor its renewals"
    (tmp_path / "gate-2").touch()
    assert other.wait() == 0, other.output
    assert sleeper.wait() == 0, sleeper.output
    row = item_row(work_id)
    assert (row["State"], row["Attempt"], row["OwnershipEpoch"]) == ("succeeded", 2, 2)
    assert [attempt["Outcome"] for attempt in attempt_rows(work_id)] == ["lost", None]
