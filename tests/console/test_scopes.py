"""An account that holds its rights in one place: works there, and learns nothing of any other."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from console.access import service
from console.models import User
from console.permissions import AUDIT, BULK, CUTOVER, REPLAY, SIGNED_IN, VIEW, Route
from integration.errors import EventNotFound
from integration.values import new_id
from tests.console.test_routes import GUARDED, _path
from tests.support.access import account, acting, fresh, granted, let_expire
from tests.support.authority import audit_entries, rows_of
from tests.support.dlq import children, dlq
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-32")]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NOWHERE = "00000000-0000-7000-8000-0000000000ff"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TOKEN = re.compile(r'(name="csrfmiddlewaretoken" value|X-CSRFToken": )[="]*[A-Za-z0-9]+')
READ_AT = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?|\d{4}-\d\d-\d\dT[^\"<]+|\d+ (s|min|h|days?) ago|just now")
SENT = {"reason": "The stage exists now", "format": "csv", "idempotency_key": "0190a000-0000-7000-8000-000000000001"}
#: The pages that ask for the place.
OPEN = {"dlq", "dead", "dead-json", "replay", "replayed", "api:connector-events", "api:connector-event"}
OPEN |= {"fences", "fence", "fence-new", "fence-lift", "fence-override", "override-lift"}
OPEN |= {"work", "work-item", "work-cancel", "receipts", "receipt", "api:fences", "api:fence"}
OPEN |= {"api:work-items", "api:work-item", "api:receipts", "api:receipt", "groups", "lanes", "api:cutovers"}
OPEN |= {"api:packs"}
OPEN |= {"cutovers", "cutover", "cutover-receipt", "cutover-proof", "cutover-verify", "cutover-obstacles"}
OPEN |= {"cutover-dry-run", "batches", "batch", "batch-new", "batch-go", "batch-pause", "batch-resume", "batch-cancel"}
OPEN |= {"dlq-export", "views", "view-new", "audit", "audit-export", "api:audit"}
OPEN |= {"api:batches", "api:batch", "api:batch-items", "api:batch-go", "api:batch-cancel"}
OPEN |= {"api:connector-event-plan", "api:connector-event-replay", "api:openapi-json", "overview"}
#: What names no row, and the plan, which says of any id that there is no such row.
WITHOUT_A_ROW = {"overview", "dlq", "fences", "fence-new", "api:connector-events", "api:openapi-json"}
WITHOUT_A_ROW |= {"api:connector-event-plan", "api:fences", "work", "receipts", "api:work-items", "api:receipts"}
WITHOUT_A_ROW |= {"groups", "lanes", "cutovers", "api:packs", "batches", "batch-new", "api:batches"}
WITHOUT_A_ROW |= {"dlq-export", "views", "view-new", "audit", "audit-export", "api:audit"}
#: Nothing is there for this account: the root shows nothing, and the saved view is another's.
NOTHING_THERE = {"api:api-root", "view-delete"}
#: What a list has to be told.
QUERIES = {"api:work-items": "?state=dead"}
#: Committed, as in service: TiDB joins a window of an index with uncommitted rows for ever.
COMMITTED = pytest.mark.django_db(transaction=True)
ASKED = [
    pytest.param(route, id=route.name, marks=[COMMITTED] if route.name == "groups" else [])
    for route in GUARDED
    if route.access != SIGNED_IN
]
RECEIPTS = {"receipt", "api:receipt"}
POSTED = {"api:connector-event-replay", "api:batch-go", "api:batch-cancel", "batch-go", "batch-cancel"}
POSTED |= {"grant-confirm", "grant-revoke", "batch-pause", "batch-resume", "dlq-export", "audit-export", "view-delete"}


@pytest.fixture
def other() -> Installation:
    """Another org's namespace, with a dead row of its own."""
    made = Installation(namespace="globex-ops", kind="deal.changed", pack_name="globex", provider="other")
    made.work(SourceLane="deal:4711")
    return made


def confined(installation: Installation, *permissions: str) -> Client:
    """Return a client that holds permissions in one namespace, and nothing else."""
    user = account("otto")
    for permission in permissions:
        granted(user, permission, namespace=installation.namespace)
    client = Client()
    client.force_login(fresh(user))
    return client


def ask(client: Client, method: str, route: Route, path: str, *, htmx: bool) -> HttpResponse:
    headers = {"HX-Request": "true"} if htmx else {}
    if method == "POST" and route.name.startswith("api:"):
        sent = {"data": json.dumps({"reason": "x"}), "content_type": "application/json"}
        return client.post(path, **sent, headers={"Idempotency-Key": new_id(), **headers})
    if method == "POST":
        return _whole(client.post(path, SENT, headers=headers))
    return client.generic(method, path, headers=headers)


def _whole(response: Any) -> HttpResponse:
    """Return a download in one piece."""
    if not response.streaming:
        return response
    return HttpResponse(b"".join(response.streaming_content), status=response.status_code)


def told(response: HttpResponse) -> str:
    """Return what an answer says, without what differs between any two answers."""
    text = response.content.decode()
    return READ_AT.sub("", TOKEN.sub("", UUID.sub("", text)))


def _twin(path: str) -> str:
    return UUID.sub(NOWHERE, path)


