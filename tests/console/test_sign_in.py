"""Signing in: the same words whatever was wrong, a limit, and an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from console import middleware, signals
from console.models import AuditEntry, User
from tests.console.conftest import PASSWORD

pytestmark = pytest.mark.django_db


def _try(client: Client, name: str, password: str, **more: str) -> object:
    return client.post("/sign-in/", {"username": name, "password": password, **more})


def test_sign_in__takes_a_person_to_the_page_that_was_asked_for(person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    response = _try(Client(), "vera", PASSWORD, next="/dlq/?namespace=x")
    assert (302, "/dlq/?namespace=x") == (response.status_code, response["Location"])  # type: ignore[attr-defined, index]


def test_sign_in__goes_nowhere_else(person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    assert "/" == _try(Client(), "vera", PASSWORD, next="https://elsewhere.example/")["Location"]  # type: ignore[index]


def test_sign_in__says_the_same_of_an_unknown_name_and_a_wrong_password(person: Callable[..., User]) -> None:
    person("vera", "Viewer")

    def words(name: str) -> str:
        text = _try(Client(), name, "wrong-password-1").content.decode()  # type: ignore[attr-defined]
        return text.split('role="alert"')[1].split("</div>")[0]

    assert words("vera") == words("nobody")


def test_sign_in__is_closed_after_too_many_attempts(person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    client = Client()
    statuses = [_try(client, "vera", "wrong-password-1").status_code for _ in range(6)]  # type: ignore[attr-defined]
    assert 429 == statuses[-1]
    closed = _try(client, "vera", PASSWORD)
    assert 429 == closed.status_code  # type: ignore[attr-defined]
    assert "Too many attempts" in closed.content.decode()  # type: ignore[attr-defined]


def test_sign_in__needs_its_token() -> None:
    assert 403 == _try(Client(enforce_csrf_checks=True), "vera", PASSWORD).status_code  # type: ignore[attr-defined]


def test_sign_in__starts_a_new_session(person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    client = Client()
    client.get("/sign-in/")
    session = client.session
    session["planted"] = "x"
    session.save()
    before = session.session_key
    _try(client, "vera", PASSWORD)
    assert before != client.session.session_key


def test_sign_out__needs_a_post_with_its_token(viewer: Client) -> None:
    assert 405 == viewer.get("/sign-out/").status_code
    assert 403 == viewer.post("/sign-out/").status_code
    assert 200 == viewer.get("/").status_code


@pytest.mark.parametrize(
    ("key", "age"),
    [("started_at", middleware.SESSION_ABSOLUTE_SECONDS + 5), ("seen_at", middleware.SESSION_IDLE_SECONDS + 5)],
)
def test_session__ends_by_age_and_by_idleness(viewer: Client, key: str, age: int) -> None:
    assert 200 == viewer.get("/").status_code
    session = viewer.session
    session[key] = int(time.time()) - age
    session.save()
    assert 302 == viewer.get("/").status_code


def test_session__a_page_that_refreshes_itself_keeps_nobody_signed_in(viewer: Client) -> None:
    viewer.get("/")
    session = viewer.session
    session["seen_at"] = then = int(time.time()) - 600
    session.save()
    viewer.get("/", headers={"HX-Request": "true"})
    assert then == viewer.session["seen_at"]
    viewer.get("/")
    assert then < viewer.session["seen_at"]


def test_sign_in__forgets_sessions_that_ran_out_and_no_other(
    person: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    person("vera", "Viewer")
    now = timezone.now()
    for age in (3, 2, 1):
        Session.objects.create(session_key=f"ended-{age}", expire_date=now - timedelta(days=age))
    Session.objects.create(session_key="goes-on", expire_date=now + timedelta(days=1))
    monkeypatch.setattr(signals, "_FORGOTTEN_AT_ONCE", 2)

    _try(Client(), "vera", PASSWORD)
    assert {"ended-1", "goes-on"} <= set(kept := Session.objects.values_list("pk", flat=True))
    assert 3 == len(kept), "and the new one"
    _try(Client(), "vera", PASSWORD)
    assert not Session.objects.filter(pk__startswith="ended-").exists()


@pytest.mark.django_db(transaction=True)
def test_sign_in__is_told_in_the_trail(person: Callable[..., User]) -> None:
    user = person("vera", "Viewer")
    _try(Client(), "vera", "wrong-password-1")
    _try(Client(), "vera", PASSWORD)
    told = [
        (entry.action, entry.outcome, entry.actor_name, entry.ref_id)
        for entry in AuditEntry.objects.filter(action="user.signed_in").order_by("at")
    ]
    assert [("user.signed_in", "refused", "unknown", ""), ("user.signed_in", "done", "vera", str(user.pk))] == told
