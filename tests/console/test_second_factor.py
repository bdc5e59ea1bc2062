"""The second factor: enrolled by a code, asked for at sign-in, good once, and taken away by a code or a keeper."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django_otp.oath import TOTP

from console import factors
from console.models import AuditEntry, User
from console.sign_in_models import RecoveryCode, SecondFactor
from console.views.session import PENDING_KEY
from integration.errors import InvalidInput, Refused
from integration.ingress.crypto import SealBroken
from integration.values import Actor
from tests.console.conftest import PASSWORD
from tests.support.authority import rows_of
from tests.support.html import Markup
from tests.support.processes import race

pytestmark = pytest.mark.django_db(transaction=True)


def code_of(secret: str, ahead: int = 0) -> str:
    """Return what the app shows, so many steps of 30 s from now."""
    return f"{TOTP(base64.b32decode(secret), drift=ahead).token():06}"


def actor_of(user: User) -> Actor:
    return Actor(user_id=user.pk, name=user.username, via="console")


@pytest.fixture
def vera(person: Callable[..., User]) -> User:
    return person("vera", "Viewer")


@pytest.fixture
def enrolled(vera: User) -> tuple[User, str, tuple[str, ...]]:
    """An account with a second factor, its app's secret, its recovery codes; the code of one step ago is used."""
    secret = factors.begin(vera)
    return vera, secret, factors.confirm(vera, code_of(secret, -1), actor=actor_of(vera))


def sign_in(client: Client, **more: str) -> Any:
    return client.post("/sign-in/", {"username": "vera", "password": PASSWORD, **more})


def send(client: Client, code: str) -> Any:
    return client.post("/sign-in/code", {"code": code})


Enrolled = tuple[User, str, tuple[str, ...]]


def test_sign_in__needs_the_code_as_well(enrolled: Enrolled) -> None:
    client = Client()
    asked = sign_in(client, next="/dlq/?namespace=x")
    assert (302, "/sign-in/code") == (asked.status_code, asked["Location"])
    assert 302 == client.get("/dlq/").status_code, "the password alone opens nothing"
    assert [] == Markup(client.get("/sign-in/code").content.decode()).faults()
    before = client.session.session_key
    done = send(client, code_of(enrolled[1]))
    assert (302, "/dlq/?namespace=x") == (done.status_code, done["Location"])
    assert 200 == client.get("/dlq/").status_code
    assert before != client.session.session_key
    assert PENDING_KEY not in client.session


def test_sign_in__takes_a_code_once(enrolled: Enrolled) -> None:
    code = code_of(enrolled[1])
    first, second = Client(), Client()
    for client in (first, second):
        sign_in(client)
    assert [302, 422] == [send(client, code).status_code for client in (first, second)]
    assert 302 == second.get("/dlq/").status_code


def test_sign_in__takes_each_recovery_code_once_and_says_so_in_the_trail(enrolled: Enrolled) -> None:
    user, _, codes = enrolled
    assert 10 == len(set(codes)) == RecoveryCode.objects.count()
    stored = str(rows_of("console_recoverycode")) + str(rows_of("console_secondfactor"))
    assert not any(code in stored or code.replace("-", "") in stored for code in codes)
    first, second = Client(), Client()
    for client in (first, second):
        sign_in(client)
    assert [302, 422] == [send(client, codes[3].upper().replace("-", " ")).status_code for client in (first, second)]
    assert 9 == RecoveryCode.objects.count()
    (entry,) = AuditEntry.objects.filter(action="user.recovery_code_used")
    assert (str(user.pk), "vera") == (entry.ref_id, entry.actor_name)


