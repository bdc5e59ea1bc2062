"""What holds of every place: its shape, its markup, its methods, its cost, its headers."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.support.html import Markup
from tests.support.rows import Installation

PAGES = [
    "/",
    "/dlq/",
    "/dlq/views/new",
    "/dlq/{ref}/",
    "/dlq/{ref}/replay",
    "/dlq/{ref}/replayed",
    "/batches/",
    "/batches/new",
    "/dlq/groups/",
    "/lanes/",
    "/cutovers/",
    "/work/",
    "/work/{ref}/",
    "/work/{ref}/cancel",
    "/receipts/",
    "/zone/",
]
FRAGMENTS = ["/", "/dlq/", "/dlq/groups/", "/lanes/", "/cutovers/", "/batches/", "/work/", "/receipts/"]
#: Queries that a place may make, the session and the account included.
BOUNDS = {
    "/": 40,
    "/dlq/": 20,
    "/dlq/groups/": 10,
    "/dlq/{ref}/": 40,
    "/lanes/": 14,
    "/cutovers/": 10,
    "/work/": 14,
    "/work/{ref}/": 14,
    "/receipts/": 14,
}


@pytest.mark.parametrize("place", PAGES)
def test_pages__are_whole_and_well_made(place: str, replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = replayer.get(place.format(ref=ref))
    text = response.content.decode()
    assert (200, []) == (response.status_code, Markup(text).faults())
    assert text.lstrip().startswith("<!doctype html>")
    assert 1 == text.count("<h1>") == text.count("</main>")


@pytest.mark.parametrize("place", FRAGMENTS)
def test_pages__a_fragment_is_the_part_alone(place: str, viewer: Client, installation: Installation) -> None:
    installation.work()
    response = viewer.get(place, headers={"HX-Request": "true"})
    text = response.content.decode()
    assert (200, []) == (response.status_code, [fault for fault in Markup(text).faults() if "points" not in fault])
    assert "<html" not in text
    assert '<nav aria-label="Main"' not in text


@pytest.mark.parametrize("place", [*PAGES, "/audit/"])
@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_pages__refuse_other_methods(place: str, method: str, signed_in: Any, installation: Installation) -> None:
    client = signed_in("uma", "Replayer", "Auditor")
    client.handler.enforce_csrf_checks = False
    response = getattr(client, method)(place.format(ref=installation.work()))
    assert 405 == response.status_code
    assert "Allow" in response
    assert "Not in this way" in response.content.decode()


@pytest.mark.parametrize("place", [*PAGES, "/audit/", "/fences/", "/zone/", "/healthz"])
def test_pages__are_asked_for_their_head_as_for_themselves(
    place: str, signed_in: Any, installation: Installation
) -> None:
    client, path = signed_in("uma", "Replayer", "Auditor"), place.format(ref=installation.work())
    head, page = client.head(path), client.get(path)
    assert (page.status_code, page["Content-Type"], b"") == (head.status_code, head["Content-Type"], head.content)


@pytest.mark.parametrize(
    "place", [place for place in PAGES if not place.endswith(("replay", "new", "cancel", "zone/"))]
)
def test_pages__a_reading_page_refuses_to_be_posted_to(
    place: str, replayer: Client, installation: Installation
) -> None:
    replayer.handler.enforce_csrf_checks = False
    assert 405 == replayer.post(place.format(ref=installation.work())).status_code


@pytest.mark.parametrize("place", sorted(BOUNDS))
def test_pages__cost_the_same_however_many_rows(place: str, viewer: Client, installation: Installation) -> None:
    from django.db import connection

    ref = installation.work()
    with CaptureQueriesContext(connection) as one:
        viewer.get(place.format(ref=ref))
    for _ in range(30):
        installation.work()
    with CaptureQueriesContext(connection) as many:
        viewer.get(place.format(ref=ref))
    assert len(many) <= max(len(one), BOUNDS[place])
    assert len(many) - len(one) <= 1
    assert len(many) <= BOUNDS[place]
    assert [] == [query["sql"] for query in many if " OFFSET " in query["sql"].upper()]


@pytest.mark.parametrize("place", ["/dlq/", "/work/", "/receipts/"])
def test_pages__a_forged_cursor_is_a_400(place: str, viewer: Client) -> None:
    for cursor in ("x", ">", "<not-a-time~id", "~" * 400, "' OR 1=1 --"):
        response = viewer.get(place, {"cursor": cursor, "state": "received" if "rec" in place else "dead"})
        assert 400 == response.status_code, cursor


def test_pages__an_unknown_address_is_a_designed_404(viewer: Client) -> None:
    response = viewer.get("/no/such/place")
    assert 404 == response.status_code
    assert "Nothing here" in response.content.decode()


def test_pages__an_unknown_row_is_a_404_page_and_fragment(viewer: Client) -> None:
    for path in ("/dlq/00000000-0000-7000-8000-000000000000/", "/work/00000000-0000-7000-8000-000000000000/"):
        assert 404 == viewer.get(path).status_code
        fragment = viewer.get(path, headers={"HX-Request": "true"})
        assert 404 == fragment.status_code
        assert "<html" not in fragment.content.decode()


def test_pages__say_what_they_may_load(viewer: Client) -> None:
    response = viewer.get("/")
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert ("DENY", "nosniff", "same-origin") == (
        response["X-Frame-Options"],
        response["X-Content-Type-Options"],
        response["Referrer-Policy"],
    )


def test_pages__times_are_in_the_zone_that_the_url_names(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    text = viewer.get(f"/dlq/{ref}/", {"tz": "Asia/Kolkata"}).content.decode()
    assert "Times in Asia/Kolkata" in text
    assert "/dlq/?namespace=acme-sales&amp;tz=Asia/Kolkata" in text
    assert "Times in UTC" in viewer.get(f"/dlq/{ref}/", {"tz": "../../etc/passwd"}).content.decode()


HOSTILE = '<script>alert(1)</script>"onmouseover=x {{ 7|add:7 }} hx-get=/x'


def test_pages__what_a_provider_chose_is_text(viewer: Client, installation: Installation) -> None:
    ref = installation.work(SourceLane=HOSTILE)
    for place in ("/dlq/", f"/dlq/{ref}/", "/work/", f"/work/{ref}/"):
        text = viewer.get(place).content.decode()
        assert "<script>alert" not in text
        assert [] == Markup(text).faults()
        assert "{{ 7|add:7 }}" in "".join(Markup(text).text)
