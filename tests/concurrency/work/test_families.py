"""One worker process does the work of several families, and none of a family that it cannot run."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.integration_work import admit_integration
from tests.support.processes import manage
from tests.support.work import Pack, attempt_rows, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("K-12")]


def states(table: str, family: str) -> Counter[str]:
    return Counter(row["State"] for row in query(f"SELECT State FROM {table} WHERE WorkFamily = %s", family))


def test_worker__does_the_work_of_the_families_that_it_is_given(database_url, tmp_path):
    record = tmp_path / "effects"
    Pack(flow="tests.noop").admit(20)
    effects = admit_integration(12, TargetLane="account:1") + admit_integration(8, SourceLane="order:1")
    admit_integration(3, family="token")

    worker = manage(
        ["work", "--families", "connector,effect", "--until-idle", "--roles", "claim,reap", "--poll-ms", "10"],
        database_url,
        LOCKHOUSE_TEST_RECORD=str(record),
    )
    assert worker.wait() == 0, worker.output

    assert states("_System_ConnectorWorkItem", "connector") == {"succeeded": 20}
    assert states("_System_IntegrationWorkItem", "effect") == {"succeeded": 20}
    assert states("_System_IntegrationWorkItem", "token") == {"pending": 3}
    ran = record.read_text().split()
    assert Counter(ran) == Counter(effects)
    ordered = [work_id for work_id in ran if work_id in effects[12:]]
    assert ordered == effects[12:]
    assert {len(attempt_rows(work_id)) for work_id in effects} == {1}


@pytest.mark.parametrize(
    ("families", "code", "words"), [("token", 1, "nothing that runs"), ("tokens", 2, "one or more")]
)
def test_worker__refuses_a_family_that_it_cannot_run(database_url, families, code, words):
    (waiting,) = admit_integration(family="token")
    worker = manage(["work", "--families", families, "--until-idle"], database_url)
    assert worker.wait() == code, worker.output
    assert words in worker.output
    assert query("SELECT State FROM _System_IntegrationWorkItem WHERE WorkId = %s", waiting) == [{"State": "pending"}]
    assert query("SELECT ProcessId FROM _System_ConnectorClaimProcess") == []
