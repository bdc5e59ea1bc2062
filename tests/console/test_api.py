"""The JSON API: the same rows, rules and rights as the pages, and problem documents for every no."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry, User
from tests.support.authority import rows_of
from tests.support.dlq import dlq
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = "/api/v1/connector-events"
PROBLEM = "application/problem+json"


def replay(client: Client, ref: str, key: str | None = None, **over: Any) -> Any:
    """Send a replay as a script with a session does: cookie, form token, key."""
    client.get("/dlq/")
    headers = {"X-CSRFToken": client.cookies["lockhouse-csrf"].value, "Idempotency-Key": key or str(uuid.uuid4())}
    body = {"reason": "Stage names are fixed", **over}
    return client.post(f"{EVENTS}/{ref}/replay", body, content_type="application/json", headers=headers)


def children(ref: str) -> list[dict[str, Any]]:
    return rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref)


@pytest.mark.evidence("A-01", "A-38")
def test_list__shows_each_row_in_the_published_shape_with_its_work_beside(
    viewer: Client, installation: Installation
) -> None:
    ref = installation.work()
    (item,) = viewer.get(EVENTS).json()["items"]
    (stored,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref)
    assert (item["event_id"], item["status"], item["namespace"]) == (stored["EventId"], "dead", "acme-sales")
    work = item["work_item"]
    assert (work["ref"], work["owner"], work["attempt"], work["max_attempts"]) == (
        f"work_item:{ref}",
        "work_item",
        5,
        5,
    )


def test_list__pages_by_cursor_and_filters(viewer: Client, installation: Installation) -> None:
    refs = {f"work_item:{installation.work()}" for _ in range(3)}
    first = viewer.get(f"{EVENTS}?limit=2").json()
    second = viewer.get(EVENTS, {"limit": 2, "cursor": first["older"]}).json()
    assert refs == {row["work_item"]["ref"] for row in first["items"] + second["items"]}
    assert (2, 1, None) == (len(first["items"]), len(second["items"]), second["older"])
    assert [] == viewer.get(f"{EVENTS}?namespace=elsewhere").json()["items"]
    assert [] == viewer.get(f"{EVENTS}?replayed=true").json()["items"]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("nonsense=1", 400, "unknown_parameter"),
        ("limit=0", 422, "invalid_input"),
        ("limit=100000", 422, "invalid_input"),
        ("owner=canary-x", 422, "invalid_input"),
        ("died_after=2026-01-01T00:00:00", 422, "invalid_input"),
        ("cursor=made-up", 400, "invalid_input"),
        ("org=%C3%A9", 400, "invalid_input"),
    ],
)
def test_list__refuses_what_it_does_not_know(viewer: Client, query: str, status: int, code: str) -> None:
    response = viewer.get(f"{EVENTS}?{query}")
    assert (status, code, PROBLEM) == (response.status_code, response.json()["code"], response["Content-Type"])
    assert "canary" not in response.content.decode()


@pytest.mark.evidence("A-38")
def test_detail__is_found_by_either_id(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    installation.fence()
    (stored,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref)
    by_work = viewer.get(f"{EVENTS}/{ref}").json()
    assert by_work == viewer.get(f"{EVENTS}/{stored['EventId']}").json()
    context = by_work["context"]
    assert ("work_item", 5, "materialized") == (
        context["owner"]["kind"],
        len(context["attempts"]),
        context["receipt"]["state"],
    )


@pytest.mark.evidence("A-15")
def test_detail__of_an_ambiguous_owner_is_a_conflict_that_names_the_candidates(
    viewer: Client, installation: Installation
) -> None:
    ref = installation.work()
    (stored,) = rows_of("_System_ConnectorWorkItem", "WorkId = %s", ref)
    other = installation.work(EventId=stored["EventId"], WorkType="workflow_action_apply")
    response = viewer.get(f"{EVENTS}/{ref}")
    assert (409, "ambiguous_owner") == (response.status_code, response.json()["code"])
    assert {ref, other} == set(response.json()["fields"]["work_ids"])


def test_plan__says_what_the_replay_then_says(replayer: Client, installation: Installation) -> None:
    good, ended = installation.work(), installation.work("succeeded")
    assert replayer.get(f"{EVENTS}/{good}/plan").json()["refusal"] is None
    plan = replayer.get(f"{EVENTS}/{ended}/plan").json()
    refused = replay(replayer, ended)
    assert 409 == refused.status_code
    assert plan["refusal"]["code"] == refused.json()["code"] == "not_dead"
    assert plan["refusal"]["sentence"] == refused.json()["detail"]
    assert 201 == replay(replayer, good).status_code


def test_plan__is_the_same_in_the_api_on_the_page_and_by_command(replayer: Client, installation: Installation) -> None:
    words = {"ok": "Agreed", "refused": "Refused", "not_reached": "Not reached"}
    refs = {installation.work(): None, installation.work("succeeded"): "not_dead"}
    # What was replayed is refused by another rule, and the child's original is asked about once more.
    assert 201 == replay(replayer, installation.work()).status_code
    refs[rows_of("_System_ConnectorWorkItem", "ReplayedAt IS NOT NULL")[0]["WorkId"]] = "already_replayed"
    for ref, code in refs.items():
        found = replayer.get(f"{EVENTS}/{ref}/plan").json()
        by_command = dlq("plan", "rolf", ref, "--json").document
        for name in ("verdicts", "lock_order", "notes"):
            assert found[name] == by_command[name], name
        assert [code] * 2 == [plan["refusal"] and plan["refusal"]["code"] for plan in (found, by_command)]
        page = html.unescape(replayer.get(f"/dlq/{ref}/").content.decode())
        shown = re.findall(r'<span class="sr">(Agreed|Refused|Not reached): </span>(?:<b>)?([^<]+)', page)
        assert shown == [(words[verdict["ruling"]], verdict["sentence"]) for verdict in found["verdicts"]]


def test_replay__makes_one_child_however_often_it_is_sent(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    first, again = replay(replayer, ref, "k-1"), replay(replayer, ref, "k-1")
    assert (201, 201) == (first.status_code, again.status_code)
    assert (None, "true") == (first.get("Idempotent-Replay"), again.get("Idempotent-Replay"))
    assert first.json() == again.json()
    assert first.json()["child_work_id"] == children(ref)[0]["WorkId"]
    assert 1 == len(children(ref))
    (entry,) = AuditEntry.objects.filter(action="work_item.replayed")
    assert ("done", "rolf", "api", "Stage names are fixed") == (
        entry.outcome,
        entry.actor_name,
        entry.via,
        entry.reason,
    )


def test_replay__of_what_is_replayed_already_names_the_winner(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    first = replay(replayer, ref).json()
    lost = replay(replayer, ref)
    assert (409, PROBLEM, "already_replayed") == (lost.status_code, lost["Content-Type"], lost.json()["code"])
    assert ("rolf", first["child_work_id"]) == (
        lost.json()["winner"]["actor_name"],
        lost.json()["winner"]["child_work_id"],
    )
    assert 1 == len(children(ref))


@pytest.mark.parametrize(
    ("over", "status"),
    [({"reason": " "}, 400), ({"reason": None}, 422), ({"reason": "x", "more": 1}, 422), ({"reason": "x" * 501}, 400)],
)
def test_replay__of_a_bad_request_writes_nothing(
    replayer: Client, installation: Installation, over: dict[str, Any], status: int
) -> None:
    ref = installation.work()
    response = replay(replayer, ref, **over)
    assert (status, PROBLEM) == (response.status_code, response["Content-Type"])
    assert [] == children(ref)


def test_replay__needs_a_key_and_a_body_that_can_be_read(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    replayer.get("/dlq/")
    headers = {"X-CSRFToken": replayer.cookies["lockhouse-csrf"].value}
    to = f"{EVENTS}/{ref}/replay"
    keyless = replayer.post(to, {"reason": "x"}, content_type="application/json", headers=headers)
    assert (400, "idempotency_key_required") == (keyless.status_code, keyless.json()["code"])
    headers["Idempotency-Key"] = "k"
    torn = replayer.post(to, '{"reason": ', content_type="application/json", headers=headers)
    assert (400, "invalid_input") == (torn.status_code, torn.json()["code"])
    assert [] == children(ref)


@pytest.mark.evidence("A-32")
def test_replay__needs_the_form_token_of_the_session(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = replayer.post(
        f"{EVENTS}/{ref}/replay",
        {"reason": "x"},
        content_type="application/json",
        headers={"Idempotency-Key": "k"},
    )
    assert (403, PROBLEM, "form_expired") == (
        response.status_code,
        response["Content-Type"],
        response.json()["code"],
    )
    assert [] == children(ref)


@pytest.mark.evidence("A-32")
def test_replay__needs_its_permission_at_the_moment_it_is_sent(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    replayer.get("/dlq/")
    headers = {"X-CSRFToken": replayer.cookies["lockhouse-csrf"].value, "Idempotency-Key": "k"}
    User.objects.get(username="rolf").groups.clear()
    response = replayer.post(
        f"{EVENTS}/{ref}/replay", {"reason": "x"}, content_type="application/json", headers=headers
    )
    assert (403, "permission_denied") == (response.status_code, response.json()["code"])
    assert [] == children(ref)


def test_answers__are_documents_whatever_the_status(viewer: Client, auditor: Client) -> None:
    nobody = Client().get(EVENTS)
    found = [
        (nobody.status_code, nobody.json()["code"]),
        *(
            (response.status_code, response.json()["code"])
            for response in (
                auditor.get(EVENTS),
                viewer.get(f"{EVENTS}/{uuid.uuid4()}"),
                viewer.get(f"{EVENTS}/nonsense"),
                viewer.get("/api/v1/no-such-thing"),
                viewer.put(EVENTS, headers={"X-CSRFToken": "x"}),
            )
        ),
    ]
    assert found[:5] == [
        (401, "signed_out"),
        (403, "permission_denied"),
        (404, "not_found"),
        (400, "invalid_input"),
        (404, "not_found"),
    ]
    assert found[5][0] == 403
    refused = viewer.get(f"{EVENTS}/{uuid.uuid4()}/replay")
    assert 403 == refused.status_code


def test_openapi__names_every_address(viewer: Client) -> None:
    document = viewer.get("/api/v1/openapi.json").json()
    assert {
        "/api/v1/connector-events",
        "/api/v1/connector-events/{ref}",
        "/api/v1/connector-events/{ref}/plan",
        "/api/v1/connector-events/{ref}/replay",
        "/api/v1/batches",
        "/api/v1/batches/{batch_id}",
        "/api/v1/batches/{batch_id}/items",
        "/api/v1/batches/{batch_id}/go",
        "/api/v1/batches/{batch_id}/cancel",
        "/api/v1/work-items",
        "/api/v1/work-items/{work_id}",
        "/api/v1/receipts",
        "/api/v1/receipts/{receipt_id}",
        "/api/v1/packs",
        "/api/v1/fences",
        "/api/v1/fences/{fence_id}",
        "/api/v1/cutovers/{pack_install_id}",
        "/api/v1/audit",
    } == set(document["paths"])
