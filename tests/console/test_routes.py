"""Every route asks for its permission, at request time, and nothing else lets anybody in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from console.checks import check_every_route_declares_its_permission
from console.models import User
from console.permissions import ADMIN_SITE, ANONYMOUS, AUDIT, BULK, GROUPS, REPLAY, SIGNED_IN, VIEW, Route, walk_routes
from console.saved import save_view
from integration.authority.listing import DeadFilters
from integration.cutover.fences.service import arm_fence, grant_override
from integration.cutover.rights import CUTOVER_PERMISSION
from tests.support.authority import MARIA as KEEPER
from tests.support.authority import change, rows_of
from tests.support.batches import batch_of
from tests.support.rows import Installation

KEEPER_OF_FENCES = replace(KEEPER, permissions=frozenset({CUTOVER_PERMISSION}))
ROUTES = [route for route in walk_routes() if route.access != ADMIN_SITE]
#: The API's root has nothing to show, and there is no token of such an id.
NOTHING_THERE = {"api:api-root", "token-revoke"}
GUARDED = [route for route in ROUTES if route.access != ANONYMOUS]


def _path(route: Route, ref: str, namespace: str | None = None) -> str:
    path = "/" + route.pattern
    for name in ("ref", "work_id", "receipt_id", "token_id"):
        path = path.replace(f"<str:{name}>", ref)
    if "<str:view_id>" in path:
        owner = User.objects.filter(username="pia").first() or User.objects.create_user("olga")
        view = save_view(owner, "dlq", name="x", query="", is_shared=True)
        path = path.replace("<str:view_id>", view.id)
    if "_id>" in path and "fence" in path:
        at = namespace or rows_of("_System_ConnectorNamespace")[0]["Namespace"]
        fence_id = arm_fence(at, "*", reason="x", actor=KEEPER_OF_FENCES).fence.fence_id
        override = grant_override(fence_id, "*", reason="x", actor=KEEPER_OF_FENCES).override
        path = path.replace("<str:fence_id>", fence_id).replace("<str:override_id>", override.override_id)
    if "<str:pack_install_id>" in path or "<str:cutover_receipt_id>" in path:
        at = namespace or rows_of("_System_ConnectorNamespace")[0]["Namespace"]
        of_place = "PackInstallId IN (SELECT PackInstallId FROM _System_ConnectorPackInstall WHERE Namespace = %s)"
        (receipt,) = rows_of("_System_ConnectorCutoverReceipt", of_place, at)
        path = path.replace("<str:pack_install_id>", receipt["PackInstallId"])
        path = path.replace("<str:cutover_receipt_id>", receipt["ReceiptId"])
    if "<str:batch_id>" in path:
        path = path.replace("<str:batch_id>", batch_of(KEEPER, reason="x", filters=DeadFilters(namespace=namespace)).id)
        state = {"batch-pause": "running", "batch-resume": "paused"}.get(route.name, "waiting")
        change("UPDATE console_replaybatch SET state = %s", state)
    return path


def _ask(client: Client, route: Route, ref: str) -> int:
    if route.name in {"api:connector-event-replay", "api:batch-go", "api:batch-cancel"}:
        sent = {"data": {"reason": "x"}, "content_type": "application/json", "headers": {"Idempotency-Key": "k"}}
        return int(client.post(_path(route, ref), **sent).status_code)
    if route.name in {"dlq-export", "audit-export"}:
        return int(client.post(_path(route, ref), {"format": "csv"}).status_code)
    posted = {"view-delete", "sign-out", "token-revoke", "grant-confirm", "grant-revoke"}
    if route.name in posted | {"batch-go", "batch-pause", "batch-resume", "batch-cancel"}:
        return int(client.post(_path(route, ref)).status_code)
    return int(client.get(_path(route, ref)).status_code)


def test_routes__every_one_declares_its_access() -> None:
    assert [] == [route.pattern for route in walk_routes() if route.access is None]
    assert [] == check_every_route_declares_its_permission(None)


def test_routes__an_undeclared_view_stops_the_boot(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import console.permissions as module

    stray = Route(pattern="stray/", name="stray", access=None, callback=lambda request: None)
    monkeypatch.setattr(module, "walk_routes", lambda: iter([stray]))
    assert ["console.E001"] == [error.id for error in check_every_route_declares_its_permission(None)]


@pytest.mark.evidence("A-32")
@pytest.mark.django_db
@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_routes__nobody_enters_without_an_account(route: Route, installation: Installation) -> None:
    response = Client().get(_path(route, installation.work()))
    assert response.status_code in ({401} if route.name.startswith("api:") else {302, 405})
    if response.status_code == 302:
        assert response["Location"].startswith("/sign-in/?next=")


@pytest.mark.evidence("A-32")
@pytest.mark.parametrize(
    "groups", [(), ("Viewer",), ("Replayer",), ("Auditor",)], ids=lambda names: "+".join(names) or "none"
)
@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_routes__a_permission_opens_what_it_names_and_nothing_else(
    route: Route, groups: tuple[str, ...], signed_in: object, installation: Installation
) -> None:
    ref = installation.quarantined() if route.name in {"receipt", "api:receipt"} else installation.work()
    client = signed_in("pia", *groups)  # type: ignore[operator]
    client.handler.enforce_csrf_checks = False
    held = {key for name in groups for key in GROUPS[name]}
    if {VIEW, REPLAY} <= held:
        held.add(BULK)
    status = _ask(client, route, ref)
    if route.access == SIGNED_IN or route.access in held:
        assert status in {200, 201, 302, *({404} if route.name in NOTHING_THERE else ())}
    else:
        assert 403 == status


@pytest.mark.evidence("A-32")
def test_routes__a_revoked_permission_closes_the_next_request(viewer: Client, installation: Installation) -> None:
    assert 200 == viewer.get("/dlq/").status_code
    User.objects.get(username="vera").groups.clear()
    assert 403 == viewer.get("/dlq/").status_code
    assert 403 == viewer.get("/dlq/", headers={"HX-Request": "true"}).status_code


@pytest.mark.evidence("A-32")
def test_routes__a_revoked_group_permission_closes_the_next_request(viewer: Client) -> None:
    assert 200 == viewer.get("/work/").status_code
    Group.objects.get(name="Viewer").permissions.clear()
    assert 403 == viewer.get("/work/").status_code


@pytest.mark.evidence("A-32")
def test_routes__a_closed_account_is_signed_out_at_once(viewer: Client) -> None:
    User.objects.filter(username="vera").update(is_active=False)
    assert 302 == viewer.get("/dlq/").status_code


def test_routes__the_contracts_two_keys_guard_viewing_and_replaying() -> None:
    by_name = {route.name: route.access for route in ROUTES}
    assert {VIEW} == {
        by_name[name] for name in ("overview", "dlq", "dead", "dead-json", "replayed", "work", "work-item")
    }
    assert {VIEW} == {
        by_name[f"api:{name}"] for name in ("connector-events", "connector-event", "connector-event-plan")
    }
    assert REPLAY == by_name["replay"] == by_name["api:connector-event-replay"]
    assert AUDIT == by_name["audit"]


@pytest.mark.django_db
def test_routes__a_403_names_nothing_of_what_it_hides(auditor: Client, installation: Installation) -> None:
    work_id = installation.work()
    there = auditor.get(f"/dlq/{work_id}/")
    nowhere = auditor.get("/dlq/00000000-0000-7000-8000-000000000000/")
    assert 403 == there.status_code == nowhere.status_code
    for text in (work_id, installation.namespace, installation.kind, "integration."):
        assert text not in there.content.decode()


@pytest.mark.django_db
def test_routes__a_fragment_without_a_session_moves_the_whole_page_to_the_sign_in() -> None:
    response = Client().get("/dlq/", headers={"HX-Request": "true"})
    assert (401, "/sign-in/") == (response.status_code, response["HX-Redirect"])


@pytest.mark.django_db
@pytest.mark.evidence("A-32")
def test_rights__own_ones_and_those_of_groups_come_in_one_query(django_assert_num_queries: Any) -> None:
    user = User.objects.create_user("nia")
    user.groups.add(Group.objects.get(name="Viewer"))
    user.user_permissions.add(Permission.objects.get(codename="view_audit"))
    fresh = User.objects.get(pk=user.pk)
    with django_assert_num_queries(1):
        assert fresh.has_perm(VIEW)
        assert fresh.has_perm("integration.view_audit")
        assert not fresh.has_perm(REPLAY)
    assert fresh.get_all_permissions() == {VIEW, "integration.view_audit"}


@pytest.mark.django_db
@pytest.mark.evidence("A-32")
def test_rights__an_account_that_is_not_active_has_none() -> None:
    user = User.objects.create_user("nia", is_active=False)
    user.groups.add(Group.objects.get(name="Replayer"))
    assert User.objects.get(pk=user.pk).get_all_permissions() == set()
    assert not User.objects.get(pk=user.pk).has_perm(VIEW)
