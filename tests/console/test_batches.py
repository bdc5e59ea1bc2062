"""Bulk replays in the console: confirm, store, follow, go, cancel; and who may."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from console.batch_models import ReplayBatch
from console.models import AuditEntry, User
from integration.batches.reads import get_batch
from integration.batches.values import Totals
from integration.values import new_id
from tests.support.authority import change
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


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?event_kind=prospect.updated", "event kind prospect.updated, as of"),
        ("", "everything that was dead and not replayed, as of"),
        ("?ticked=1&ref={ref}", "1 row by id"),
    ],
)
def test_bulk_replay__says_what_it_was_narrowed_to(
    query: str, said: str, replayer: Client, installation: Installation
) -> None:
    response = send(replayer, query.format(ref=installation.work()))
    text = replayer.get(response["Location"], {"tz": "Asia/Kolkata"}).content.decode()
    assert f"<dt>Selection</dt><dd>{said}" in text
    assert "seen_at" not in text


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


def test_ticked__rows_are_replayed_and_no_others(replayer: Client, installation: Installation) -> None:
    refs = [installation.work() for _ in range(3)]
    text = replayer.get("/dlq/?attempts=1").content.decode()
    assert [] == Markup(text).faults()
    boxes = re.findall(r'name="ref" value="(work_item:[^"]+)"', text)
    assert sorted(f"work_item:{ref}" for ref in refs) == sorted(boxes)
    query = f"?attempts=1&ticked=1&ref={boxes[0]}&ref={boxes[2]}"
    confirm = replayer.get(f"/batches/new{query}").content.decode()
    assert "Replay 2 rows" in confirm
    assert "The rows that you ticked" in confirm
    assert 'href="/dlq/?attempts=1"' in confirm
    assert 302 == send(replayer, query).status_code
    run_to_rest()
    assert {box.partition(":")[2]: 1 for box in (boxes[0], boxes[2])} == children_by_original()


def test_ticked__none_is_none_and_never_all(replayer: Client, installation: Installation) -> None:
    installation.work()
    text = replayer.get("/batches/new?ticked=1").content.decode()
    assert "none is ticked" in text
    assert "Replay 0 rows" in text
    assert 409 == send(replayer, "?ticked=1").status_code
    assert 0 == ReplayBatch.objects.count()


@pytest.mark.parametrize("query", ["ref=nonsense", "&".join(f"ref={new_id()}" for _ in range(51)), "seen_at=soon"])
def test_ticked__more_than_a_page_or_what_is_no_row_or_time_is_refused(replayer: Client, query: str) -> None:
    response = replayer.get(f"/batches/new?{query}")
    assert 400 == response.status_code
    assert re.search("50 at most|A reference is|seen_at is a time", response.content.decode())


def test_ticked__rows_that_changed_since_are_told_and_kept_in_the_ledger(
    replayer: Client, installation: Installation
) -> None:
    seen, taken = installation.work(), installation.work(ReplayedAt=installation.now)
    query = f"?ticked=1&ref={seen}&ref={taken}"
    text = replayer.get(f"/batches/new{query}").content.decode()
    assert "1 of the ticked rows is" in text
    assert "<b>1 of 2</b> would be replayed now" in text
    assert "already_replayed" in text
    batch_id = send(replayer, query)["Location"].split("/")[2]
    run_to_rest()
    assert Totals(replayed=1, lost_race=1) == get_batch(batch_id).totals


def test_all_matching__leaves_out_what_died_after_the_list_was_seen_and_says_so(
    replayer: Client, installation: Installation
) -> None:
    before = [installation.work(ended_ago=timedelta(minutes=1)) for _ in range(2)]
    listed = replayer.get("/dlq/?attempts=1").content.decode()
    link = re.search(r'href="/batches/new(\?[^"]+seen_at=[^"]+)"', listed)
    assert link is not None
    # As it would stand on a page that was opened half a minute ago.
    seen_at = quote((installation.now - timedelta(seconds=30)).isoformat())
    query = re.sub("seen_at=.+", f"seen_at={seen_at}", link.group(1).replace("&amp;", "&"))
    for _ in range(3):
        installation.work(ended_ago=timedelta())
    confirm = replayer.get(f"/batches/new{query}").content.decode()
    assert [] == Markup(confirm).faults()
    assert "Replay 2 rows" in confirm
    assert "3 more rows died since you looked" in confirm
    response = send(replayer, query)
    where = replayer.get(response["Location"]).content.decode()
    assert "3 that died after you looked are not in it" in where
    assert "3 that died since are not in it" in where
    run_to_rest()
    assert dict.fromkeys(before, 1) == children_by_original()
    again = re.search(r'href="([^"]+)">Look again, with them', confirm)
    assert again is not None
    assert "Replay 3 rows" in replayer.get(again.group(1).replace("&amp;", "&")).content.decode()


def test_confirm__says_how_many_there_were_when_the_selection_drifted(
    replayer: Client, installation: Installation
) -> None:
    refs = [installation.work(ended_ago=timedelta(minutes=1)) for _ in range(2)]
    text = replayer.get("/batches/new").content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', text))
    change("UPDATE _System_ConnectorWorkItem SET ReplayedAt = TerminalAt WHERE WorkId = %s", refs[0])
    response = replayer.post("/batches/new", {"reason": "x", "halt_after": "10", **fields})
    assert 409 == response.status_code
    assert "The page showed 2 rows; now it is 1." in response.content.decode()


def test_confirm__shows_expected_refusals_and_where_the_rows_go(replayer: Client, installation: Installation) -> None:
    for _ in range(3):
        installation.work()
    installation.fence(installation.kind)
    text = replayer.get("/batches/new").content.decode()
    assert "<b>0 of 3</b> would be replayed now" in text
    assert "<code>admission_fenced</code>" in text
    assert f"3 × {installation.kind}" in text
    assert "incarnation 4; route version 12" in text
    assert "died under" not in text


def test_pause__and_resume_are_buttons_of_the_states_in_which_they_mean_something(
    replayer: Client, installation: Installation
) -> None:
    for _ in range(2):
        installation.work()
    where = send(replayer)["Location"]
    batch_id = where.split("/")[2]

    def buttons() -> list[str]:
        text = replayer.get(where).content.decode()
        assert [] == Markup(text).faults()
        return re.findall(r'id="batch-(\w+)"', text)

    assert ["pause", "cancel"] == buttons()
    assert 302 == press(replayer, batch_id, "pause").status_code
    assert (["resume", "cancel"], 0) == (buttons(), run_to_rest())
    text = replayer.get(where).content.decode()
    assert "with 2 of 2 left" in text
    assert "0 + 0 + 0 + 0 + 2 = 2, every row of the selection" in text
    assert 409 == press(replayer, batch_id, "pause").status_code
    assert 302 == press(replayer, batch_id, "resume").status_code
    assert (2, []) == (run_to_rest(), buttons())
    assert ["paused", "paused", "resumed"] == [
        entry.action.partition(".")[2]
        for entry in AuditEntry.objects.filter(action__in=["replay_batch.paused", "replay_batch.resumed"]).order_by(
            "seq"
        )
    ]


def test_progress__says_when_its_sum_is_not_the_total(replayer: Client, installation: Installation) -> None:
    installation.work()
    where = send(replayer)["Location"]
    ReplayBatch.objects.update(total=2)
    text = replayer.get(where).content.decode()
    assert "The ledger does not add up" in text
    assert "not the 2 selected" in text


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
        for path in ("new", *(f"{batch_id}/{verb}" for verb in ("go", "pause", "resume", "cancel"))):
            assert 403 == client.post(f"/batches/{path}", {"reason": "x"}).status_code
    assert "running" == get_batch(batch_id).state
    assert 1 == ReplayBatch.objects.count()
