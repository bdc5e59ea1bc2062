"""Fences in the console: see them, arm behind a page that shows the effect, let a kind through, lift; and who may."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry, User
from integration import errors
from integration.cutover.fences import reads
from integration.cutover.fences.values import FenceState
from tests.support.authority import change, rows_of
from tests.support.html import Markup
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db
FENCES = "_System_ConnectorAdmissionFence"
WHY = {"reason": "Stage names are being renamed"}
TERMS = "/fences/new?namespace=acme-sales"


@pytest.fixture
def owner(signed_in: Callable[..., Client]) -> Client:
    """Return a client that may run cutovers."""
    return signed_in("delia", "Admin")


def send(client: Client, address: str, **values: str) -> Any:
    """Open a page and send its form."""
    page = client.get(address).content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page[page.index("<main") :])
    assert token is not None, "the page has no form to send"
    return client.post(address, {"csrfmiddlewaretoken": token.group(1), **values})


def sound(client: Client, address: str, status: int = 200) -> str:
    """Open a page, hold it against what must hold of every page, and return its text."""
    answer = client.get(address)
    text = answer.content.decode()
    assert (answer.status_code, Markup(text).faults()) == (status, [])
    return " ".join(text.split())


def test_fence__from_the_form_over_its_effect_to_the_lift(owner: Client, installation: Installation) -> None:
    assert "Arm a fence" in sound(owner, "/fences/")
    assert 'value="acme-sales"' in sound(owner, "/fences/new")
    confirm = sound(owner, f"{TERMS}&expires=3600")
    for part in ("Stop every kind of acme-sales", "after 1 hour", "prospect.updated", "0 receipts a minute"):
        assert part in confirm
    assert rows_of(FENCES) == []

    response = send(owner, f"{TERMS}&expires=3600", **WHY)
    (fence,) = reads.list_armed()
    assert (response.status_code, response["Location"]) == (302, f"/fences/{fence.fence_id}/")
    assert (fence.scope, fence.armed_by, fence.reason) == ("*", "delia", WHY["reason"])
    assert fence.expires_at == fence.armed_at + timedelta(hours=1)
    detail = sound(owner, response["Location"])
    for part in ("Fence over every kind of acme-sales", WHY["reason"], "by delia", "No receipt waits."):
        assert part in detail
    assert fence.fence_id in sound(owner, "/")

    assert "becomes work in the order in which it came" in sound(owner, f"/fences/{fence.fence_id}/lift")
    response = send(owner, f"/fences/{fence.fence_id}/lift", reason="Done")
    assert response.status_code == 302
    assert "lifted by delia" in sound(owner, response["Location"])
    listed = sound(owner, "/fences/")
    assert ("No fence is armed" in listed, fence.fence_id in listed) == (True, True)
    entries = AuditEntry.objects.filter(ref_kind="admission_fence").order_by("at")
    assert [(entry.action, entry.reason, entry.via) for entry in entries] == [
        ("admission_fence.armed", WHY["reason"], "console"),
        ("admission_fence.lifted", "Done", "console"),
    ]


def test_fence__that_is_sent_twice_is_armed_once(owner: Client, installation: Installation) -> None:
    first, second = send(owner, TERMS, **WHY), send(owner, TERMS, **WHY)
    assert first["Location"] == second["Location"]
    assert len(rows_of(FENCES)) == 1


def test_override__is_granted_shown_and_taken_back(owner: Client, installation: Installation) -> None:
    fence_id = installation.fence("*")
    address = f"/fences/{fence_id}/override"
    assert "Let a kind through" in sound(owner, address)
    assert send(owner, address, scope="prospect.updated", expires="900", **WHY).status_code == 302
    (override,) = reads.get_fence(fence_id).live_overrides
    assert override.duration == timedelta(minutes=15)
    assert "lets prospect.updated through" in sound(owner, "/fences/")
    close = f"/fences/overrides/{override.override_id}/lift"
    assert close in sound(owner, f"/fences/{fence_id}/")
    assert "Stop prospect.updated again" in sound(owner, close)
    assert send(owner, close)["Location"] == f"/fences/{fence_id}/"
    assert reads.get_fence(fence_id).live_overrides == ()
    assert send(owner, close).status_code == 409


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("namespace=", "required"),
        ("namespace=nowhere", "There is no such namespace."),
        ("namespace=acme-sales&scope=deal.*", "A scope is"),
        ("namespace=acme-sales&expires=12", "not one of the available choices"),
        (f"namespace={'x' * 200}", "at most 128"),
    ],
)
def test_terms__that_are_not_valid_are_named_and_change_nothing(
    owner: Client, installation: Installation, query: str, said: str
) -> None:
    assert said in sound(owner, f"/fences/new?{query}", 422)
    owner.handler.enforce_csrf_checks = False
    assert owner.post(f"/fences/new?{query}", WHY).status_code == 422
    assert owner.post("/fences/new", WHY).status_code == 422
    assert rows_of(FENCES) == []


def test_forms__without_a_valid_reason_or_scope_change_nothing(owner: Client, installation: Installation) -> None:
    fence_id = installation.fence("prospect.updated")
    before = rows_of(FENCES)
    for address, values in (
        (TERMS, {"reason": " "}),
        (TERMS, {"reason": "x" * 501}),
        (f"/fences/{fence_id}/lift", {"reason": "x" * 501}),
        (f"/fences/{fence_id}/override", {"scope": "prospect.updated", "reason": ""}),
        (f"/fences/{fence_id}/override", {"scope": "deal.created", **WHY}),
        (f"/fences/{fence_id}/override", {"scope": "deal.*", **WHY}),
    ):
        answer = send(owner, address, **values)
        assert (address, answer.status_code) == (address, 422)
        assert [] == Markup(answer.content.decode()).faults()
    assert (rows_of(FENCES), rows_of("_System_ConnectorAdmissionOverride")) == (before, [])


def test_fence__that_is_over_is_a_conflict_to_lift_or_override(owner: Client, installation: Installation) -> None:
    fence_id = installation.fence("*")
    override_page, lift_page = f"/fences/{fence_id}/override", f"/fences/{fence_id}/lift"
    change(f"UPDATE {FENCES} SET ExpiresAt = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
    for address, values in ((lift_page, {}), (override_page, WHY)):
        answer = send(owner, address, **values)
        text = answer.content.decode()
        assert (answer.status_code, Markup(text).faults()) == (409, [])
        assert "fence_not_armed" in text
        assert "has run out" in text
    assert reads.get_fence(fence_id).state is FenceState.EXPIRED


def test_arming__that_waits_too_long_says_that_the_fence_is_armed(
    owner: Client, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any) -> None:
        raise errors.LockTimeout

    monkeypatch.setattr("integration.cutover.fences.barrier.lock_pack", busy)
    monkeypatch.setattr("console.views.fences.WAIT_SECONDS", 0)
    answer = send(owner, TERMS, **WHY)
    text = answer.content.decode()
    assert (answer.status_code, Markup(text).faults()) == (503, [])
    assert "Send this again to wait" in text
    assert len(reads.list_armed()) == 1


def test_confirm__warns_of_a_kind_without_a_route_and_of_fences_that_are_armed(
    owner: Client, installation: Installation
) -> None:
    installation.fence("*")
    text = sound(owner, f"{TERMS}&scope=prospect.upated")
    assert "No live route takes prospect.upated." in text
    assert "1 fence of this namespace is armed already." in text
    assert "admission of prospect.updated" in text


def test_lift__names_the_fences_that_stay(owner: Client, installation: Installation) -> None:
    fence_id, _ = installation.fence("*"), installation.fence("prospect.deleted")
    assert "1 more fence of this namespace stays armed:" in sound(owner, f"/fences/{fence_id}/lift")


def test_past__is_paged_by_key_and_the_fragment_is_the_rows_alone(owner: Client, installation: Installation) -> None:
    ids = [installation.fence(LiftedAt=installation.now, LiftedBy="ana") for _ in range(53)]
    first = owner.get("/fences/").content.decode()
    older = re.search(r'href="([^"]+)" data-older', first)
    assert older is not None
    second = sound(owner, older.group(1).replace("&amp;", "&"))
    assert [f"/fences/{identity}/" in second for identity in sorted(ids)] == [True] * 3 + [False] * 50
    assert "First page" in second
    fragment = owner.get("/fences/", headers={"HX-Request": "true"}).content.decode()
    assert ("<html" in fragment, fragment.count("data-row ")) == (False, 50)


@pytest.mark.evidence("A-32")
def test_rights__viewers_see_and_only_holders_of_the_key_act(
    owner: Client, viewer: Client, replayer: Client, auditor: Client, installation: Installation
) -> None:
    fence_id = installation.fence("*")
    override_id = installation.override(fence_id)
    acts = ["new", f"{fence_id}/lift", f"{fence_id}/override", f"overrides/{override_id}/lift"]
    before = rows_of(FENCES)
    for client in (viewer, replayer):
        for address in ("/fences/", f"/fences/{fence_id}/"):
            text = sound(client, address)
            assert not [
                act for act in (*acts, "Lift it", "Arm a fence") if f"/fences/{act}" in text or f">{act}<" in text
            ]
    User.objects.get(username="delia").groups.clear()
    for client in (viewer, replayer, auditor, owner):
        client.handler.enforce_csrf_checks = False
        for act in acts:
            assert (client.get(f"/fences/{act}").status_code, client.post(f"/fences/{act}", WHY).status_code) == (
                403,
                403,
            )
    assert auditor.get("/fences/").status_code == 403
    assert rows_of(FENCES) == before


@pytest.mark.parametrize("text", ["\u00e9", "\u6f22\u5b57", "x" * 300, "00000000-0000-7000-8000-000000000000"])
def test_junk__in_place_of_an_id_is_nothing_here(owner: Client, installation: Installation, text: str) -> None:
    for address in (f"/fences/{text}/", f"/fences/{text}/lift", f"/fences/overrides/{text}/lift"):
        assert owner.get(address).status_code == 404
    assert owner.get("/fences/", {"cursor": text}).status_code == (200 if len(text) == 36 else 400)
