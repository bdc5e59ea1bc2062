"""Failure groups: what they have in common, how far back was looked, and the way from each into list and bulk."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from integration.authority import groups
from integration.authority.groups import list_groups, window_of
from integration.storage.sql import dead_groups
from tests.support.authority import World
from tests.support.rows import CANARIES, Installation

# Committed, as in service: TiDB joins a window of an index with uncommitted rows for ever.
pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(hours=24)


def _groups(length: timedelta = DAY, namespace: str | None = None) -> groups.Groups:
    return list_groups(window_of(datetime.now(UTC), length, namespace))


def test_groups__are_by_namespace_pack_kind_and_work_type(db: None) -> None:
    first = Installation()
    second = Installation(namespace="beta", kind="account.merged")
    for minutes in (5, 50, 170):
        first.work(ended_ago=timedelta(minutes=minutes))
    first.work(ReplayedAt=first.now)
    first.work(WorkType="workflow_action_apply")
    second.work(ended_ago=timedelta(minutes=5))
    second.work(ended_ago=timedelta(days=3))
    second.work("succeeded")
    found = _groups()
    assert [(one.namespace, one.event_kind, one.work_type, one.waiting, one.found) for one in found.rows] == [
        ("acme-sales", "prospect.updated", "connector_event", 3, 4),
        ("acme-sales", "prospect.updated", "workflow_action_apply", 1, 1),
        ("beta", "account.merged", "connector_event", 1, 1),
    ]
    assert (found.found, found.back_to) == (6, None)
    largest = found.rows[0]
    assert (sum(largest.course), len(largest.course), largest.course[-1] > 0) == (4, groups.SLOTS, True)
    assert largest.last_at - largest.first_at >= timedelta(minutes=164)
    assert [one.namespace for one in _groups(namespace="beta").rows] == ["beta"]
    assert [one.found for one in _groups(timedelta(days=7), "beta").rows] == [2]


def test_groups__hold_the_event_executors_dead_too_and_each_event_once(db: None) -> None:
    world = World()
    world.legacy()
    world.work()
    world.work(event={"Status": "dead", "TerminalAt": world.now})
    (group,) = _groups().rows
    assert (group.found, group.waiting) == (3, 3)


def test_groups__put_the_incarnations_of_a_pack_together(db: None) -> None:
    world = World()
    world.work()
    older = "01900000-0000-7000-8000-00000000cafe"
    world.pack(older, status="retired", incarnation=9)
    world.work(PackInstallId=older)
    assert [(group.pack, group.found) for group in _groups().rows] == [("outreach", 2)]


def test_groups__of_more_than_is_looked_at_say_how_far_back_they_reach(
    monkeypatch: pytest.MonkeyPatch, viewer: Client, installation: Installation
) -> None:
    monkeypatch.setattr(groups, "WINDOW", 3)
    for minutes in range(1, 7):
        installation.work(ended_ago=timedelta(minutes=minutes * 10))
    found = _groups()
    assert found.found == 3
    assert found.back_to is not None
    assert abs(found.back_to - (installation.now - timedelta(minutes=30))) < timedelta(seconds=1)
    text = viewer.get("/dlq/groups/").content.decode()
    assert "More died in this window than is looked at" in text
    assert "<b>3</b>+" in text


def test_groups__of_a_minute_in_which_more_died_than_is_looked_at_lead_to_them(
    monkeypatch: pytest.MonkeyPatch, replayer: Client, installation: Installation
) -> None:
    monkeypatch.setattr(groups, "WINDOW", 3)
    made = {installation.work(ended_ago=timedelta(milliseconds=200 * number)) for number in range(6)}
    text = replayer.get("/dlq/groups/").content.decode()
    (drill,) = re.findall(r'data-row href="(/dlq/\?[^"]+)"', text)
    listed = replayer.get(html.unescape(drill)).content.decode()
    shown = {ref.split(":")[-1] for ref in re.findall(r'data-row href="/dlq/([^/"]+)/', listed)}
    assert len(shown) >= 3
    assert shown <= made


def test_groups__lead_to_the_list_of_the_same_rows_and_into_bulk(replayer: Client, installation: Installation) -> None:
    made = {installation.work(ended_ago=timedelta(minutes=n * 7)) for n in range(1, 5)}
    installation.work(ended_ago=timedelta(days=2))
    installation.work(ReplayedAt=installation.now)
    text = replayer.get("/dlq/groups/", {"tz": "Asia/Kolkata"}).content.decode()
    (drill,) = re.findall(r'data-row href="(/dlq/\?[^"]+)"', text)
    listed = replayer.get(html.unescape(drill)).content.decode()
    assert made == {ref.split(":")[-1] for ref in re.findall(r'data-row href="/dlq/([^/"]+)/', listed)}
    assert "Times in Asia/Kolkata" in listed
    (bulk,) = re.findall(r'href="(/batches/new\?[^"]+)"', text)
    assert "Replay 4 rows" in replayer.get(html.unescape(bulk)).content.decode()


def test_groups__page_shows_nothing_of_how_they_failed(viewer: Client, installation: Installation) -> None:
    installation.work()
    text = viewer.get("/dlq/groups/").content.decode()
    assert [canary for canary in CANARIES.values() if canary in text] == []
    assert 'role="img" aria-label="Most at once: 1' in text
    assert re.search(r"<button[^>]+disabled[^>]*>Replay…", text)


def test_groups__of_nothing_and_of_junk_are_pages(viewer: Client, installation: Installation) -> None:
    assert "Nothing died in this window" in viewer.get("/dlq/groups/").content.decode()
    for junk in ({"hours": "many"}, {"hours": "99999"}, {"hours": "-1"}, {"namespace": "é" * 300}, {"hours": "6"}):
        assert 200 == viewer.get("/dlq/groups/", junk).status_code
    fragment = viewer.get("/dlq/groups/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment


@pytest.mark.parametrize(
    "name",
    ["GROUP_DEAD_WORK", "GROUP_DEAD_WORK_IN_NAMESPACE", "GROUP_DEAD_EVENTS", "GROUP_DEAD_EVENTS_IN_NAMESPACE"],
)
def test_groups__statements_read_a_range_of_a_dead_index(name: str, engine: str, installation: Installation) -> None:
    from integration.storage.db import _adapt
    from tests.db.work.test_plans import explain

    for number in range(30):
        installation.work(ended_ago=timedelta(minutes=number))
    filters = window_of(datetime.now(UTC), DAY, "acme-sales")
    params = {"start": filters.start, "end": filters.end, "slot_seconds": 60, "window": 5000, "namespace": "acme-sales"}
    plan = explain(getattr(dead_groups, name), _adapt(params))
    if engine == "mariadb":
        (read,) = [step for step in plan if step["table"] == "k"]
        assert read["type"] == "range"
        assert read["key"].startswith(("IX_WorkItem_Dead", "IX_Event_Dead"))
        assert "filesort" not in (read["Extra"] or "")
    else:
        ids = [str(step["id"]) for step in plan]
        assert [one for one in ids if "FullScan" in one or "Sort" in one or "TopN" in one] == []
