"""API tokens through HTTP: how one is made, what it opens, and when it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client

from console.models import ApiToken, AuditEntry, User
from console.permissions import AUDIT, REPLAY, VIEW
from integration.callers import tokens
from integration.values import Actor
from tests.support.authority import rows_of
from tests.support.html import Markup
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = "/api/v1/connector-events"
PROBLEM = "application/problem+json"


def token_of(user: User, *scopes: str) -> str:
    held = frozenset(user.get_all_permissions())
    actor = Actor(user_id=user.pk, name=user.username, via="console", permissions=held)
    return tokens.issue(actor=actor, name="script", scopes=scopes or [VIEW, REPLAY], days=1).secret


def bearer(secret: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **headers}


@pytest.fixture
def rolf(person: Callable[..., User]) -> User:
    return person("rolf", "Replayer")


def replay(secret: str, ref: str, key: str = "k", client: Client | None = None) -> Any:
    client = client or Client(enforce_csrf_checks=True)
    headers = bearer(secret, **{"Idempotency-Key": key})
    body = {"reason": "Stage names are fixed"}
    return client.post(f"{EVENTS}/{ref}/replay", body, content_type="application/json", headers=headers)


def test_page__keeps_what_was_typed_when_a_name_cannot_be_shown(viewer: Client) -> None:
    viewer.handler.enforce_csrf_checks = False
    answer = viewer.post("/account/", {"name": "night\u202ewatch", "scopes": [VIEW], "days": "30"})
    text = answer.content.decode()
    assert 422 == answer.status_code
    assert 'class="errorlist"' in text
    assert 'value="30"' in text
    assert not ApiToken.objects.exists()


def test_token__reads_and_writes_without_a_session_or_a_form_token(rolf: User, installation: Installation) -> None:
    ref, secret = installation.work(), token_of(rolf)
    listed = Client().get(EVENTS, headers=bearer(secret))
    assert (200, 1) == (listed.status_code, len(listed.json()["items"]))
    done = replay(secret, ref)
    assert 201 == done.status_code
    assert not done.cookies
    (entry,) = AuditEntry.objects.filter(action="work_item.replayed")
    assert ("done", "rolf", "api") == (entry.outcome, entry.actor_name, entry.via)


def test_token__narrows_its_owners_rights(person: Callable[..., User], installation: Installation) -> None:
    ref = installation.work()
    root = User.objects.create_superuser("root")
    for user in (person("olga", "Admin"), root):
        secret = token_of(user, VIEW)
        assert 200 == Client().get(EVENTS, headers=bearer(secret)).status_code
        refused = replay(secret, ref)
        assert (403, "permission_denied") == (refused.status_code, refused.json()["code"])
    assert [] == rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref)


def test_token__gives_no_right_that_its_owner_lost(rolf: User, installation: Installation) -> None:
    ref, secret = installation.work(), token_of(rolf)
    rolf.groups.set(Group.objects.filter(name="Viewer"))
    assert 200 == Client().get(EVENTS, headers=bearer(secret)).status_code
    assert 403 == replay(secret, ref).status_code
    rolf.groups.clear()
    assert 403 == Client().get(EVENTS, headers=bearer(secret)).status_code
    User.objects.filter(pk=rolf.pk).update(is_active=False)
    assert 401 == Client().get(EVENTS, headers=bearer(secret)).status_code
    rolf.delete()
    assert 401 == Client().get(EVENTS, headers=bearer(secret)).status_code


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer lockhouse_x",
        "bearer {secret}",
        "Basic {secret}",
        "{secret}",
        "Bearer {secret}x",
        "é",
    ],
)
def test_token__one_that_is_not_good_is_refused_even_beside_a_session(header: str, rolf: User, viewer: Client) -> None:
    given = header.format(secret=token_of(rolf))
    response = viewer.get(EVENTS, HTTP_AUTHORIZATION=given)
    assert (401, PROBLEM, "token_invalid") == (
        response.status_code,
        response["Content-Type"],
        response.json()["code"],
    )
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_token__opens_no_page(rolf: User) -> None:
    secret = token_of(rolf)
    for place in ("/dlq/", "/account/", "/admin/", "/metrics"):
        assert Client(REMOTE_ADDR="192.0.2.1").get(place, headers=bearer(secret)).status_code in {302, 403}


def test_token__that_asks_too_often_is_told_when_to_come_again(rolf: User, settings: Any) -> None:
    settings.LOCKHOUSE_API_PER_MINUTE, settings.LOCKHOUSE_API_AT_ONCE = 6, 2
    secret = token_of(rolf)
    answers = [Client().get(EVENTS, headers=bearer(secret)) for _ in range(3)]
    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert (PROBLEM, "too_many_requests") == (answers[2]["Content-Type"], answers[2].json()["code"])
    assert 1 <= int(answers[2]["Retry-After"]) <= 10


def test_token__a_write_with_a_key_that_came_with_another_is_refused(rolf: User, installation: Installation) -> None:
    first, second, secret = installation.work(), installation.work(), token_of(rolf)
    assert 201 == replay(secret, first).status_code
    other = replay(secret, second)
    assert (422, PROBLEM, "idempotency_key_reused") == (
        other.status_code,
        other["Content-Type"],
        other.json()["code"],
    )
    assert [] == rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", second)
    assert 201 == replay(secret, second, "another key").status_code


def test_token__a_refused_write_lets_its_key_go(rolf: User, installation: Installation) -> None:
    secret = token_of(rolf)
    ended = installation.work("succeeded")
    assert [409, 409] == [replay(secret, ended).status_code for _ in range(2)]
    assert [] == rows_of("console_keptanswer")
    assert 201 == replay(secret, installation.work()).status_code


def form_token(client: Client) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get("/account/").content.decode())
    assert found is not None
    return found.group(1)


def test_account__makes_a_token_and_shows_its_secret_once(replayer: Client) -> None:
    form = {"csrfmiddlewaretoken": form_token(replayer), "name": "Nightly", "scopes": [VIEW], "days": "30"}
    response = replayer.post("/account/", form)
    text = response.content.decode()
    found = re.search(r"lockhouse_[\w-]{43}", text)
    assert (200, "no-store" in response["Cache-Control"]) == (response.status_code, True)
    assert found is not None
    assert [] == Markup(text).faults()
    assert 200 == Client().get(EVENTS, headers=bearer(found.group(0))).status_code
    assert "lockhouse_" not in replayer.get("/account/").content.decode()
    assert "Nightly" in replayer.get("/account/").content.decode()


def test_account__offers_and_takes_only_rights_that_are_held(replayer: Client) -> None:
    assert AUDIT not in replayer.get("/account/").content.decode()
    form = {"csrfmiddlewaretoken": form_token(replayer), "name": "x", "scopes": [VIEW, AUDIT], "days": "30"}
    response = replayer.post("/account/", form)
    assert 422 == response.status_code
    assert 'value="x"' in response.content.decode(), "what was typed is kept"
    assert 0 == ApiToken.objects.count()


@pytest.mark.parametrize("over", [{"name": ""}, {"scopes": []}, {"days": "0"}, {"days": "366"}, {"days": "x"}])
def test_account__says_what_is_not_valid(replayer: Client, over: dict[str, Any]) -> None:
    form = {"csrfmiddlewaretoken": form_token(replayer), "name": "x", "scopes": [VIEW], "days": "30", **over}
    text = replayer.post("/account/", form).content.decode()
    assert 'class="errorlist"' in text
    assert [] == Markup(text).faults()
    assert 0 == ApiToken.objects.count()


def test_account__revokes_ones_own_and_no_other(replayer: Client, person: Callable[..., User]) -> None:
    own, other = token_of(User.objects.get(username="rolf")), token_of(person("vera", "Viewer"), VIEW)
    sent = {"csrfmiddlewaretoken": form_token(replayer)}
    by_owner = {row.owner_id: row.id for row in ApiToken.objects.all()}
    mine = by_owner.pop(User.objects.get(username="rolf").pk)
    (theirs,) = by_owner.values()
    assert 404 == replayer.post(f"/account/tokens/{theirs}/revoke", sent).status_code
    assert 200 == Client().get(EVENTS, headers=bearer(other)).status_code
    assert 302 == replayer.post(f"/account/tokens/{mine}/revoke", sent).status_code
    assert 401 == Client().get(EVENTS, headers=bearer(own)).status_code


def test_command__makes_lists_and_revokes(rolf: User) -> None:
    def run(*arguments: str) -> str:
        out = StringIO()
        call_command("api_token", *arguments, "--as", "rolf", stdout=out)
        return out.getvalue().strip()

    secret = run("create", "--name", "nightly", "--scope", VIEW)
    assert 200 == Client().get(EVENTS, headers=bearer(secret)).status_code
    (listed,) = json.loads(run("list", "--json"))
    assert ("nightly", [VIEW], True) == (listed["name"], listed["scopes"], listed["is_live"])
    assert run("list").startswith(f"{listed['token_id']}  live ")
    assert run("revoke", listed["token_id"]).startswith("revoked ")
    assert 401 == Client().get(EVENTS, headers=bearer(secret)).status_code
    with pytest.raises(SystemExit) as ended:
        run("revoke", "00000000-0000-7000-8000-000000000000")
    assert 4 == ended.value.code