@pytest.mark.parametrize("route", ASKED)
def test_elsewhere__tells_no_more_than_what_does_not_exist(
    route: Route, installation: Installation, other: Installation
):
    work_id = installation.work()
    path = _path(route, installation.quarantined() if route.name in RECEIPTS else work_id, installation.namespace)
    (event,) = rows_of("_System_ConnectorEvent", "Namespace = %s", installation.namespace)
    before = [rows_of(f"_System_Connector{name}") for name in ("Event", "WorkItem", "AdmissionFence")]
    client = confined(other, BULK, CUTOVER, AUDIT)
    hidden = (event["EventId"], work_id, installation.namespace, installation.kind, event["SourceLane"])
    for method in METHODS:
        for htmx in (False, True):
            there = ask(client, method, route, path, htmx=htmx)
            nowhere = ask(client, method, route, _twin(path), htmx=htmx)
            assert (there.status_code, told(there)) == (nowhere.status_code, told(nowhere)), method
            assert [] == [text for text in hidden if text in there.content.decode() and text not in path]
            assert there.status_code in (
                {200, 302, 400, 403, 404, 405, 422} if route.name in WITHOUT_A_ROW else {400, 403, 404, 405}
            )
    after = [rows_of(f"_System_Connector{name}") for name in ("Event", "WorkItem", "AdmissionFence")]
    assert before == after


@pytest.mark.parametrize("route", ASKED)
def test_own_place__is_open_where_the_page_asks_for_it(route: Route, installation: Installation, other: Installation):
    ref = installation.quarantined() if route.name in RECEIPTS else installation.work()
    path = _path(route, ref, installation.namespace)
    client = confined(installation, BULK, CUTOVER, AUDIT)
    method = "POST" if route.name in POSTED else "GET"
    response = ask(client, method, route, path + QUERIES.get(route.name, ""), htmx=False)
    if route.name in OPEN:
        assert response.status_code in {200, 201, 302}
        assert getattr(route.callback, "is_scoped", False)
    else:
        assert response.status_code == (404 if route.name in NOTHING_THERE else 403)
    assert other.namespace not in response.content.decode()


def test_list__shows_its_place_and_counts_it(installation: Installation, other: Installation):
    for _ in range(3):
        installation.work()
    page = confined(other, REPLAY).get("/dlq/")
    assert 1 == len(page.context["page"].rows)
    assert "1" == str(page.context["count"])
    assert (other.namespace,) == page.context["namespaces"]
    text = page.content.decode()
    assert installation.namespace not in text
    assert "may view in globex-ops and replay in globex-ops" in text


@pytest.mark.parametrize("query", ["namespace={namespace}", "id={work_id}", "org={org_id}", "pack={pack_id}"])
def test_list__finds_nothing_elsewhere_by_any_filter(query: str, installation: Installation, other: Installation):
    work_id = installation.work()
    client = confined(other, VIEW)
    chosen = query.format(work_id=work_id, **vars(installation))
    page = client.get(f"/dlq/?{chosen}")
    assert (200, 0, "0") == (page.status_code, len(page.context["page"].rows), str(page.context["count"]))
    answer = client.get(
        f"/api/v1/connector-events?{chosen.replace('id=', 'search=', 1) if 'work_id' in query else chosen}"
    )
    assert [] == answer.json()["items"]


def test_replay__in_its_place_goes_through_and_elsewhere_does_not(installation: Installation, other: Installation):
    hidden, own = installation.work(), other.work()
    client = confined(other, REPLAY)
    assert 404 == client.post(f"/dlq/{hidden}/replay", SENT).status_code
    assert [] == children()
    assert 302 == client.post(f"/dlq/{own}/replay", SENT).status_code
    assert 1 == len(children())


def test_replay__where_it_may_only_be_seen_is_refused_with_its_reason(installation: Installation, other: Installation):
    work_id = installation.work()
    client = confined(other, REPLAY)
    granted(User.objects.get(username="otto"), VIEW, namespace=installation.namespace)
    assert "see its plan" in client.get(f"/dlq/?namespace={installation.namespace}").content.decode()
    assert "You may view, not replay" in client.get(f"/dlq/{work_id}/").content.decode()
    assert 403 == client.post(f"/dlq/{work_id}/replay", SENT).status_code
    assert [] == children()


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_confirm_page__that_was_open_when_the_right_went_away_replays_nothing(how: str, installation: Installation):
    work_id = installation.work()
    user = account("otto")
    grant = granted(user, REPLAY, namespace=installation.namespace)
    client = Client()
    client.force_login(fresh(user))
    assert 200 == client.get(f"/dlq/{work_id}/replay").status_code
    if how == "revoked":
        service.revoke(grant.id, reason="Enough", actor=acting(account("bruno", "Admin")))
    else:
        let_expire(grant)
    assert 403 == client.post(f"/dlq/{work_id}/replay", SENT).status_code
    assert [] == children()
    last = audit_entries()[-1]
    assert ("otto", "refused", work_id) == (last["actor_name"], last["outcome"], last["ref_id"])


def test_command__has_the_same_places(installation: Installation, other: Installation):
    hidden, own = installation.work(), other.work()
    granted(account("otto"), REPLAY, namespace=other.namespace)
    assert own in dlq("list", "otto").out
    assert hidden not in dlq("list", "otto", "", "--count").out
    for action in ("show", "plan", "replay"):
        assert 4 == dlq(action, "otto", hidden).code == dlq(action, "otto", NOWHERE).code
        assert 0 == dlq(action, "otto", own).code


def test_reads__of_a_row_elsewhere_find_none(installation: Installation, other: Installation):
    from integration.authority import reads
    from integration.authority.values import Ref

    ref = Ref(id=installation.work())
    granted(account("otto"), VIEW, namespace=other.namespace)
    within: Any = acting(account("otto")).reach(VIEW)
    for read in (reads.get_detail, reads.lineage):
        with pytest.raises(EventNotFound):
            read(ref, within=within)
