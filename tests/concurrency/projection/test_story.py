"""Inputs of one source all the way: signed HTTP, a web server, a worker, and a flow that is given every one of them."""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import admission, webhooks
from tests.support.processes import manage, web_server
from tests.support.work import expire_lease, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
FLOWS = ("{name: demo.apply_contact, version: 1}", "{name: tests.inputs, version: 1}")
WORK = ["work", "--until-idle", "--concurrency", "2"]


def contact(number: int, contact_id: int, file: Path, **fields: object) -> bytes:
    body = {
        "event": "contact.changed",
        # Each input says that it happened before the one that was sent before it.
        "sent_at": f"2026-11-29T10:{59 - number:02d}:00Z",
        "contact": {"id": contact_id, **fields},
        "n": number,
        "file": str(file),
    }
    return json.dumps(body).encode()


def post(base: str, body: bytes, delivery_id: str) -> int:
    """Post a signed webhook; return the status."""
    address = urlsplit(base)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=200)
    try:
        connection.request("POST", webhooks.DEMO_URL, body, webhooks.headers(body, delivery_id=delivery_id))
        return connection.getresponse().status
    finally:
        connection.close()


def given(file: Path) -> list[dict]:
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(found, key=lambda entry: (entry["ordinals"], entry["attempt"]))


@pytest.mark.evidence("P-19")
def test_story__every_signed_input_of_a_source_reaches_its_flow_in_one_generation(database_url, tmp_path):
    file = tmp_path / "given"
    webhooks.activate(webhooks.variant("demo", FLOWS))
    bodies = {
        "d-1": contact(1, 7, file, name="Elm"),
        "d-2": contact(2, 8, file, name="Oak"),
        "d-3": contact(3, 7, file, city="Celle"),
        "d-4": webhooks.deal(7),
        "d-5": contact(5, 7, file, name="Fir"),
    }
    with web_server(database_url) as (_, base):
        assert [post(base, body, name) for name, body in bodies.items()] == [200] * 5
        # The provider's second try of an input is not another input.
        assert post(base, bodies["d-3"], "d-3") == 200
        worker = manage(WORK, database_url)
        assert worker.wait() == 0, worker.output
        # The source goes on: what comes after the end is another generation's.
        assert post(base, contact(6, 7, file, city="Essen"), "d-6") == 200
        worker = manage(WORK, database_url)
        assert worker.wait() == 0, worker.output

    elm, oak, later = admission.generations()[0], admission.generations()[1], admission.generations()[2]
    assert [(entry["numbers"], entry["ordinals"], entry["attempt"]) for entry in given(file)] == [
        ([1, 3, 5], [1, 3, 5], 1),
        ([2], [2], 1),
        ([6], [6], 1),
    ]
    assert [entry["work_id"] for entry in given(file)] == [elm["WorkId"], oak["WorkId"], later["WorkId"]]
    # The route merges: each field as the last input that named it left it, whatever the clocks say.
    assert given(file)[0]["payload"]["contact"] == {"id": 7, "name": "Fir", "city": "Celle"}
    for row in (elm, oak, later):
        assert (row["State"], row["Outcome"], row["Attempt"], row["ProjectionActiveKey"]) == (
            "succeeded",
            "succeeded",
            1,
            None,
        )
        assert row["TerminalAt"] is not None
    assert {row["State"] for row in webhooks.rows("IngressReceipt")} == {"materialized"}
    assert len(webhooks.rows("Event")) == 6
    assert admission.unowned_inputs() == {}


@pytest.mark.evidence("P-19", "P-12")
@pytest.mark.parametrize("point", ["materialize.after_commit", "claim.after_commit", "finish.before", "handoff.before"])
def test_story__a_worker_that_is_killed_on_the_way_leaves_the_set_complete(database_url, tmp_path, point):
    file = tmp_path / "given"
    webhooks.activate(webhooks.variant("demo", FLOWS))
    with web_server(database_url) as (_, base):
        for number in (1, 2, 3):
            assert post(base, contact(number, 7, file), f"d-{number}") == 200
        killed = manage(WORK, database_url, failpoint=point, folder=tmp_path)
        assert killed.wait() == -signal.SIGKILL, killed.output
        assert killed.fired() == point
        for row in query("SELECT WorkId FROM _System_ConnectorWorkItem WHERE State = 'processing'"):
            expire_lease(row["WorkId"])
        assert post(base, contact(4, 7, file), "d-4") == 200
        worker = manage(WORK, database_url)
        assert worker.wait() == 0, worker.output

    rows = admission.generations()
    assert {row["State"] for row in rows} == {"succeeded"}
    assert admission.unowned_inputs() == {}
    ended = {row["WorkId"]: admission.members(row) for row in rows}
    # Every run of a generation, repeated ones too, was given exactly its own inputs.
    assert {(entry["work_id"], tuple(entry["ordinals"])) for entry in given(file)} == {
        (work_id, tuple(ordinals)) for work_id, ordinals in ended.items()
    }
    assert sorted(ordinal for ordinals in ended.values() for ordinal in ordinals) == [1, 2, 3, 4]
