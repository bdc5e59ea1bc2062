"""Lists of an account that holds its rights in one place: its own rows alone, and no word of any other place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from console.models import User
from console.permissions import AUDIT, BULK, CUTOVER, REPLAY, VIEW
from console.saved import save_view
from integration import scopes
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.values import SYSTEM_ACTOR
from tests.console.test_routes import GUARDED
from tests.console.test_scopes import COMMITTED, NOWHERE, OPEN, POSTED, WITHOUT_A_ROW, _path, _twin, ask, confined, told
from tests.support.access import account, acting, fresh, granted
from tests.support.authority import audit_entries, rows_of
from tests.support.commands import run
from tests.support.rows import Installation
from tests.support.work import item_row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-32")]
GIVEN = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}…[0-9a-f]{4}")
GROUPS = pytest.param("/dlq/groups/?", marks=COMMITTED)
#: The lists, each with what makes it show something.
LISTS = (
    "/?",
    "/work/?state=dead",
    "/work/?state=pending",
    "/work/?",
    "/receipts/?",
    "/receipts/?state=quarantined",
    GROUPS,
    "/lanes/?",
    "/cutovers/?",
    "/api/v1/work-items?state=dead",
    "/api/v1/receipts?",
    "/api/v1/packs?",
    "/audit/?",
    "/api/v1/audit?",
)
#: Routes of one row.
OF_A_ROW = [route for route in GUARDED if route.name in OPEN - WITHOUT_A_ROW - POSTED]


@pytest.fixture
def other() -> Installation:
    return Installation(namespace="globex-ops", kind="deal.changed", pack_name="globex", provider="other")


def fill(made: Installation) -> None:
    """Have one row of each kind that a list shows."""
    made.work()
    made.work("pending")
    made.work("blocked", Attempt=0, BlockedOn="account.created", TargetLane="account:1")
    made.quarantined()
    record_alone(
        AuditFact(
            action="work_item.viewed",
            outcome=AuditOutcome.DONE,
            actor=SYSTEM_ACTOR,
            ref_kind="work_item",
            ref_id=made.work("succeeded"),
            org_id=made.org_id,
            namespace=made.namespace,
            event_kind=made.kind,
            pack_install_id=made.pack_id,
        )
    )


def names_of(made: Installation) -> tuple[str, ...]:
    """Return what tells of a place, however little."""
    return made.namespace, made.kind, made.pack_id


@pytest.mark.parametrize("path", LISTS)
def test_list__shows_the_own_place_alone(path: str, installation: Installation, other: Installation):
    for made in (installation, other):
        fill(made)
    for own, hidden in ((installation, other), (other, installation)):
        User.objects.filter(username="otto").delete()
        client = confined(own, VIEW, AUDIT)
        text = client.get(path).content.decode()
        fragment = client.get(path, headers={"HX-Request": "true"}).content.decode()
        assert own.namespace in text
        assert [] == [name for name in names_of(hidden) if name in text + fragment]


@pytest.mark.parametrize("path", LISTS)
def test_list__of_a_namespace_elsewhere_is_that_of_one_that_does_not_exist(
    path: str, installation: Installation, other: Installation
):
    for made in (installation, other):
        fill(made)
    client = confined(other, VIEW, AUDIT)
    for htmx in ({}, {"HX-Request": "true"}):
        there = client.get(f"{path}&namespace={installation.namespace}", headers=htmx)
        nowhere = client.get(f"{path}&namespace=no-such-name", headers=htmx)
        assert (200, 200) == (there.status_code, nowhere.status_code)
        assert told(there).replace(installation.namespace, "no-such-name") == told(nowhere)
        assert 0 == there.content.decode().count("data-row href")


@pytest.mark.parametrize("path", LISTS[1:])
def test_list__of_one_namespace_is_of_it_alone_for_everybody(
    path: str, signed_in: Callable[..., Client], installation: Installation
):
    viewer = signed_in("vera", "Viewer", "Auditor")
    fill(installation)
    fill(Installation(namespace="beta", kind="deal.won", pack_name="pipedrive", provider="other"))
    text = viewer.get(f"{path}&namespace=beta").content.decode()
    assert "beta" in text
    shown = re.sub(r"(?s)<datalist.*?</datalist>", "", text)
    assert [] == [name for name in names_of(installation) if name in shown]


@pytest.mark.parametrize("route", OF_A_ROW, ids=lambda route: route.name)
def test_elsewhere__would_be_told_if_nothing_narrowed_it(
    route: object, installation: Installation, other: Installation, monkeypatch: pytest.MonkeyPatch
):
    """The control: without the scope the answers differ, so that their likeness shows something."""
    ref = installation.quarantined() if route.name in {"receipt", "api:receipt"} else installation.work()  # type: ignore[attr-defined]
    path = _path(route, ref, installation.namespace)  # type: ignore[arg-type]
    client = confined(other, REPLAY, CUTOVER)
    monkeypatch.setattr(scopes.Scope, "covers", lambda self, namespace: True)
    there, nowhere = (ask(client, "GET", route, each, htmx=False) for each in (path, _twin(path)))  # type: ignore[arg-type]
    assert (there.status_code, told(there)) != (nowhere.status_code, told(nowhere))


@pytest.mark.parametrize("path", LISTS[1:])
def test_list__would_tell_if_nothing_narrowed_it(
    path: str, installation: Installation, other: Installation, monkeypatch: pytest.MonkeyPatch
):
    fill(installation)
    client = confined(other, VIEW, AUDIT)
    monkeypatch.setattr(scopes.Scope, "covers", lambda self, namespace: True)
    text = client.get(f"{path}&namespace={installation.namespace}").content.decode()
    assert [told for told in (installation.kind, installation.provider, "work_item.viewed") if told in text]


@pytest.mark.parametrize("path", ["/work/?state=dead", "/receipts/?", "/lanes/?", "/cutovers/?", GROUPS])
def test_list__of_more_namespaces_than_a_page_merges_begins_with_one(path: str, viewer: Client, db: None):
    user = account("otto")
    for number in range(scopes.MOST_NAMESPACES + 1):
        made = Installation(namespace=f"n{number:02}", kind=f"k{number:02}", pack_name=f"p{number:02}")
        made.work()
        made.work("blocked", Attempt=0, BlockedOn="account.created", TargetLane="account:1")
        granted(user, VIEW, namespace=made.namespace)
    client = Client()
    client.force_login(fresh(user))
    first = client.get(path).content.decode()
    assert "Of n00 alone." in first
    assert "k07" not in re.sub(r"(?s)<datalist.*?</datalist>", "", first)
    assert "Of n07 alone." in client.get(f"{path}&namespace=n07").content.decode()


def test_work_items__of_the_api_ask_for_a_state_of_who_may_look_into_some_places(other: Installation):
    answer = confined(other, VIEW).get("/api/v1/work-items")
    assert (400, "state") == (answer.status_code, answer.json()["fields"]["field"])


def test_cancel__in_its_place_goes_through_and_elsewhere_does_not(installation: Installation, other: Installation):
    hidden, own = (made.work("retry", LeaseToken=None, LeaseOwner=None) for made in (installation, other))
    client = confined(other, REPLAY)
    sent = {"reason": "The account was closed"}
    assert 404 == client.post(f"/work/{hidden}/cancel", sent).status_code
    assert "retry" == item_row(hidden)["State"]
    refused = audit_entries()[-1]
    assert ("refused", None, None) == (refused["outcome"], refused["namespace"], refused["pack_install_id"])
    assert 302 == client.post(f"/work/{own}/cancel", sent).status_code
    assert "cancelled" == item_row(own)["State"]


def test_cancel__where_it_may_only_be_seen_is_refused(installation: Installation, other: Installation):
    work_id = installation.work("pending")
    client = confined(other, REPLAY)
    granted(User.objects.get(username="otto"), VIEW, namespace=installation.namespace)
    assert "You may view, not cancel" in client.get(f"/work/{work_id}/").content.decode()
    assert 403 == client.get(f"/work/{work_id}/cancel").status_code
    assert 403 == client.post(f"/work/{work_id}/cancel", {"reason": "x"}).status_code
    assert "pending" == item_row(work_id)["State"]
    refused = audit_entries()[-1]
    assert ("refused", installation.namespace) == (refused["outcome"], refused["namespace"])


def test_cancel__by_the_command_has_the_same_places(installation: Installation, other: Installation):
    hidden, own = (made.work("retry", LeaseToken=None, LeaseOwner=None) for made in (installation, other))
    granted(account("otto"), REPLAY, namespace=other.namespace)
    there, nowhere = (run("cancel", ref, "--as", "otto", "--reason", "x") for ref in (hidden, NOWHERE))
    assert (4, there.err) == (there.code, nowhere.err)
    assert 0 == run("cancel", own, "--as", "otto", "--reason", "x").code
    assert ("retry", "cancelled") == (item_row(hidden)["State"], item_row(own)["State"])


def test_dry_run__asks_for_the_right_in_the_packs_own_place(installation: Installation, other: Installation):
    client = confined(other, CUTOVER)
    granted(User.objects.get(username="otto"), VIEW, namespace=installation.namespace)
    assert 200 == client.get(f"/cutovers/{installation.pack_id}/").status_code
    assert 403 == client.get(f"/cutovers/{installation.pack_id}/dry-run").status_code
    assert 200 == client.get(f"/cutovers/{other.pack_id}/dry-run").status_code
    assert acting(User.objects.get(username="otto")).reach(CUTOVER).namespaces == (other.namespace,)


def test_export__and_saved_views_are_offered_of_the_own_place(installation: Installation, other: Installation):
    installation.work()
    own = other.work()
    client = confined(other, VIEW)
    assert 302 == client.post("/dlq/views/new?replayed=no", {"name": "mine", "is_shared": "on"}).status_code
    save_view(account("vera", "Viewer"), "dlq", name="theirs", query="namespace=acme-sales", is_shared=True)
    text = client.get("/dlq/views/").content.decode() + client.get("/dlq/").content.decode()
    assert ("mine" in text, "theirs" in text, "Export what matches" in text) == (True, False, True)
    rows = json.loads(b"".join(client.post("/dlq/export", {"format": "json"}).streaming_content))["rows"]  # type: ignore[attr-defined]
    assert [own] == [row["work_id"] for row in rows]
    elsewhere = client.post(f"/dlq/export?namespace={installation.namespace}", {"format": "json"})
    assert [] == json.loads(b"".join(elsewhere.streaming_content))["rows"]  # type: ignore[attr-defined]


def test_bulk__from_the_list_takes_the_own_rows(installation: Installation, other: Installation):
    hidden, own = installation.work(), other.work()
    client = confined(other, BULK)
    assert f':{own}" aria-label="Tick' in client.get("/dlq/").content.decode()
    page = client.get("/batches/new").content.decode()
    assert "Replay 1 row" in page
    sent = {
        "reason": "x",
        "digest": re.search(r'name="digest" value="([^"]*)"', page)[1],  # type: ignore[index]
        "idempotency_key": NOWHERE,
        "halt_after": "10",
    }
    assert 302 == client.post("/batches/new", sent).status_code
    (batch,) = rows_of("console_replaybatch")
    assert [own] == [row["ref_id"] for row in rows_of("console_replaybatchitem")]
    assert batch["id"] in client.get("/batches/").content.decode()
    assert f"/batches/{batch['id']}/pause" in client.get(f"/batches/{batch['id']}/").content.decode()
    there, nowhere = (client.get(f"/batches/new?ref={ref}&ticked=1") for ref in (hidden, NOWHERE))
    # The ids that were asked for are shown as they were given, in short, and their digest.
    assert GIVEN.sub("", told(there)) == GIVEN.sub("", told(nowhere))


def test_bulk__is_not_offered_to_who_may_replay_row_by_row(other: Installation):
    other.work()
    client = confined(other, REPLAY)
    assert "Replay all" not in client.get("/dlq/").content.decode()
    for answer in (client.get("/batches/new"), client.post("/batches/new", {"reason": "x"})):
        assert 403 == answer.status_code
    assert [] == rows_of("console_replaybatch")
