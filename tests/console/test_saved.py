"""Saved views: named, private or shared, opened, deleted by their owner; and nothing but a checked filter in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console import saved
from console.models import SavedView, User
from tests.support.html import Markup
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db


def keep(client: Client, query: str = "", **values: Any) -> Any:
    """Open the page that asks for a name, and send its form."""
    text = client.get(f"/dlq/views/new{query}").content.decode()
    assert [] == Markup(text).faults()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text)
    assert token is not None
    return client.post(f"/dlq/views/new{query}", {"csrfmiddlewaretoken": token.group(1), **values})


def shown(client: Client, query: str = "") -> list[str]:
    """Return the names of the views that the list offers."""
    return re.findall(
        r'<li class="view"><a href="[^"]+">([^<]+)</a>', client.get(f"/dlq/views/{query}").content.decode()
    )


def test_view__is_saved_from_the_list_opened_and_deleted(viewer: Client, installation: Installation) -> None:
    installation.work()
    listed = viewer.get("/dlq/?namespace=acme-sales&replayed=no&cursor=&sort=oldest").content.decode()
    assert "/dlq/views/?namespace=acme-sales&amp;replayed=no&amp;sort=oldest" in listed
    text = viewer.get("/dlq/views/?namespace=acme-sales&replayed=no&sort=oldest").content.decode()
    assert [] == Markup(text).faults()
    assert "/dlq/views/new?namespace=acme-sales&amp;replayed=no&amp;sort=oldest" in text
    response = keep(viewer, "?namespace=acme-sales&replayed=no&sort=oldest&junk=1&cursor=x", name="Sales, left over")
    assert (302, "/dlq/?namespace=acme-sales&replayed=no&sort=oldest") == (response.status_code, response["Location"])
    page = viewer.get(response["Location"]).content.decode()
    assert [] == Markup(page).faults()
    assert "Saved as Sales, left over." in page
    assert ["Sales, left over"] == shown(viewer)
    (view,) = SavedView.objects.all()
    viewer.handler.enforce_csrf_checks = False
    assert 302 == viewer.post(f"/dlq/views/{view.id}/delete").status_code
    assert [] == shown(viewer)


def test_view__is_seen_by_others_when_it_is_shared_and_deleted_by_none_of_them(
    signed_in: Callable[..., Client], installation: Installation
) -> None:
    vera, rolf = signed_in("vera", "Viewer"), signed_in("rolf", "Replayer")
    keep(vera, "?namespace=acme-sales", name="mine")
    keep(vera, "?namespace=acme-sales", name="ours", is_shared="on")
    assert (["mine", "ours"], ["ours"]) == (shown(vera), shown(rolf))
    text = rolf.get("/dlq/views/").content.decode()
    assert "by vera" in text
    assert "Delete view" not in text
    rolf.handler.enforce_csrf_checks = False
    for view in SavedView.objects.all():
        assert 404 == rolf.post(f"/dlq/views/{view.id}/delete").status_code
    assert 2 == SavedView.objects.count()
    assert 404 == rolf.post("/dlq/views/nonsense/delete").status_code


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "needs a name"),
        ("   ", "needs a name"),
        ("x" * 61, "60"),
        ("two\u2028lines", "control character"),
        ("taken", "a view of this name"),
    ],
)
def test_name__that_is_not_valid_is_refused_and_stays_in_the_form(viewer: Client, name: str, said: str) -> None:
    keep(viewer, name="taken")
    response = keep(viewer, "?namespace=acme-sales", name=name)
    text = response.content.decode()
    assert (422, []) == (response.status_code, Markup(text).faults())
    assert said in text
    assert name.strip() in text
    assert 1 == SavedView.objects.count()


def test_view__holds_only_what_the_filter_checked(viewer: Client) -> None:
    assert 400 == viewer.get("/dlq/views/new?died_after=nonsense").status_code
    keep(viewer, "?namespace=%20acme-sales%20&owner=&nonsense=%3Cscript%3E&ref=x&seen_at=y&ticked=1", name="a")
    assert "namespace=acme-sales" == SavedView.objects.get().query


def test_view__keeps_the_zone_in_which_its_times_were_read(viewer: Client, installation: Installation) -> None:
    keep(viewer, "?died_after=2026-01-31T12:00&tz=Europe/Berlin", name="with times")
    keep(viewer, "?namespace=acme-sales&tz=Europe/Berlin", name="without")
    queries = {view.name: view.query for view in SavedView.objects.all()}
    assert "died_after=2026-01-31T12%3A00&tz=Europe%2FBerlin" == queries["with times"]
    assert "namespace=acme-sales" == queries["without"]
    text = viewer.get("/dlq/views/?tz=Asia/Tokyo").content.decode()
    assert 'href="/dlq/?died_after=2026-01-31T12%3A00&amp;tz=Europe%2FBerlin">with times' in text
    assert 'href="/dlq/?namespace=acme-sales&amp;tz=Asia%2FTokyo">without' in text


def test_views__are_bounded_for_each_account(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MOST_OF_ONE", 2)
    for name in ("a", "b"):
        assert 302 == keep(viewer, name=name).status_code
    assert 422 == keep(viewer, name="c").status_code


def test_views__go_with_their_account(viewer: Client) -> None:
    keep(viewer, name="a", is_shared="on")
    User.objects.get(username="vera").delete()
    assert 0 == SavedView.objects.count()
