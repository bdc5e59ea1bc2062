"""The demo against a real web server and a real worker: what it posts becomes work, and a replayed stage succeeds."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.admission import unowned_inputs
from tests.support.processes import manage, web_server
from tests.support.work import query

pytestmark = pytest.mark.django_db(transaction=True)
DEMO = ["demo", "--rate", "0", "--json", "--wait", "200"]


def run(arguments: list[str], database_url: str, *, code: int = 0, **options: str) -> str:
    command = manage(arguments, database_url, **options)
    assert command.wait() == code, command.output
    return command.output


def test_demo__posts_real_webhooks_that_a_worker_ends(database_url, tmp_path):
    run(["install_pack", "integration/packs/demo.yaml", "--activate"], database_url)
    worker = manage(["work"], database_url, LOCKHOUSE_VAR_DIR=str(tmp_path))
    mix = ["--count", "60", "--seed", "7", "--duplicate-share", "0.2", "--forged-share", "0.1", "--fail-share", "0.3"]
    mix += ["--flaky-share", "0.3", "--contact-share", "0"]
    with web_server(database_url) as (_, base_url):
        output = run([*DEMO, *mix, "--base-url", base_url], database_url)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.output

    found = json.loads(output.splitlines()[-1])
    assert (found["sent"], found["unexpected"], found["unfinished"]) == (60, 0, 0)
    assert min(found["stored"], found["duplicates"], found["refused"]) > 0
    states = {
        row["State"]: row["Found"]
        for row in query("SELECT State, COUNT(*) AS Found FROM _System_ConnectorWorkItem GROUP BY State")
    }
    assert set(states) == {"succeeded", "dead"}
    assert states == found["work"]
    assert sum(states.values()) == found["stored"]
    (retried,) = query("SELECT COUNT(*) AS Found FROM _System_ConnectorExecutionAttempt WHERE Outcome = 'retry'")
    assert retried["Found"] > 0, "no deal failed its first attempt"
    classes = query("SELECT DISTINCT FailureClass FROM _System_ConnectorWorkItem WHERE State = 'dead'")
    assert classes == [{"FailureClass": "flow_rejected"}]


def test_demo__of_contacts_coalesces_what_waits_and_leaves_none_out(database_url, tmp_path):
    run(["install_pack", "integration/packs/demo.yaml", "--activate"], database_url)
    mix = ["--count", "60", "--seed", "7", "--contact-share", "1", "--fail-share", "0", "--wait", "0"]
    with web_server(database_url) as (_, base_url):
        run([*DEMO, *mix, "--base-url", base_url], database_url, code=1)
    run(["work", "--until-idle"], database_url, LOCKHOUSE_VAR_DIR=str(tmp_path))
    rows = query("SELECT * FROM _System_ConnectorWorkItem ORDER BY InputStartOrdinal")
    assert {row["EventKind"] for row in rows} == {"contact.changed"}
    assert {row["State"] for row in rows} <= {"succeeded", "dead"}
    # Sixty changes of a dozen contacts waited together: a generation a contact, and every input in one of them.
    assert len(rows) <= 12
    assert unowned_inputs() == {}
    assert len(query("SELECT EventId FROM _System_ConnectorEvent")) == 60


def test_demo__without_a_pack_says_how_to_get_one(database_url):
    assert "install_pack" in run(DEMO, database_url, code=4)


def test_demo_stages__are_changed_by_command(database_url, tmp_path):
    options = {"LOCKHOUSE_VAR_DIR": str(tmp_path)}
    first = json.loads(run(["demo", "stages", "--json"], database_url, **options))
    assert "legal_review" not in first
    changed = json.loads(run(["demo", "stages", "--allow", "legal_review", "--json"], database_url, **options))
    assert set(changed) == {*first, "legal_review"}
    again = json.loads(run(["demo", "stages", "--forbid", "won", "--json"], database_url, **options))
    assert set(again) == set(changed) - {"won"}
    assert "lower-case" in run(["demo", "stages", "--allow", "No Such"], database_url, code=2, **options)
