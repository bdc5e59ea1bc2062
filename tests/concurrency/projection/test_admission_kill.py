"""SIGKILL at every step of an admission, and after it: nothing is lost and nothing is done twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from integration.ingress.service import materialize_ready
from tests.support import admission, webhooks
from tests.support.admission import generations, inputs, ranges, receipt, reopen, unowned_inputs
from tests.support.processes import manage
from tests.support.work import query

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE_COMMIT = [
    "admission.before_locks",
    "admission.after_locks",
    "admission.after_inserts",
    "materialize.before_commit",
]


def prepare() -> list[str]:
    """Leave a claimed generation of deal 1, an untouched one of deal 2, and stored inputs of three deals."""
    admission.activate()
    inputs(1, 2)
    materialize_ready()
    admission.claim_row(generations(1)[0]["WorkId"])
    return [*inputs(1, 2, 3, 2), *inputs(2, event=admission.PER_EVENT)]


def whole() -> list[object]:
    return [webhooks.rows("Event", "EventId"), webhooks.rows("WorkItem", "WorkId"), webhooks.rows("PackInstall")]


def assert_admitted(taken: list[str]) -> None:
    assert {receipt(one) for one in taken} == {("materialized", None)}
    assert [ranges(number) for number in (1, 2, 3)] == [
        [(1, 1, True), (3, 3, False)],
        [(2, 6, True)],
        [(5, 5, True)],
    ]
    assert len(query("SELECT WorkId FROM _System_ConnectorWorkItem WHERE ProjectionKey IS NULL")) == 1
    assert [row["LaneOrdinal"] for row in webhooks.rows("Event", "LaneOrdinal")] == list(range(1, 8))
    assert unowned_inputs() == {}


@pytest.mark.evidence("P-12", "P-01")
@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_kill__before_the_commit__leaves_nothing_and_the_next_one_admits(database_url: str, tmp_path: Path, point: str):
    taken = prepare()
    before = whole()

    killed = manage(["materialize", "--once"], database_url, failpoint=point, folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == point

    assert whole() == before
    assert {receipt(one)[0] for one in taken} == {"received"}
    assert manage(["materialize", "--once"], database_url).wait() == 0
    assert_admitted(taken)


@pytest.mark.evidence("P-12")
@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "not-confirmed"])
def test_kill__after_the_commit__is_idempotent_on_retry(database_url: str, tmp_path: Path, confirmed: bool):
    """This program confirms a receipt in the same commit; one that did so afterwards leaves it `received`."""
    taken = prepare()

    killed = manage(["materialize", "--once"], database_url, failpoint="materialize.after_commit", folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == "materialize.after_commit"

    assert_admitted(taken)
    before = whole()
    if not confirmed:
        for one in taken:
            reopen(one)
        # Claimed meanwhile: the retry may still not touch it.
        admission.claim_row(generations(3)[0]["WorkId"])
        before = whole()
    assert manage(["materialize", "--once"], database_url).wait() == 0
    assert whole() == before
    assert_admitted(taken)
