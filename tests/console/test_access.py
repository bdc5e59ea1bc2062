"""The access page: granting with its effect shown, the second person, revoking, why; and the last manager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from console.access import service
from console.access.managers import managers
from console.models import ScopeGrant, User
from console.permissions import AUDIT, BULK, CUTOVER, REPLAY, VIEW
from integration.scopes import NOWHERE
from tests.support.access import account, acting, fresh, granted, let_expire, proposal
from tests.support.authority import audit_entries
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("A-32")]
SENT = {"reason": "Carla helps on Friday", "grant_id": "0190a000-0000-7000-8000-000000000001"}


@pytest.fixture
def manager() -> Client:
    return of("agnes", "Admin")


def of(name: str, *groups: str) -> Client:
    client = Client()
    client.force_login(account(name, *groups))
    return client


def text_of(client: Client, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert status == response.status_code
    return " ".join(response.content.decode().split())


def test_page__lists_what_waits_what_is_granted_and_what_groups_give(manager: Client, installation: Installation):
    carla = account("carla", "Viewer")
    granted(carla, REPLAY, namespace=installation.namespace)
    assert "No grant was made yet" not in text_of(manager, "/access/")
    manager.post(f"/access/new?user=carla&permission={CUTOVER}&namespace={installation.namespace}&expires=3600", SENT)
    page = text_of(manager, "/access/")
    for words in (
        "Wait for a second person",
        "Replay, row by row",
        "Arm fences and run cutovers",
        "Viewer",
        "proposed",
    ):
        assert words in page


@pytest.mark.parametrize("groups", [(), ("Viewer",), ("Replayer",), ("Auditor",)])
def test_page__is_for_managers_of_access_alone(groups: tuple[str, ...], installation: Installation):
    client = of("sven", *groups)
    for path in ("/access/", "/access/new", "/access/why"):
        assert 403 == client.get(path).status_code
    assert 403 == client.post(f"/access/new?user=sven&permission={VIEW}", SENT).status_code
    assert 0 == ScopeGrant.objects.count()
    assert "Access" not in text_of(of("vera", "Viewer"), "/dlq/")


def test_new__shows_its_effect_and_then_grants_once(manager: Client, installation: Installation):
    account("carla")
    for _ in range(3):
        installation.work()
    Installation(namespace="elsewhere", kind="other.kind").work()
    path = f"/access/new?user=carla&permission={REPLAY}&namespace={installation.namespace}&expires=86400"
    page = text_of(manager, path)
    assert "may replay 3 rows now" in page
    assert "by itself after 1 day" in page
    assert "second person" not in page
    assert "may see 4 dead rows now" in text_of(manager, f"/access/new?user=carla&permission={VIEW}&expires=86400")
    assert 0 == ScopeGrant.objects.count()
    for _ in range(2):
        response = manager.post(path, SENT)
        assert (302, f"/access/{SENT['grant_id']}/") == (response.status_code, response["Location"])
    made = ScopeGrant.objects.get()
    assert (made.user.username, made.permission, made.namespace) == ("carla", REPLAY, installation.namespace)
    assert "It is in force." in text_of(manager, response["Location"])


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("user=nobody&permission={view}", "There is no account of this name."),
        ("user=carla&permission=integration.manage_access", "Select a valid choice"),
        ("user=carla&permission={view}&org_id=%C3%A9", "plain ASCII"),
        ("user=carla&permission={view}&expires=7", "Select a valid choice"),
        ("user=&permission={view}", "This field is required."),
    ],
)
def test_new__says_what_is_wrong_and_keeps_what_was_typed(query: str, says: str, manager: Client):
    account("carla")
    page = text_of(manager, f"/access/new?{query.format(view=VIEW)}&namespace=kept-name", 422)
    assert says in page
    assert "kept-name" in page


def test_new__of_a_place_that_is_not_there_cannot_be_granted(manager: Client):
    account("carla")
    path = f"/access/new?user=carla&permission={VIEW}&namespace=no-such"
    assert "nowhere: there is no such place" in text_of(manager, path)
    assert 422 == manager.post(path, SENT).status_code
    assert 0 == ScopeGrant.objects.count()


def test_new__to_oneself_is_refused(manager: Client):
    path = f"/access/new?user=agnes&permission={VIEW}"
    assert "This is your own account." in text_of(manager, path)
    assert 409 == manager.post(path, SENT).status_code
    assert 0 == ScopeGrant.objects.count()


def test_second_person__confirms_what_the_first_cannot(manager: Client, installation: Installation):
    carla = account("carla")
    path = f"/access/new?user=carla&permission={BULK}&namespace={installation.namespace}"
    assert "It needs a second person." in text_of(manager, path)
    page = manager.post(path, SENT)["Location"]
    assert "counts for nothing until a second person" in text_of(manager, page)
    assert 409 == manager.post(f"{page}confirm").status_code
    assert fresh(carla).rights().reach(BULK) == NOWHERE
    second = of("bruno", "Admin")
    assert 302 == second.post(f"{page}confirm").status_code
    assert (installation.namespace,) == fresh(carla).rights().reach(BULK).namespaces
    assert 409 == second.post(f"{page}confirm").status_code


def test_revoke__needs_a_reason_and_counts_at_once(manager: Client, installation: Installation):
    carla = account("carla")
    grant = granted(carla, VIEW, namespace=installation.namespace)
    client = Client()
    client.force_login(carla)
    assert 200 == client.get("/dlq/").status_code
    assert 422 == manager.post(f"/access/{grant.id}/revoke", {"reason": " "}).status_code
    assert 200 == client.get("/dlq/").status_code
    assert 302 == manager.post(f"/access/{grant.id}/revoke", {"reason": "The day is over"}).status_code
    assert 403 == client.get("/dlq/").status_code
    assert 409 == manager.post(f"/access/{grant.id}/revoke", {"reason": "Again"}).status_code
    assert "gives nothing any more" in text_of(manager, f"/access/{grant.id}/")


@pytest.mark.parametrize("path", ["", "confirm", "revoke"])
def test_grant__that_is_not_there_is_404(path: str, manager: Client):
    ask = manager.post if path else manager.get
    assert 404 == ask(f"/access/0190a000-0000-7000-8000-00000000dead/{path}", SENT).status_code


def test_why__goes_through_the_checks_in_their_order(manager: Client, installation: Installation):
    carla, work_id = account("carla"), installation.work()
    other = Installation(namespace="elsewhere", kind="other.kind")
    path = f"/access/why?user=carla&action={REPLAY}&ref={work_id}"
    assert "No. No group, no permission of the account" in text_of(manager, path)
    granted(carla, REPLAY, namespace=other.namespace)
    assert "No. The row&#x27;s namespace is none where it may view" in text_of(manager, path)
    granted(carla, VIEW, namespace=installation.namespace)
    assert "No. The row&#x27;s namespace is none where it may replay, row by row." in text_of(manager, path)
    granted(carla, REPLAY, namespace=installation.namespace)
    page = text_of(manager, path)
    assert "Yes. Every check agrees." in page
    account("carla", "Replayer")
    assert "by the group Replayer" in text_of(manager, path)
    User.objects.filter(pk=carla.pk).update(is_active=False)
    assert "No. The account is closed" in text_of(manager, path)


def test_why__tells_where_the_newest_grant_stands(manager: Client, installation: Installation):
    carla = account("carla")
    path = f"/access/why?user=carla&action={BULK}"
    waiting = proposal(carla, BULK, namespace=installation.namespace)
    assert "waits for a second person." in text_of(manager, path)
    service.revoke(waiting.id, reason="x", actor=acting(account("bruno", "Admin")))
    assert "was revoked." in text_of(manager, path)
    let_expire(granted(carla, BULK, namespace=installation.namespace))
    assert "has run out." in text_of(manager, path)


def test_why__tells_the_plans_refusal_too(manager: Client, installation: Installation):
    account("carla", "Replayer")
    work_id = installation.work("succeeded")
    assert "not_dead" in text_of(manager, f"/access/why?user=carla&action={REPLAY}&ref={work_id}")


def test_why__tells_nothing_of_a_row_that_its_asker_may_not_view(installation: Installation):
    group = Group.objects.create(name="Managers of access")
    group.permissions.add(*Group.objects.get(name="Admin").permissions.filter(codename="manage_access"))
    client, work_id = of("mona", "Managers of access"), installation.work()
    account("carla", "Replayer")
    page = text_of(client, f"/access/why?user=carla&action={REPLAY}&ref={work_id}")
    assert "no such row in what you may see yourself" in page
    assert installation.namespace not in page


@pytest.mark.parametrize("query", ["user=nobody&action={key}", "user=agnes&action=x", "user=agnes&action={key}&ref=x"])
def test_why__says_what_is_wrong(query: str, manager: Client):
    assert 422 == manager.get(f"/access/why?{query.format(key=AUDIT)}").status_code


def _post_account(client: Client, user: User, **over: object) -> int:
    values = {
        "username": user.username,
        "is_active": "on",
        "is_staff": "on",
        "groups": [group.pk for group in user.groups.all()],
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        **over,
    }
    sent = {name: value for name, value in values.items() if value is not None}
    return int(client.post(f"/admin/console/user/{user.pk}/change/", sent).status_code)


@pytest.fixture
def keeper() -> Client:
    """A keeper of accounts who does not manage access himself."""
    group = Group.objects.create(name="Keepers")
    rights = Group.objects.get(name="Admin").permissions.filter(codename__endswith="user") | Group.objects.get(
        name="Admin"
    ).permissions.filter(codename__endswith="group")
    group.permissions.add(*rights)
    client = of("kim", "Keepers")
    User.objects.filter(username="kim").update(is_staff=True)
    return client


@pytest.mark.parametrize("change", [{"is_active": None}, {"groups": []}])
def test_last_manager__is_neither_closed_nor_taken_out_of_his_group(
    change: dict[str, object], keeper: Client, django_capture_on_commit_callbacks: Callable[..., object]
):
    agnes, bruno = account("agnes", "Admin"), account("bruno", "Admin")
    assert 302 == _post_account(keeper, bruno, **change)
    assert [agnes] == list(managers())
    assert 302 == _post_account(keeper, agnes, **change)
    assert [agnes] == list(managers())
    assert ("kim", "user.changed", "refused") in {
        (row["actor_name"], row["action"], row["outcome"]) for row in audit_entries()
    }


def test_last_manager__is_kept_when_a_group_loses_the_right(keeper: Client):
    agnes = account("agnes", "Admin")
    admin = Group.objects.get(name="Admin")
    keeper.post(f"/admin/auth/group/{admin.pk}/change/", {"name": "Admin", "permissions": []})
    assert [agnes] == list(managers())


def test_admin__shows_grants_and_changes_none(manager: Client, installation: Installation):
    grant = granted(account("carla"), VIEW, namespace=installation.namespace)
    User.objects.filter(username="agnes").update(is_staff=True)
    assert 200 == manager.get("/admin/console/scopegrant/").status_code
    page = f"/admin/console/scopegrant/{grant.pk}/change/"
    assert 200 == manager.get(page).status_code
    assert 403 == manager.post(page, {"permission": CUTOVER}).status_code
    assert 403 == manager.get("/admin/console/scopegrant/add/").status_code
    assert 403 == manager.post(f"/admin/console/scopegrant/{grant.pk}/delete/", {"post": "yes"}).status_code


def test_session__gets_a_new_key_when_groups_change(viewer: Client):
    viewer.get("/dlq/")
    before = viewer.session.session_key
    User.objects.get(username="vera").groups.add(Group.objects.get(name="Replayer"))
    viewer.get("/dlq/")
    assert before != viewer.session.session_key


@pytest.fixture
def tables() -> list[str]:
    return [
        f"/admin/integration/connector{name}/"
        for name in (
            "namespace", "packinstall", "route", "projectionprotocol", "cutoverreceipt", "rollbackfence",
            "admissionfence", "admissionoverride",
        )
    ]  # fmt: skip


def test_admin__shows_system_tables_to_staff_who_may_view_and_changes_none(
    manager: Client, installation: Installation, tables: list[str]
):
    assert 302 == manager.get(tables[0]).status_code
    User.objects.filter(username="agnes").update(is_staff=True)
    for path in tables:
        assert 200 == manager.get(path).status_code
        assert 200 == manager.get(f"{path}?q=x").status_code
        assert 403 == manager.get(f"{path}add/").status_code
    page = f"{tables[1]}{installation.pack_id}/"
    assert installation.namespace in text_of(manager, f"{page}change/")
    assert 403 == manager.post(f"{page}change/", {"pack_name": "x"}).status_code
    assert 403 == manager.post(f"{page}delete/", {"post": "yes"}).status_code


def test_admin__shows_system_tables_of_the_readers_places_alone(installation: Installation, tables: list[str]):
    other = Installation(namespace="globex-ops", kind="deal.changed", pack_name="globex")
    for each in (installation, other):
        each.override(each.fence())
    granted(account("otto"), VIEW, namespace=other.namespace)
    client = of("otto")
    User.objects.filter(username="otto").update(is_staff=True)
    hidden = (installation.namespace, installation.pack_id, installation.route_id, installation.kind)
    for path in tables:
        page = text_of(client, path)
        assert [] == [text for text in hidden if text in page]
    assert other.namespace in text_of(client, tables[0])
    assert other.pack_id in text_of(client, tables[1])
    assert 302 == client.get(f"{tables[1]}{installation.pack_id}/change/").status_code
    nobody = of("nina")
    User.objects.filter(username="nina").update(is_staff=True)
    assert {403} == {nobody.get(path).status_code for path in tables}
