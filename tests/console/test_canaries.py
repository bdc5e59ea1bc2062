"""No page, fragment, download, log, metric or audit entry carries what an operator must not see."""

from __future__ import annotations

import logging
import re
import uuid

import pytest
from django.test import Client

from console.models import AuditEntry
from console.permissions import ADMIN_SITE, REPLAY, walk_routes
from tests.support.access import account, granted
from tests.support.authority import MARIA, rows_of
from tests.support.batches import batch_of, run_to_rest
from tests.support.rows import CANARIES, Installation

PATHS = [
    "/",
    "/dlq/",
    "/dlq/?replayed=no&attempts=1",
    "/dlq/?sort=oldest",
    "/dlq/export",
    "/dlq/views/new?namespace=acme-sales",
    "/dlq/views/{ref}/delete",
    "/dlq/{ref}/",
    "/dlq/{ref}/json",
    "/dlq/{ref}/replay",
    "/dlq/{replayed}/",
    "/dlq/{replayed}/replayed",
    "/batches/",
    "/batches/new",
    "/batches/new?attempts=1&cursor=x",
    "/batches/{batch}/",
    "/batches/{batch}/?after=1",
    "/batches/{batch}/?after=x",
    "/batches/{batch}/go",
    "/batches/{batch}/pause",
    "/batches/{batch}/resume",
    "/batches/{batch}/cancel",
    "/work/",
    "/work/?state=dead",
    "/work/?state=processing",
    "/work/{ref}/",
    "/work/{running}/",
    "/work/{running}/cancel",
    "/zone/",
    "/zone/?next=/dlq/",
    "/receipts/",
    "/receipts/?state=materialized",
    "/receipts/{receipt}/",
    "/dlq/groups/",
    "/lanes/",
    "/cutovers/",
    "/cutovers/{pack}/",
    "/cutovers/{pack}/verify",
    "/cutovers/{pack}/obstacles",
    "/cutovers/{pack}/dry-run",
    "/cutovers/receipts/{cutover}/",
    "/cutovers/receipts/{cutover}/proof",
    "/fences/",
    "/fences/?cursor=~",
    "/fences/new",
    "/fences/new?namespace=acme-sales&expires=3600",
    "/fences/{fence}/",
    "/fences/{fence}/lift",
    "/fences/{fence}/override",
    "/fences/overrides/{override}/lift",
    "/audit/",
    "/account/",
    "/account/password",
    "/account/second-factor",
    "/sign-in/code",
    "/sign-in/provider",
    "/sign-in/provider/back",
    "/account/tokens/{ref}/revoke",
    "/access/",
    "/access/new",
    "/access/new?user=carla&permission=integration.replay_connector_event",
    "/access/why",
    "/access/why?user=carla&action=integration.replay_connector_event&ref={ref}",
    "/access/{grant}/",
    "/access/{grant}/confirm",
    "/access/{grant}/revoke",
    "/audit/?actor=ana&sort=oldest",
    "/audit/export",
    "/api/v1/",
    "/api/v1/openapi.json",
    "/api/v1/connector-events",
    "/api/v1/connector-events?replayed=true&owner=work_item",
    "/api/v1/connector-events?nonsense=1",
    "/api/v1/connector-events/{ref}",
    "/api/v1/connector-events/{running}",
    "/api/v1/connector-events/{ref}/plan",
    "/api/v1/connector-events/{replayed}/plan",
    "/api/v1/connector-events/{ref}/replay",
    "/api/v1/batches",
    "/api/v1/batches/{batch}",
    "/api/v1/batches/{batch}/items",
    "/api/v1/batches/{batch}/go",
    "/api/v1/batches/{batch}/cancel",
    "/api/v1/work-items",
    "/api/v1/work-items?state=dead",
    "/api/v1/work-items/{running}",
    "/api/v1/receipts",
    "/api/v1/receipts?state=quarantined",
    "/api/v1/receipts/{receipt}",
    "/api/v1/fences",
    "/api/v1/fences/{fence}",
    "/api/v1/packs",
    "/api/v1/packs?namespace=acme-sales",
    "/api/v1/cutovers/{ref}",
    "/api/v1/audit",
    "/metrics",
    "/csp-report",
    "/dlq/views/",
    "/admin/login/",
    "/favicon.ico",
    "/healthz",
    "/readyz",
    "/no-such-page",
    "/dlq/{ref}/no-such-part",
]


