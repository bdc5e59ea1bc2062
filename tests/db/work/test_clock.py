"""The database's clock jumps: nothing runs early, nothing is lost, and nothing is stored twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.errors import StaleClaim
from integration.states import FailureClass
from integration.work import finish
from integration.work.claim import claim_next, renew
from integration.work.finish import Ended
from integration.work.reap import reap_expired
from tests.support.work import attempt_rows, change, item_row, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-04", "K-05")]
HOUR = 3600


@pytest.fixture
def jump(db) -> Callable[[int], None]:
    """Move this connection's database clock by so many seconds from the true time; 0 sets it right."""

    def moved(seconds: int) -> None:
        change("SET timestamp = DEFAULT" if seconds == 0 else f"SET timestamp = UNIX_TIMESTAMP(SYSDATE(6)) + {seconds}")

    yield moved
    change("SET timestamp = DEFAULT")


def test_clock__of_the_session_moves_as_the_tests_want(jump):
    jump(-HOUR)
    (row,) = query(
        "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), CONVERT_TZ(SYSDATE(6), @@time_zone, '+00:00')) AS Back"
    )
    assert abs(row["Back"] - HOUR) < 30


def test_claim__after_the_clock_jumped_back_waits_until_it_is_due_again(pack, process, queue, jump):
    (work_id,) = pack.admit()
    jump(-HOUR)
    before = item_row(work_id)
    assert claim_next(process, queue) is None
    assert item_row(work_id) == before
    jump(0)
    assert claim_next(process, queue).work_id == work_id


def test_lease__outlives_a_clock_that_jumped_back_and_its_renewal_sets_it_right(pack, process, take, jump):
    claim = take(pack.admit()[0])
    until = item_row(claim.work_id)["LeaseUntil"]
    jump(-HOUR)
    assert reap_expired(process).total == 0
    assert renew(claim) is True
    again = item_row(claim.work_id)["LeaseUntil"]
    assert HOUR - 60 < (until - again).total_seconds() < HOUR + 60, "no claimant's death would cost an hour"
    assert finish.complete(claim) is Ended.COMPLETE
    assert item_row(claim.work_id)["State"] == "succeeded"


def test_lease__that_a_clock_ran_past_is_reaped_and_its_claimant_refused(pack, process, take, queue, jump):
    stale = take(pack.admit()[0])
    jump(HOUR)
    assert reap_expired(process).retried == 1
    jump(0)
    # The reaper's clock has set the time of the next try.
    assert claim_next(process, queue) is None
    with pytest.raises(StaleClaim):
        finish.complete(stale)
    jump(HOUR + 1)
    live = claim_next(process, queue)
    assert (live.attempt, live.epoch) == (2, 2)
    assert finish.complete(live) is Ended.COMPLETE
    assert [attempt["Outcome"] for attempt in attempt_rows(stale.work_id)] == ["lost", None]


def test_retry__after_the_clock_jumped_back_is_tried_no_earlier_than_asked(pack, process, take, queue, jump):
    claim = take(pack.admit()[0])
    jump(-HOUR)
    assert finish.retry(claim, FailureClass.FLOW_ERROR, after_seconds=60) is Ended.RETRY
    assert claim_next(process, queue) is None
    jump(-HOUR + 61)
    second = claim_next(process, queue)
    assert (second.attempt, second.epoch) == (2, 2)
    jump(0)
    assert reap_expired(process).retried == 1, "its lease was an hour too short, and token and epoch decide"
    with pytest.raises(StaleClaim):
        finish.complete(second)
