"""A service of the published interface alone serves the REST handlers as it stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from integration.authority.events_admin import ConnectorEvents
from integration.authority.protocols import WorkItemDlqCapability
from integration.authority.values import Replayed
from tests.console.test_api import EVENTS, replay
from tests.support.authority import MARIA, World
from tests.support.legacy_service import CHILD_ID, EVENT_ID, LegacyService

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-18")]


@pytest.fixture
def calls(settings: object) -> Iterator[list[tuple[object, ...]]]:
    """Serve the handlers by the legacy service; return what it was called with."""
    settings.LOCKHOUSE_CONNECTOR_EVENTS_SERVICE = "tests.support.legacy_service.LegacyService"  # type: ignore[attr-defined]
    LegacyService.calls.clear()
    yield LegacyService.calls
    LegacyService.calls.clear()


def test_legacy_service__has_no_addition_and_the_one_of_this_installation_has() -> None:
    assert not isinstance(LegacyService(), WorkItemDlqCapability)
    assert isinstance(ConnectorEvents(), WorkItemDlqCapability)


def test_legacy_service__lists_and_shows_what_the_published_shape_has(
    viewer: Client, calls: list[tuple[object, ...]]
) -> None:
    page = viewer.get(f"{EVENTS}?namespace=acme-sales&replayed=false&limit=7")
    (item,) = page.json()["items"]
    detail = viewer.get(f"{EVENTS}/{EVENT_ID}")
    assert [
        ("list", "acme-sales", None, None, False, None, 7),
        ("get", EVENT_ID),
    ] == calls
    assert (EVENT_ID, "dead", 5, None) == (item["event_id"], item["status"], item["retry_count"], item["work_item"])
    assert "next" == page.json()["older"]
    assert item == {name: value for name, value in detail.json().items() if name != "context"}
    for response in (page, detail):
        assert "canary" not in response.content.decode()


def test_legacy_service__replays(replayer: Client, calls: list[tuple[object, ...]]) -> None:
    response = replay(replayer, EVENT_ID, "k-1")
    assert (201, CHILD_ID, None) == (
        response.status_code,
        response.json()["child_event_id"],
        response.json()["child_work_id"],
    )
    assert [("replay", EVENT_ID, "rolf", "Stage names are fixed", "k-1")] == calls


def test_legacy_service__is_not_asked_for_what_it_does_not_have(
    replayer: Client, calls: list[tuple[object, ...]]
) -> None:
    for response in (
        replayer.get(f"{EVENTS}?source_lane=x"),
        replayer.get(f"{EVENTS}/{EVENT_ID}/plan"),
        replay(replayer, EVENT_ID, route_version=1),
    ):
        assert (501, "not_supported") == (response.status_code, response.json()["code"])
    assert [] == calls


@pytest.mark.evidence("A-32")
def test_legacy_service__stands_behind_the_same_permissions(
    viewer: Client, auditor: Client, calls: list[tuple[object, ...]]
) -> None:
    assert 403 == auditor.get(EVENTS).status_code
    assert 403 == replay(viewer, EVENT_ID).status_code
    assert [] == calls


def test_service_of_this_installation__also_has_the_published_interface() -> None:
    world = World()
    event_id = world.event(Status="pending")
    ref = world.work(event_id=event_id)
    service = ConnectorEvents()
    page = service.list(namespace=None, event_kind=None, provider=None, replayed=False, cursor=None, limit=10)
    assert [event_id] == [event.event_id for event in page.events]
    assert page.events[0] == service.get(event_id)
    done = service.replay(event_id, actor=MARIA, reason="x", idempotency_key="k")
    again = service.replay(event_id, actor=MARIA, reason="x", idempotency_key="k")
    lost = service.replay_dead(ref, actor=MARIA, reason="x", route_version=None, idempotency_key="other")
    assert not isinstance(lost, Replayed)
    assert lost.code == "already_replayed"
    assert (False, True) == (done.is_repeat, again.is_repeat)  # type: ignore[union-attr]
    assert done.child_event_id == again.child_event_id  # type: ignore[union-attr]