@pytest.mark.parametrize("code", ["", "000000", "12345", "1234567", "abcdef", "é" * 6, "０" * 6, "aaaa-bbbb-cccc-dddd"])
def test_sign_in__refuses_what_is_no_code(code: str, enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    assert 422 == send(client, code).status_code
    assert 302 == client.get("/dlq/").status_code
    assert 10 == RecoveryCode.objects.count()


def test_sign_in__is_closed_after_too_many_codes(enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    statuses = [send(client, "000000").status_code for _ in range(6)]
    assert 429 == statuses[-1]
    assert 429 == send(client, code_of(enrolled[1])).status_code
    assert 302 == client.get("/dlq/").status_code


@pytest.mark.parametrize("name", ["root", "mia"])
def test_sign_in__has_no_other_door_for_staff(client: Client, name: str) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    mia = User.objects.create_user("mia", password=PASSWORD, is_staff=True)
    mia.groups.add(Group.objects.get(name="Admin"))
    for user in (root, mia):
        factors.confirm(user, code_of(factors.begin(user), -1), actor=actor_of(user))
    led = client.get("/admin/login/", {"next": "/admin/console/user/"})
    assert (302, "/sign-in/?next=/admin/console/user/") == (led.status_code, led["Location"])
    assert 405 == client.post("/admin/login/", {"username": name, "password": PASSWORD}).status_code
    assert 302 == client.get("/dlq/").status_code
    assert "/admin/login/" in client.get("/admin/")["Location"]


def test_admin__of_somebody_who_may_not_open_it_is_refused_and_no_circle(viewer: Client) -> None:
    assert 403 == viewer.get("/admin/", follow=True).status_code


def test_sign_in__what_was_typed_wrong_is_not_stored(enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    send(client, "canary-recovery-code")
    client.post("/sign-in/", {"username": "vera", "password": "canary-password", "code": "canary-code"})
    stored = str(rows_of("axes_accessattempt"))
    assert "vera" in stored
    assert "canary" not in stored


def test_sign_in__looking_at_the_codes_page_is_no_try(enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    assert {200} == {client.head("/sign-in/code").status_code for _ in range(6)}
    assert 302 == send(client, code_of(enrolled[1])).status_code


def test_sign_in__waits_five_minutes_for_the_code(enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    session = client.session
    session[PENDING_KEY] = {**session[PENDING_KEY], "at": session[PENDING_KEY]["at"] - 301}
    session.save()
    late = send(client, code_of(enrolled[1]))
    assert (302, "/sign-in/") == (late.status_code, late["Location"])
    assert 302 == client.get("/dlq/").status_code


def test_sign_in__the_codes_page_is_nothing_by_itself(enrolled: Enrolled) -> None:
    for client in (Client(), Client(enforce_csrf_checks=True)):
        assert "/sign-in/" == client.get("/sign-in/code")["Location"]
    assert 302 == send(Client(), code_of(enrolled[1])).status_code


def test_sign_in__of_a_closed_account_ends_before_the_code(enrolled: Enrolled) -> None:
    client = Client()
    sign_in(client)
    User.objects.filter(pk=enrolled[0].pk).update(is_active=False)
    assert "/sign-in/" == send(client, code_of(enrolled[1]))["Location"]


def test_secret__is_sealed_and_bound_to_its_account(enrolled: Enrolled, person: Callable[..., User]) -> None:
    user, secret, _ = enrolled
    sealed = bytes(SecondFactor.objects.get(pk=user.pk).secret)
    assert base64.b32decode(secret) not in sealed
    other = person("nora", "Viewer")
    SecondFactor.objects.create(pk=other.pk, secret=sealed, enrolled_at="2026-01-01T00:00:00Z")
    with pytest.raises(SealBroken):
        factors.accept(other.pk, code_of(secret), actor=actor_of(other))


def test_confirm__needs_a_right_code_and_a_draft(vera: User) -> None:
    with pytest.raises(InvalidInput):
        factors.confirm(vera, "000000", actor=actor_of(vera))
    secret = factors.begin(vera)
    for wrong in ("000000", "", code_of(secret, 5)):
        with pytest.raises(InvalidInput):
            factors.confirm(vera, wrong, actor=actor_of(vera))
    assert not factors.is_enrolled(vera.pk)
    assert "302" == str(sign_in(Client()).status_code), "nothing needs a code yet"


def test_begin__never_writes_over_what_a_code_confirms_in_between(vera: User, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, sealing = factors.begin(vera), factors.seal

    def confirming(*args: Any) -> bytes:
        factors.confirm(vera, code_of(secret, -1), actor=actor_of(vera))
        return sealing(*args)

    monkeypatch.setattr(factors, "seal", confirming)
    with pytest.raises(Refused):
        factors.begin(vera)
    assert factors.accept(vera.pk, code_of(secret), actor=actor_of(vera))


def test_page__is_closed_to_whoever_guesses_codes(enrolled: Enrolled) -> None:
    client = Client()
    client.force_login(enrolled[0])
    sent = {"step": "remove", "code": "000000"}
    statuses = [client.post("/account/second-factor", sent).status_code for _ in range(6)]
    assert 429 == statuses[-1]
    assert 429 == client.post("/account/second-factor", {**sent, "code": code_of(enrolled[1])}).status_code
    assert factors.is_enrolled(enrolled[0].pk)
    assert 5 == AuditEntry.objects.filter(action="user.signed_in", outcome="refused").count()


def form_token(client: Client) -> str:
    found = re.search(
        r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get("/account/second-factor").content.decode()
    )
    assert found is not None
    return found.group(1)


def test_page__enrols_shows_the_codes_once_and_takes_it_away(viewer: Client) -> None:
    sent = {"csrfmiddlewaretoken": form_token(viewer)}
    begun = viewer.post("/account/second-factor", {**sent, "step": "begin"}).content.decode()
    assert "data:image/svg+xml" in begun
    found = re.search(r"Key <code[^>]*>([A-Z2-7 ]+)</code>", begun)
    assert found is not None
    secret = found.group(1).replace(" ", "")
    assert [] == Markup(begun).faults()
    wrong = viewer.post("/account/second-factor", {**sent, "step": "confirm", "code": "000000"})
    assert (422, True) == (wrong.status_code, 'class="errorlist"' in wrong.content.decode())
    before = viewer.session.session_key
    done = viewer.post("/account/second-factor", {**sent, "step": "confirm", "code": code_of(secret)})
    shown = re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){3}", done.content.decode())
    assert (200, 10) == (done.status_code, len(shown))
    assert before != viewer.session.session_key
    assert [] == Markup(done.content.decode()).faults()
    again = viewer.get("/account/second-factor").content.decode()
    assert not any(code in again for code in shown)
    assert secret[:8] not in again
    refused = viewer.post("/account/second-factor", {**sent, "step": "remove", "code": "000000"})
    assert (422, True) == (refused.status_code, factors.is_enrolled(User.objects.get(username="vera").pk))
    assert 200 == viewer.post("/account/second-factor", {**sent, "step": "remove", "code": shown[0]}).status_code
    assert not SecondFactor.objects.exists()
    assert not RecoveryCode.objects.exists()
    told = list(AuditEntry.objects.filter(action__startswith="user.second_factor").order_by("at").values_list("action"))
    assert [("user.second_factor_set",), ("user.second_factor_removed",)] == told


def test_admin__takes_it_away_from_others_and_not_from_superusers_or_oneself(
    client: Client, enrolled: Enrolled, person: Callable[..., User]
) -> None:
    keeper = User.objects.create_user("mia", password=PASSWORD, is_staff=True)
    keeper.groups.add(Group.objects.get(name="Admin"))
    root = User.objects.create_superuser("root", password=PASSWORD)
    for user in (keeper, root):
        secret = factors.begin(user)
        factors.confirm(user, code_of(secret, -1), actor=actor_of(user))
    client.force_login(keeper)
    chosen = [str(user.pk) for user in (enrolled[0], keeper, root)]
    form = {"action": "remove_second_factor", "_selected_action": chosen}
    assert 302 == client.post("/admin/console/user/", form).status_code
    assert {keeper.pk, root.pk} == set(SecondFactor.objects.values_list("pk", flat=True))
    (entry,) = AuditEntry.objects.filter(action="user.second_factor_removed")
    assert ("mia", str(enrolled[0].pk)) == (entry.actor_name, entry.ref_id)


def use_up(user_id: int, step: int, *, guarded: bool = True) -> bool:
    """Run in a process of its own: use a step's code up."""
    if not guarded:
        SecondFactor.objects.filter(pk=user_id).update(last_step=step)
        return True
    return factors._use_up(user_id, step)


@pytest.mark.parametrize(("guarded", "used"), [(True, 1), (False, 3)])
def test_code__is_used_up_by_one_of_three_processes(
    database_url: str, enrolled: Enrolled, *, guarded: bool, used: int
) -> None:
    calls = [{"user_id": enrolled[0].pk, "step": 2**40, "guarded": guarded}] * 3
    assert used == sum(race(f"{__name__}:use_up", calls, database_url))
