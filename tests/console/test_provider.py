"""Signing in through a provider: whoever it proves and an account is linked to, and nobody else whatever is sent."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from console import factors, identities
from console.backends import PROVIDER_BACKEND
from console.models import AuditEntry, User
from console.oidc_settings import OidcSettings
from console.sign_in_models import ProviderIdentity
from console.views.provider import KEPT_KEY
from integration.values import SYSTEM_ACTOR, new_id
from tests.console.test_second_factor import actor_of, code_of, send
from tests.support.html import Markup
from tests.support.processes import race
from tests.support.provider import CLIENT_ID, CLIENT_SECRET, MAIL, SUBJECT, Key, Provider, shared, unsigned

pytestmark = pytest.mark.django_db(transaction=True)

GO, BACK = "/sign-in/provider", "/sign-in/provider/back"


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    """A provider that the console is set to."""
    started = Provider()
    use(settings, started)
    yield started
    started.stop()


def use(settings: Any, provider: Provider, **changes: Any) -> None:
    given = {"issuer": provider.issuer, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    settings.LOCKHOUSE_OIDC = OidcSettings(**{**given, "name": "Acme", "creates": False, **changes})
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, PROVIDER_BACKEND]


@pytest.fixture
def vera(person: Callable[..., User], provider: Provider) -> User:
    """An account that is linked to the subject."""
    user = person("vera", "Viewer")
    identities.link(user, provider.issuer, SUBJECT, actor=SYSTEM_ACTOR)
    return user


def leave(client: Client, onwards: str = "") -> str:
    """Go to the provider and return where it sends the browser back to."""
    gone = client.get(GO, {"next": onwards} if onwards else {})
    assert 302 == gone.status_code, gone.content
    answer = httpx.get(gone["Location"])
    assert 302 == answer.status_code
    return answer.headers["Location"].removeprefix("http://testserver")


def told() -> list[tuple[str, str, dict[str, Any]]]:
    entries = AuditEntry.objects.filter(action="user.signed_in").order_by("at", "seq")
    return [(entry.outcome, entry.ref_id, json.loads(entry.facts)) for entry in entries]


def assert_refused(client: Client, answer: Any, **facts: str) -> None:
    page = answer.content.decode()
    assert (403, True) == (answer.status_code, "led to no open account here" in page)
    assert [] == Markup(page).faults()
    assert 302 == client.get("/dlq/").status_code
    assert ("refused", facts.pop("ref", ""), {"by": "provider", **facts}) == told()[-1]


def test_provider__signs_in_and_goes_on_to_the_page_that_was_asked_for(vera: User) -> None:
    client = Client()
    client.get("/sign-in/")
    back = leave(client, "/dlq/?namespace=x")
    before = client.session.session_key
    done = client.get(back)
    assert (302, "/dlq/?namespace=x") == (done.status_code, done["Location"])
    assert before != client.session.session_key
    assert 200 == client.get("/dlq/").status_code
    assert [("done", str(vera.pk), {"by": "provider"})] == told()
    client.post("/sign-out/")
    assert 302 == client.get("/dlq/").status_code


def test_provider__is_asked_with_a_state_a_nonce_and_a_challenge_of_this_sign_in_alone(provider: Provider) -> None:
    asked = []
    for client in (Client(), Client()):
        address = urlsplit(client.get(GO)["Location"])
        asked.append({name: values[0] for name, values in parse_qs(address.query).items()})
    assert {"S256"} == {each["code_challenge_method"] for each in asked}
    assert "http://testserver" + BACK == asked[0]["redirect_uri"]
    assert ("openid", "code") == (asked[0]["scope"], asked[0]["response_type"])
    for name in ("state", "nonce", "code_challenge"):
        assert len({each[name] for each in asked}) == 2
        assert min(len(each[name]) for each in asked) >= 20


def test_provider__is_offered_only_where_it_is_set(provider: Provider, settings: Any) -> None:
    page = Client().get("/sign-in/?next=/dlq/").content.decode()
    assert (f'href="{GO}?next=/dlq/"' in page or f'href="{GO}?next=%2Fdlq%2F"' in page, "Acme" in page) == (True, True)
    settings.LOCKHOUSE_OIDC = None
    assert "Sign in with" not in Client().get("/sign-in/").content.decode()
    assert [404, 404] == [Client().get(path).status_code for path in (GO, BACK)]


def test_provider__its_sessions_end_when_it_is_switched_off(vera: User, settings: Any) -> None:
    client = Client()
    client.get(leave(client))
    assert 200 == client.get("/dlq/").status_code
    settings.AUTHENTICATION_BACKENDS = settings.AUTHENTICATION_BACKENDS[:-1]
    assert 302 == client.get("/dlq/").status_code


def test_provider__leads_to_no_other_site(vera: User) -> None:
    for elsewhere in (
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/\\elsewhere.example",
        "javascript:alert(1)",
    ):
        client = Client()
        assert "/" == client.get(leave(client, elsewhere))["Location"]
        assert "/" == client.get(f"{GO}?next={quote(elsewhere)}")["Location"], "signed in already"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nonce": "another-nonce"}, "InvalidClaimError"),
        ({"nonce": None}, "MissingClaimError"),
        ({"aud": "another-client"}, "InvalidClaimError"),
        ({"aud": "another-client", "azp": CLIENT_ID}, "InvalidClaimError"),
        ({"aud": [CLIENT_ID, "another-client"]}, "MissingClaimError"),
        ({"aud": [CLIENT_ID, "another-client"], "azp": "another-client"}, "InvalidClaimError"),
        ({"aud": None}, "MissingClaimError"),
        ({"iss": "https://elsewhere.example"}, "InvalidClaimError"),
        ({"exp": 1_600_000_000}, "ExpiredTokenError"),
        ({"exp": None}, "MissingClaimError"),
        ({"iat": 4_000_000_000}, "InvalidClaimError"),
        ({"sub": ""}, "InvalidClaimError"),
        ({"sub": 7}, "InvalidClaimError"),
        ({"sub": None}, "MissingClaimError"),
        ({"sub": "x" * 256}, "no_subject"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_token__with_a_claim_that_does_not_hold_is_refused(
    vera: User, provider: Provider, changes: dict[str, Any], why: str
) -> None:
    provider.changes = changes
    client = Client()
    assert_refused(client, client.get(leave(client)), code="not_proved", why=why)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (unsigned, "UnsupportedAlgorithmError"),
        (shared, "UnsupportedAlgorithmError"),
        (lambda claims: Key("k1").sign(claims), "BadSignatureError"),
        (lambda claims: Key("k2").sign(claims), "InvalidKeyIdError"),
        (lambda claims: "nonsense", "DecodeError"),
        (lambda claims: "", "DecodeError"),
    ],
    ids=["alg none", "shared secret", "another key", "a key that is not published", "no token", "empty"],
)
def test_token__with_a_signature_that_does_not_hold_is_refused(
    vera: User, provider: Provider, write: Callable[[dict[str, Any]], str], why: str
) -> None:
    provider.write = write
    client = Client()
    assert_refused(client, client.get(leave(client)), code="not_proved", why=why)


def test_token__of_a_new_key_is_believed_once_the_provider_publishes_it(vera: User, provider: Provider) -> None:
    first, second = Client(), Client()
    assert 302 == first.get(leave(first)).status_code
    provider.key = Key("k2")
    provider.published = [provider.key]
    assert 302 == second.get(leave(second)).status_code
    assert 200 == second.get("/dlq/").status_code


def test_state__of_another_browser_or_changed_is_refused(vera: User) -> None:
    victim, attacker = Client(), Client()
    stolen = leave(attacker)
    leave(victim)
    assert_refused(victim, victim.get(stolen), code="not_proved", why="state")


def test_state__is_good_once_and_for_ten_minutes(vera: User) -> None:
    client = Client()
    back = leave(client)
    session = client.session
    session[KEPT_KEY] = {**session[KEPT_KEY], "at": session[KEPT_KEY]["at"] - 601}
    session.save()
    assert_refused(client, client.get(back), code="not_begun")
    assert 403 == client.get(back).status_code


def test_code__that_was_used_already_is_refused(vera: User) -> None:
    client, other = Client(), Client()
    back = leave(client)
    kept = client.session[KEPT_KEY]
    assert 302 == client.get(back).status_code
    leave(other)
    session = other.session
    # As somebody would have it who read all of the first browser.
    session[KEPT_KEY] = kept
    session.save()
    assert_refused(other, other.get(back), code="not_proved", why="invalid_grant")


def test_code__without_the_verifier_of_its_browser_is_refused(vera: User) -> None:
    client = Client()
    back = leave(client)
    session = client.session
    session[KEPT_KEY] = {**session[KEPT_KEY], "code_verifier": "x" * 48}
    session.save()
    assert_refused(client, client.get(back), code="not_proved", why="invalid_grant")


@pytest.mark.parametrize(("error", "why"), [("access_denied", "access_denied"), ("canary-error", "refused")])
def test_answer__that_says_no_is_refused_without_its_own_words(vera: User, error: str, why: str) -> None:
    client = Client()
    state = parse_qs(urlsplit(client.get(GO)["Location"]).query)["state"][0]
    answer = client.get(BACK, {"error": error, "error_description": "canary-words", "state": state})
    assert_refused(client, answer, code="not_proved", why=why)
    assert "canary" not in answer.content.decode()


def test_back__without_a_beginning_is_refused(provider: Provider) -> None:
    client = Client()
    assert_refused(client, client.get(BACK, {"code": "x", "state": ""}), code="not_begun")
    assert 405 == client.post(BACK).status_code


@pytest.mark.parametrize("name", ["unknown", "closed"])
def test_account__that_is_not_there_or_closed_gets_the_same_words(vera: User, provider: Provider, name: str) -> None:
    facts = {"code": "no_account"}
    if name == "closed":
        User.objects.filter(pk=vera.pk).update(is_active=False)
        facts = {"code": "account_closed", "ref": str(vera.pk)}
    else:
        provider.subject = SUBJECT.lower()
    client = Client()
    assert_refused(client, client.get(leave(client)), **facts)
    assert 1 == User.objects.count()


def test_account__is_never_found_by_a_mail_address_or_a_name(person: Callable[..., User], provider: Provider) -> None:
    user = person("vera", "Viewer")
    User.objects.filter(pk=user.pk).update(email=MAIL)
    provider.changes = {"email_verified": True}
    client = Client()
    assert_refused(client, client.get(leave(client)), code="no_account")


def test_account__of_another_issuers_subject_is_another_one(person: Callable[..., User], provider: Provider) -> None:
    identities.link(person("vera", "Viewer"), "https://elsewhere.example", SUBJECT, actor=SYSTEM_ACTOR)
    client = Client()
    assert_refused(client, client.get(leave(client)), code="no_account")


def test_account__is_made_without_any_right_where_the_settings_say_so(provider: Provider, settings: Any) -> None:
    use(settings, provider, creates=True)
    for _ in range(2):
        client = Client()
        assert 302 == client.get(leave(client)).status_code
    (made,) = User.objects.all()
    assert (True, False, set()) == (
        made.username.startswith("oidc-"),
        made.has_usable_password(),
        made.get_all_permissions(),
    )
    assert [403, 200, 200] == [client.get(path).status_code for path in ("/dlq/", "/account/", "/account/password")]
    assert "Your account has no password" in client.get("/account/password").content.decode()
    told = AuditEntry.objects.filter(ref_id=str(made.pk)).values_list("action", flat=True)
    assert ["user.created", "user.identity_linked", "user.signed_in", "user.signed_in"] == sorted(told)
    User.objects.update(is_active=False)
    closed = Client()
    assert 403 == closed.get(leave(closed)).status_code
    assert 1 == User.objects.count()


def test_second_factor__that_the_account_has_here_is_asked_for(vera: User) -> None:
    secret = factors.begin(vera)
    factors.confirm(vera, code_of(secret, -1), actor=actor_of(vera))
    client = Client()
    done = client.get(leave(client, "/dlq/?namespace=x"))
    assert (302, "/sign-in/code") == (done.status_code, done["Location"])
    assert 302 == client.get("/dlq/").status_code
    assert "/dlq/?namespace=x" == send(client, code_of(secret))["Location"]
    assert [("done", str(vera.pk), {"by": "provider"})] == told()


@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("how", ["stopped", "another page"])
def test_provider__that_is_away_is_said_to_be_and_nothing_is_lost(
    vera: User, provider: Provider, when: str, how: str
) -> None:
    client = Client()
    back = leave(client, "/dlq/?namespace=x") if when == "between" else f"{GO}?next=/dlq/%3Fnamespace%3Dx"
    if how == "stopped":
        provider.stop()
    provider.answers = False
    away = client.get(back)
    page = away.content.decode()
    assert (503, True) == (away.status_code, "Acme does not answer." in page)
    assert 'name="next" value="/dlq/?namespace=x"' in page
    assert [] == Markup(page).faults()
    assert [] == told()


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": "ftp://127.0.0.1/"},
        {"jwks_uri": None},
        {"issuer": None},
    ],
    ids=",".join,
)
def test_description__of_another_provider_is_not_believed(provider: Provider, described: dict[str, Any]) -> None:
    provider.described = described
    assert 503 == Client().get(GO).status_code


def test_provider__nothing_that_proves_or_names_somebody_is_kept_or_said(
    vera: User, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pages = []
    for changes in ({}, {"aud": "another-client"}, {"sub": "Unknown-Subject-3"}):
        provider.changes = changes
        client = Client()
        pages.append(client.get(leave(client)))
        pages.append(client.get("/account/"))
    provider.changes = {}
    used = Client()
    back = leave(used)
    provider.answers = False
    pages.append(used.get(back))
    secret = {*provider.said, CLIENT_SECRET, SUBJECT, "Unknown-Subject-3", MAIL, provider.issuer}
    assert len(secret) > 15
    said = [answer.content.decode() + str(answer.headers) for answer in pages]
    said += [
        record.getMessage() + str(record.msg) + str(record.args)
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))
    ]
    said += [f"{entry.reason} {entry.facts} {entry.ref_id} {entry.actor_name}" for entry in AuditEntry.objects.all()]
    said += [repr(list(ProviderIdentity.objects.values()))]
    assert [] == [(value, text) for value in secret for text in said if value in text]


def test_link__is_made_and_taken_away_by_command(person: Callable[..., User], provider: Provider) -> None:
    user, other = person("vera", "Viewer"), person("nora")
    for _ in range(2):
        call_command("link_operator", username="vera", subject=SUBJECT)
    with pytest.raises(CommandError, match="Another account is linked"):
        call_command("link_operator", username="nora", subject=SUBJECT)
    with pytest.raises(CommandError, match="There is no such account"):
        call_command("link_operator", username="nobody", subject=SUBJECT)
    with pytest.raises(CommandError, match="1 to 255"):
        call_command("link_operator", username="vera", subject="x" * 256)
    client = Client()
    assert 302 == client.get(leave(client)).status_code
    for _ in range(2):
        call_command("link_operator", username="vera", remove=True)
    call_command("link_operator", username="nora", subject=SUBJECT)
    assert [other.pk] == list(ProviderIdentity.objects.values_list("user_id", flat=True))
    told = AuditEntry.objects.filter(action__startswith="user.identity").order_by("at", "seq")
    assert [
        ("user.identity_linked", str(user.pk)),
        ("user.identity_unlinked", str(user.pk)),
        ("user.identity_linked", str(other.pk)),
    ] == [(entry.action, entry.ref_id) for entry in told]


def test_link__needs_a_provider(person: Callable[..., User]) -> None:
    person("vera")
    with pytest.raises(CommandError, match="LOCKHOUSE_OIDC_ISSUER"):
        call_command("link_operator", username="vera", subject=SUBJECT)


def make_account(subject: str, *, guarded: bool = True) -> int:
    """Run in a process of its own: return the account of somebody who was unknown."""
    if not guarded:
        return User.objects.create_user(new_id()).pk
    found = identities.account_of("https://provider.example", subject, creates=True)
    assert found is not None
    return found.pk


@pytest.mark.parametrize(("guarded", "made"), [(True, 1), (False, 3)])
def test_account__is_made_once_by_three_processes(database_url: str, *, guarded: bool, made: int) -> None:
    calls = [{"subject": SUBJECT, "guarded": guarded}] * 3
    assert made == len(set(race(f"{__name__}:make_account", calls, database_url))) == User.objects.count()
    assert guarded == ProviderIdentity.objects.exists()
