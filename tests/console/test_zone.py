"""In which zone times are shown, and how it is chosen."""

from __future__ import annotations

import pytest
from django.test import Client

from console import zones
from tests.support.rows import Installation


def _choose(client: Client, zone: str, back: str = "/dlq/") -> object:
    client.handler.enforce_csrf_checks = False
    return client.post("/zone/", {"tz": zone, "next": back})


@pytest.mark.parametrize("typed", ["Europe/Berlin", " europe/berlin "])
def test_zone__is_kept_and_shown_on_every_page(typed: str, viewer: Client, installation: Installation) -> None:
    answer = _choose(viewer, typed)
    assert (302, "/dlq/?tz=Europe/Berlin") == (answer.status_code, answer["Location"])
    for page in ("/", "/dlq/", "/work/"):
        assert 1 == viewer.get(page).content.decode().count("Times in Europe/Berlin")
    cookie = viewer.cookies[zones.COOKIE]
    assert (True, "Lax") == (cookie["httponly"], cookie["samesite"])


def test_zone__of_the_address_comes_before_the_chosen_one(viewer: Client, installation: Installation) -> None:
    _choose(viewer, "Europe/Berlin")
    text = viewer.get("/work/", {"tz": "UTC"}).content.decode()
    assert "Times in UTC" in text
    assert 'href="/dlq/?tz=UTC"' in text
    assert "Times in Asia/Kolkata" in viewer.get("/work/", {"tz": "Asia/Kolkata"}).content.decode()


@pytest.mark.parametrize("typed", ["Europe/Bärlin", "../../etc/passwd", "", "x" * 70, "CET\x00"])
def test_zone__that_is_none_is_refused_and_kept_as_typed(typed: str, viewer: Client) -> None:
    answer = _choose(viewer, typed)
    assert 422 == answer.status_code
    assert 'aria-invalid="true"' in answer.content.decode()
    assert zones.COOKIE not in viewer.cookies
    if typed.isprintable() and typed:
        assert f'value="{typed}"' in answer.content.decode()


@pytest.mark.parametrize("back", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)", ""])
def test_zone__leads_back_into_the_console_alone(back: str, viewer: Client) -> None:
    assert "/?tz=UTC" == _choose(viewer, "UTC", back)["Location"]


def test_zone__a_forged_cookie_is_no_zone(viewer: Client, installation: Installation) -> None:
    viewer.cookies[zones.COOKIE] = "../../etc/passwd"
    assert "Times in UTC" in viewer.get("/work/").content.decode()


def test_zone__a_list_is_narrowed_to_the_same_moments_after_it_was_changed() -> None:
    address = "/dlq/?died_after=2026-07-01T12:00&died_before=nonsense&namespace=a"
    assert "/dlq/?died_after=2026-07-01T17%3A30&died_before=nonsense&namespace=a&tz=Asia/Kolkata" == zones.moved(
        address, old="UTC", new="Asia/Kolkata"
    )
    never = "/dlq/?died_after=0001-01-01T00:00"
    assert "died_after=0001-01-01T00%3A00" in zones.moved(never, old="Asia/Kolkata", new="UTC")


def test_zone__hours_of_the_chart_begin_by_its_clock(viewer: Client, installation: Installation) -> None:
    for zone, minute in (("UTC", 0), ("Asia/Kolkata", 30)):
        text = viewer.get("/", {"tz": zone}).content.decode()
        starts = {int(part[14:16]) for part in text.split('<tr><td><time datetime="')[1:]}
        assert {minute} == starts
