"""Bulk replays in the console: confirm, store, follow, go, cancel; and who may."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry, ReplayBatch, User
from integration.batches.reads import get_batch
from integration.batches.values import Totals
from tests.support.batches import children_by_original, run_to_rest
from tests.support.html import Markup
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)


def send(client: Client, query: str = "", **over: Any) -> Any:
    """Open the confirm page and send its form; a value in `over` is sent instead."""
    text = client.get(f"/batches/new{query}").content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', text))
    assert {"csrfmiddlewaretoken", "digest", "idempotency_key"} <= set(fields)
    values = {"reason": "Stage names are fixed", "halt_after": "10", **fields, **over}
    return client.post(f"/batches/new{query}", values)


def press(client: Client, batch_id: str, verb: str) -> Any:
    token = re.search(
        r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(f"/batches/{batch_id}/").content.decode()
    )
    assert token is not None
    return client.post(f"/batches/{batch_id}/{verb}", {"csrfmiddlewaretoken": token.group(1)})


def test_bulk_replay__from_the_list_to_its_end(replayer: Client, installation: Installation) -> None:
    refs = [installation.work() for _ in range(3)]
    assert "/batches/new?attempts=1" in replayer.get("/dlq/?attempts=1").content.decode()
    confirm = replayer.get("/batches/new?attempts=1").content.decode()
    assert [] == Markup(confirm).faults()
    assert "Replay 3 rows" in confirm
    response = send(replayer, "?attempts=1", canary="1")
    assert 302 == response.status_code
    (batch,) = ReplayBatch.objects.all()
    assert (f"/batches/{batch.id}/", 3, "rolf") == (response["Location"], batch.total, batch.created_by_name)
    assert {} == children_by_original()

    run_to_rest()
    text = replayer.get(response["Location"]).content.decode()
    assert [] == Markup(text).faults()
    assert "The first 1 are through" in text
    assert 302 == press(replayer, batch.id, "go").status_code
    run_to_rest()
    text = replayer.get(response["Location"]).content.decode()
    assert "3 of 3, 100 %" in text
    assert "Cancel the rest" not in text
    assert dict.fromkeys(refs, 1) == children_by_original()
    assert {"console"} == {entry.via for entry in AuditEntry.objects.filter(action="replay_batch.created")}


def test_bulk_replay__that_is_sent_twice_is_stored_once(replayer: Client, installation: Installation) -> None:
    installation.work()
    key = "3f2a9f5e-8a44-4a6c-9d5e-000000000001"
    first, second = send(replayer, idempotency_key=key), send(replayer, idempotency_key=key)
    assert 302 == first.status_code == second.status_code
    assert first["Location"] == second["Location"]
    assert 1 == ReplayBatch.objects.count()


def test_bulk_replay__of_a_selection_that_drifted_is_a_conflict(replayer: Client, installation: Installation) -> None:
    installation.work()
    response = send(replayer, digest="0" * 64)
    assert 409 == response.status_code
    assert "selection_drifted" in response.content.decode()
    assert 0 == ReplayBatch.objects.count()


@pytest.mark.parametrize("over", [{"reason": " "}, {"halt_after": ""}, {"canary": "-1"}, {"per_minute": "x"}])
def test_bulk_replay__of_a_bad_form_is_stored_nowhere(
    replayer: Client, installation: Installation, over: dict[str, str]
) -> None:
    installation.work()
    response = send(replayer, **over)
    assert (422, 0) == (response.status_code, ReplayBatch.objects.count())
    assert [] == Markup(response.content.decode()).faults()


def test_progress__is_polled_and_says_when_nothing_is_new(replayer: Client, installation: Installation) -> None:
    for _ in range(2):
        installation.work()
    where = send(replayer)["Location"]
    batch_id = where.split("/")[2]
    text = replayer.get(where).content.decode()
    poll = re.search(r'hx-get="([^"]+)"', text)
    assert poll is not None
    address, fragment = poll.group(1).replace("&amp;", "&"), {"HX-Request": "true"}
    assert 204 == replayer.get(address, headers=fragment).status_code
    run_to_rest()
    fresh = replayer.get(address, headers=fragment)
    assert (200, False) == (fresh.status_code, "hx-get" in fresh.content.decode())
    assert '<progress max="2" value="2"' in fresh.content.decode()
    assert get_batch(batch_id).totals == Totals(replayed=2)


def test_cancel__and_go_are_refused_with_a_conflict_where_they_mean_nothing(
    replayer: Client, installation: Installation
) -> None:
    for _ in range(2):
        installation.work()
    batch_id = send(replayer)["Location"].split("/")[2]
    assert 409 == press(replayer, batch_id, "go").status_code
    assert 302 == press(replayer, batch_id, "cancel").status_code
    assert ("cancelled", Totals(left=2)) == (get_batch(batch_id).state, get_batch(batch_id).totals)
    token = replayer.cookies["lockhouse-csrf"].value
    again = replayer.post(f"/batches/{batch_id}/cancel", headers={"X-CSRFToken": token})
    assert 409 == again.status_code
    assert run_to_rest() == 0


@pytest.mark.evidence("A-32")
def test_rights__that_are_taken_away_close_every_button(
    replayer: Client, signed_in: Callable[..., Client], installation: Installation
) -> None:
    installation.work()
    viewer = signed_in("vera", "Viewer")
    batch_id = send(replayer)["Location"].split("/")[2]
    assert 200 == viewer.get(f"/batches/{batch_id}/").status_code
    assert "Cancel the rest" not in viewer.get(f"/batches/{batch_id}/").content.decode()
    assert "Replay all that match" not in viewer.get("/dlq/").content.decode()
    viewer.handler.enforce_csrf_checks = replayer.handler.enforce_csrf_checks = False
    User.objects.get(username="rolf").groups.clear()
    for client in (viewer, replayer):
        for path in ("new", f"{batch_id}/go", f"{batch_id}/cancel"):
            assert 403 == client.post(f"/batches/{path}", {"reason": "x"}).status_code
    assert "running" == get_batch(batch_id).state
    assert 1 == ReplayBatch.objects.count()
