"""The list of dead letters and one row's page."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client

from integration.authority import reads
from integration.values import new_id
from tests.support.rows import Installation

# Committed, as in service: TiDB joins a window of an index with uncommitted rows for ever.
pytestmark = pytest.mark.django_db(transaction=True)


def _refs(text: str) -> list[str]:
    return [ref.split(":")[-1] for ref in re.findall(r'data-row href="/dlq/([^/"]+)/', text)]


def test_list__pages_meet_every_row_once_there_and_back(viewer: Client, installation: Installation) -> None:
    made = {installation.work(ended_ago=timedelta(minutes=n % 7)) for n in range(120)}
    path, met = "/dlq/?namespace=acme-sales", []
    while path:
        text = viewer.get(path).content.decode()
        met += _refs(text)
        assert "namespace=acme-sales" in path
        older = re.search(r'href="([^"]+)" data-older', text)
        path = older.group(1).replace("&amp;", "&") if older else ""
    assert (120, made) == (len(met), set(met))
    newer = re.search(r'href="([^"]+)" data-newer', text)
    assert newer is not None
    assert met[50:100] == _refs(viewer.get(newer.group(1).replace("&amp;", "&")).content.decode())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("namespace=acme-sales", True),
        ("namespace=nobody", False),
        ("event_kind=prospect.updated", True),
        ("event_kind=prospect.deleted", False),
        ("pack=outreach", True),
        ("pack=other", False),
        ("provider=outreach", True),
        ("provider=other", False),
        ("work_type=connector_event", True),
        ("work_type=workflow_action_apply", False),
        ("execution_class=per_event", True),
        ("execution_class=source_projection", False),
        ("org=00000000-0000-4000-8000-00000000ffff", False),
        ("owner=work_item", True),
        ("owner=event", False),
        ("attempts=5", True),
        ("attempts=6", False),
        ("replayed=no", True),
        ("replayed=yes", False),
        ("source_lane=lane-1", True),
        ("source_lane=lane-2", False),
        ("died_after=2020-01-01T00:00", True),
        ("died_before=2020-01-01T00:00", False),
    ],
)
def test_list__a_filter_narrows_it_and_shows_itself(
    query: str, found: bool, viewer: Client, installation: Installation
) -> None:
    ref = installation.work(SourceLane="lane-1")
    text = viewer.get(f"/dlq/?{query}").content.decode()
    assert found == (ref in _refs(text))
    assert 'aria-label="Active filters"' in text
    assert "1 active" in text


def test_list__finds_one_row_by_each_of_its_names(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    installation.work()
    shown = viewer.get(f"/dlq/{ref}/").content.decode()
    event_id = re.search(r"<dt>Event</dt><dd class=\"id\">([^<]+)", shown)
    assert event_id is not None
    for name in (ref, event_id.group(1), f"k-{event_id.group(1)}", ref[:30], event_id.group(1)[:30]):
        assert [ref] == _refs(viewer.get("/dlq/", {"id": name}).content.decode()), name
    assert [] == _refs(viewer.get("/dlq/", {"id": new_id()}).content.decode())


def test_list__a_filter_that_cannot_be_read_lists_nothing(viewer: Client, installation: Installation) -> None:
    installation.work()
    response = viewer.get("/dlq/?died_after=yesterday")
    assert 400 == response.status_code
    assert [] == _refs(response.content.decode())
    assert "The filter could not be read" in response.content.decode()


def test_list__says_among_how_many_rows_a_filter_was_counted(
    viewer: Client, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "NARROWED_WINDOW", 3)
    for number in range(4):
        installation.work(ended_ago=timedelta(minutes=number))
    assert "<b>4</b> rows match" in viewer.get("/dlq/").content.decode()
    assert "<b>3</b> of the 3 rows that died last match" in viewer.get("/dlq/?attempts=1").content.decode()


def test_list__draws_the_filter_anew_for_what_is_chosen(viewer: Client, installation: Installation) -> None:
    empty = viewer.get("/dlq/").content.decode()
    assert 'name="provider" maxlength="64"' in empty
    assert 'value="outreach"' in viewer.get("/dlq/?provider=outreach").content.decode()
    assert 'value="outreach"' not in viewer.get("/dlq/").content.decode()
    assert "errorlist" in viewer.get("/dlq/?attempts=many").content.decode()
    assert 'name="actor"' not in viewer.get("/dlq/").content.decode()


def test_list__says_that_nothing_is_dead_and_that_nothing_matches(viewer: Client, installation: Installation) -> None:
    assert "Nothing is dead" in viewer.get("/dlq/").content.decode()
    assert "Nothing dead matches" in viewer.get("/dlq/?namespace=other").content.decode()


def test_list__offers_a_replay_only_to_those_who_may(
    viewer: Client, replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    assert f"{ref}/replay" in replayer.get("/dlq/").content.decode()
    assert f"{ref}/replay" not in viewer.get("/dlq/").content.decode()


def test_detail__answers_the_question_with_every_rule(viewer: Client, installation: Installation) -> None:
    text = viewer.get(f"/dlq/{installation.work()}/").content.decode()
    assert "May it be replayed?" in text
    assert "You may view, not replay" in text
    assert 'aria-describedby="no-replay"' in text
    for words in ("Owned by its WorkItem", "Who owns it, and why", "Lineage", "Attempts", "Fences that bear on it"):
        assert words in text


def test_detail__says_yes_to_those_who_may(replayer: Client, installation: Installation) -> None:
    text = replayer.get(f"/dlq/{installation.work()}/").content.decode()
    assert "Yes. Every rule agrees." in text


def test_detail__a_refused_row_names_the_rule_and_the_next_step(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    installation.fence("*")
    text = replayer.get(f"/dlq/{ref}/").content.decode()
    assert "No. " in text
    assert "admission_fenced" in text
    assert "It was armed" in text
    assert "ends when somebody lifts it" in text
    assert "fence ids" not in text
    assert 'aria-disabled="true"' in text


def test_detail__ambiguous_ownership_is_a_409_that_shows_no_row(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    shown = viewer.get(f"/dlq/{ref}/").content.decode()
    event_id = re.search(r"<dt>Event</dt><dd class=\"id\">([^<]+)", shown)
    assert event_id is not None
    installation.work(EventId=event_id.group(1), WorkType="workflow_action_apply")
    response = viewer.get(f"/dlq/{ref}/")
    assert 409 == response.status_code
    assert "ambiguous_owner" in response.content.decode()
    assert installation.kind not in response.content.decode()


def test_detail__a_malformed_reference_is_a_400(viewer: Client) -> None:
    assert 400 == viewer.get("/dlq/not-an-id/").status_code


def test_download__is_the_same_row_as_json(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = viewer.get(f"/dlq/{ref}/json")
    body = json.loads(response.content)
    assert f'attachment; filename="{ref}.json"' == response["Content-Disposition"]
    assert ref == body["row"]["row"]["work_id"]
    assert "permission_denied" == body["plan"]["refusal"]["code"]
