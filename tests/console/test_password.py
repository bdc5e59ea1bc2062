"""One's own password: changed by who knows it, never tried out, and every other session ends with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry, User
from tests.console.conftest import PASSWORD
from tests.support.authority import rows_of
from tests.support.html import Markup

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "a-better-keeper-decides-7"


@pytest.fixture
def vera(person: Callable[..., User]) -> User:
    return person("vera", "Viewer")


def session_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    client.get("/")
    return client


def change(client: Client, old: str = PASSWORD, new: str = NEW, again: str | None = None, **more: str) -> Any:
    again = new if again is None else again
    return client.post("/account/password", {"old_password": old, "new_password1": new, "new_password2": again, **more})


def test_page__is_led_to_and_is_whole(vera: User) -> None:
    client = session_of(vera)
    assert 'href="/account/password"' in client.get("/account/").content.decode()
    page = client.get("/account/password").content.decode()
    assert [] == Markup(page).faults()
    assert "at least 12 characters" in page
    assert "no-store" in client.get("/account/password")["Cache-Control"]


def test_change__ends_every_other_session_and_gives_this_one_a_new_key(vera: User) -> None:
    here, elsewhere = session_of(vera), session_of(vera)
    before = here.session.session_key
    done = change(here)
    assert (302, "/account/") == (done.status_code, done["Location"])
    assert before != here.session.session_key
    page = here.get("/account/")
    assert (200, True) == (page.status_code, "Every other session" in page.content.decode())
    assert 302 == elsewhere.get("/").status_code
    signed_in = [Client().post("/sign-in/", {"username": "vera", "password": text}) for text in (NEW, PASSWORD)]
    assert [302, 200] == [answer.status_code for answer in signed_in]


def test_change__is_told_in_the_trail_without_a_word_of_it(vera: User) -> None:
    client = session_of(vera)
    change(client, old="not-the-password-1")
    change(client)
    told = [
        (entry.outcome, entry.actor_name, entry.ref_id, json.dumps(json.loads(entry.facts)))
        for entry in AuditEntry.objects.filter(action__in=["user.changed", "user.signed_in"], actor_name="vera")
        if entry.action == "user.changed" or entry.outcome == "refused"
    ]
    changed = {"changed": {"sign_in_secret": {"changed": True}}}
    mine = ("vera", str(vera.pk))
    assert {("refused", *mine, "{}"), ("done", *mine, json.dumps(changed))} == set(told)


def test_change__what_was_typed_is_stored_nowhere(vera: User) -> None:
    change(session_of(vera), old="canary-old-password-1", new="canary-new-password-1")
    stored = str(rows_of("axes_accessattempt"))
    assert "vera" in stored
    assert "canary" not in stored


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"old": "not-the-password-1"}, "entered incorrectly"),
        ({"old": ""}, "Type a password here."),
        ({"again": NEW + "x"}, "match"),
        ({"new": "short-1"}, "at least 12 characters"),
        ({"new": "123456789012345"}, "entirely numeric"),
        ({"new": "password1234"}, "too common"),
        ({"new": "x" * 257}, "256 characters at the most"),
    ],
    ids=["wrong", "empty", "typed otherwise", "short", "digits", "common", "longer than the sign-in page takes"],
)
def test_change__is_refused_and_keeps_no_secret_on_the_page(vera: User, sent: dict[str, str], words: str) -> None:
    client = session_of(vera)
    elsewhere = session_of(vera)
    response = change(client, **sent)
    page = response.content.decode()
    assert (422, True) == (response.status_code, words in page)
    assert [] == Markup(page).faults()
    for secret in (PASSWORD, NEW, *(text for text in sent.values() if text)):
        assert secret not in page
    vera.refresh_from_db()
    assert vera.check_password(PASSWORD)
    assert [200, 200] == [known.get("/").status_code for known in (client, elsewhere)]


def test_change__of_a_found_session_cannot_try_passwords_out(vera: User) -> None:
    client = session_of(vera)
    assert 422 == change(client, new="short-1").status_code, "what is wrong with a new one is no attempt"
    statuses = [change(client, old=f"not-the-password-{turn}").status_code for turn in range(6)]
    assert [422] * 4 + [429] * 2 == statuses
    assert 429 == change(client).status_code
    vera.refresh_from_db()
    assert vera.check_password(PASSWORD)


def test_change__needs_its_token_and_an_account(viewer: Client) -> None:
    assert 403 == change(viewer).status_code
    assert 302 == change(Client()).status_code
    found = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', viewer.get("/account/password").content.decode())
    assert found is not None
    assert "/account/" == change(viewer, csrfmiddlewaretoken=found.group(1))["Location"]


def test_account__without_a_password_is_told_so(person: Callable[..., User]) -> None:
    user = person("olaf", "Viewer")
    user.set_unusable_password()
    user.save()
    client = session_of(user)
    page = client.get("/account/password").content.decode()
    assert ("Your account has no password" in page, "<form class" in page) == (True, False)
    assert "through your organization" in client.get("/account/").content.decode()
    refused = change(client)
    assert (409, True) == (refused.status_code, "Your account has no password" in refused.content.decode())
    user.refresh_from_db()
    assert not user.has_usable_password()