@pytest.mark.evidence("A-31")
@pytest.mark.django_db(transaction=True)
def test_canaries__none_reaches_an_operator(
    signed_in: object, installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client: Client = signed_in("olga", "Admin")  # type: ignore[operator]
    refs = {
        "ref": installation.work(),
        "replayed": installation.work(),
        "dead": installation.work(),
        "running": installation.work("processing", Attempt=2),
        "receipt": installation.quarantined("body_unreadable"),
    }
    (cutover,) = rows_of("_System_ConnectorCutoverReceipt")
    refs |= {"pack": installation.pack_id, "cutover": cutover["ReceiptId"]}
    installation.worker()
    refs["fence"] = installation.fence()
    refs["override"] = installation.override(refs["fence"])
    refs["batch"] = batch_of(MARIA).id
    refs["grant"] = granted(account("carla"), REPLAY, namespace=installation.namespace).id
    assert run_to_rest() == 0, "its maker has no account"
    form = client.get(f"/dlq/{refs['replayed']}/replay").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token is not None
    sent = {"csrfmiddlewaretoken": token.group(1), "reason": "x", "idempotency_key": str(uuid.uuid4())}
    answers = [
        client.post(f"/dlq/{refs['replayed']}/replay", sent),
        client.post(f"/dlq/{refs['replayed']}/replay", sent),
    ]
    answers += [client.post(f"/dlq/{refs['replayed']}/replay", sent | {"idempotency_key": str(uuid.uuid4())})]
    by_api = {"Idempotency-Key": "k-1", "X-CSRFToken": token.group(1)}
    for where, body in (
        ("dead", {"reason": "x"}),
        ("dead", {"reason": "x"}),
        ("replayed", {"reason": "y"}),
        ("dead", {}),
    ):
        to = f"/api/v1/connector-events/{refs[where]}/replay"
        answers.append(client.post(to, body, content_type="application/json", headers=by_api))
    for path in PATHS:
        answers.append(client.get(path.format(**refs)))
        answers.append(client.get(path.format(**refs), headers={"HX-Request": "true"}))
    assert {200, 201, 302, 400, 403, 404, 405, 409, 422} == {answer.status_code for answer in answers}
    assert {"/admin/login/"} == {str(one.request["PATH_INFO"]) for one in answers if one.status_code == 403}
    said = [(str(answer.request["PATH_INFO"]), answer.content.decode() + str(answer.headers)) for answer in answers]
    for path in ("/dlq/export", "/audit/export"):
        for form in ("csv", "json"):
            exported = client.post(path, {"csrfmiddlewaretoken": token.group(1), "format": form})
            said.append((path, exported.getvalue().decode() + str(exported.headers)))
            assert refs["replayed"] in said[-1][1]
    said += [("log", record.getMessage() + str(record.__dict__.get("event", ""))) for record in caplog.records]
    said += [("audit", f"{entry.reason} {entry.facts}") for entry in AuditEntry.objects.all()]
    found = [(where, name) for where, text in said for name, canary in CANARIES.items() if canary in text]
    assert [] == found


@pytest.mark.evidence("A-31")
def test_canaries__every_route_that_shows_something_is_walked() -> None:
    walked = {re.sub(r"\{\w+\}", "*", path).split("?")[0] for path in PATHS}
    shown = {
        re.sub(r"<str:\w+>", "*", "/" + route.pattern)
        for route in walk_routes()
        if route.access != ADMIN_SITE and route.name not in {"sign-in", "sign-out", "hook"}
    }
    assert set() == shown - walked


@pytest.mark.evidence("A-31")
@pytest.mark.django_db(transaction=True)
def test_canaries__are_really_in_the_database(installation: Installation) -> None:
    from django.db import connection

    installation.work()
    installation.worker()
    held = ""
    with connection.cursor() as cursor:
        for table in ("ConnectorWorkItem", "ConnectorEvent", "ConnectorIngressReceipt", "ConnectorClaimProcess"):
            cursor.execute(f"SELECT * FROM `_System_{table}`")
            held += str(cursor.fetchall())
    assert set(CANARIES) - {"payload"} == {name for name, canary in CANARIES.items() if canary in held}
