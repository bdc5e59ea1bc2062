"""The API beside Events: the same rows as the pages, bulk replays made and steered, and no word too many."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry, User
from console.permissions import AUDIT, BULK, REPLAY, VIEW
from integration import errors
from integration.callers import kept, tokens
from integration.values import Actor
from tests.support.authority import change, rows_of
from tests.support.batches import run_to_rest
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

API = "/api/v1"


class Caller:
    """A program with a token."""

    def __init__(self, user: User, *scopes: str) -> None:
        actor = Actor(user_id=user.pk, name=user.username, permissions=frozenset(user.get_all_permissions()))
        self.secret = tokens.issue(actor=actor, name="script", scopes=scopes, days=1).secret

    def get(self, path: str, query: dict[str, Any] | None = None) -> Any:
        return Client().get(f"{API}/{path}", query, headers={"Authorization": f"Bearer {self.secret}"})

    def post(self, path: str, body: dict[str, Any], key: str = "") -> Any:
        headers = {"Authorization": f"Bearer {self.secret}", "Idempotency-Key": key or str(uuid.uuid4())}
        return Client().post(f"{API}/{path}", body, content_type="application/json", headers=headers)


@pytest.fixture
def rolf(person: Callable[..., User]) -> Caller:
    return Caller(person("rolf", "Replayer"), VIEW, REPLAY, BULK)


def test_work_items__are_listed_by_state_and_page(rolf: Caller, installation: Installation) -> None:
    ids = [installation.work() for _ in range(3)]
    installation.work("processing")
    first = rolf.get("work-items", {"state": "dead", "limit": 2}).json()
    second = rolf.get("work-items", {"state": "dead", "limit": 2, "cursor": first["older"]}).json()
    assert set(ids) == {row["work_id"] for row in first["items"] + second["items"]}
    assert (2, 1, None) == (len(first["items"]), len(second["items"]), second["older"])
    one = rolf.get(f"work-items/{ids[0]}").json()
    assert (ids[0], "dead", 5) == (one["row"]["work_id"], one["row"]["state"], len(one["attempts"]))


def test_receipts__tell_no_body(rolf: Caller, installation: Installation) -> None:
    receipt_id = installation.quarantined()
    (listed,) = rolf.get("receipts", {"state": "quarantined"}).json()["items"]
    one = rolf.get(f"receipts/{receipt_id}").json()
    assert (receipt_id, receipt_id) == (listed["receipt_id"], one["row"]["receipt_id"])
    assert {"row", "body_hash", "stored_bytes", "events"} == set(one)


def test_fences__are_listed_armed_ones_apart(rolf: Caller, installation: Installation) -> None:
    armed, lifted = installation.fence(), installation.fence("other.kind")
    change("UPDATE _System_ConnectorAdmissionFence SET LiftedAt = UTC_TIMESTAMP(6) WHERE FenceId = %s", lifted)
    page = rolf.get("fences").json()
    assert ([armed], [lifted]) == (
        [fence["fence_id"] for fence in page["armed"]],
        [fence["fence_id"] for fence in page["items"]],
    )
    assert armed == rolf.get(f"fences/{armed}").json()["fence_id"]


def test_audit__needs_its_right_and_tells_the_chain(rolf: Caller, person: Callable[..., User]) -> None:
    assert 403 == rolf.get("audit").status_code
    ida = Caller(person("ida", "Auditor"), AUDIT)
    page = ida.get("audit", {"action": "api_token.issued", "actor": "rolf"}).json()
    (entry,) = AuditEntry.objects.filter(action="api_token.issued", actor_name="rolf")
    assert [(entry.id, entry.digest, sorted([BULK, REPLAY, VIEW]))] == [
        (item["id"], item["digest"], item["facts"]["scopes"]) for item in page["items"]
    ]
    assert 400 == ida.get("audit", {"cursor": "x"}).status_code


def test_cutovers__of_what_has_none_are_nothing_here(rolf: Caller, installation: Installation) -> None:
    answer = rolf.get(f"cutovers/{uuid.uuid4()}")
    assert (404, "application/problem+json") == (answer.status_code, answer["Content-Type"])


def test_cutovers__tell_who_owned_a_packs_work_and_whether_the_receipts_hold(
    rolf: Caller, installation: Installation
) -> None:
    found = rolf.get(f"cutovers/{installation.pack_id}").json()
    assert installation.pack_id == found["pack_install_id"]
    assert isinstance(found["holds"], bool)


def test_packs__are_listed_by_page_and_namespace(rolf: Caller, installation: Installation) -> None:
    Installation(namespace="beta-success", pack_name="crm-sync", kind="account.merged")
    first = rolf.get("packs", {"limit": 1}).json()
    second = rolf.get("packs", {"limit": 1, "cursor": first["older"]}).json()
    (one,), (other,) = first["items"], second["items"]
    assert ("acme-sales", "beta-success", None) == (one["namespace"], other["namespace"], second["older"])
    assert (installation.pack_id, "active") == (one["pack_install_id"], one["status"])
    (receipt,) = rows_of("_System_ConnectorCutoverReceipt", "PackInstallId = %s", installation.pack_id)
    assert (True, receipt["ReceiptId"]) == (one["is_forward"], one["newest"]["receipt_id"])
    assert [other] == rolf.get("packs", {"namespace": "beta-success"}).json()["items"]
    assert [] == rolf.get("packs", {"namespace": "nowhere"}).json()["items"]
    assert 200 == rolf.get(f"cutovers/{one['pack_install_id']}").status_code


def test_packs__need_the_right_to_view_and_a_cursor_of_theirs(rolf: Caller, person: Callable[..., User]) -> None:
    assert (400, 422) == tuple(rolf.get("packs", sent).status_code for sent in ({"cursor": "x"}, {"limit": 201}))
    assert 403 == Caller(person("ida", "Auditor"), AUDIT).get("packs").status_code
    assert 403 == Caller(User.objects.get(username="rolf"), REPLAY).get("packs").status_code


@pytest.mark.parametrize("path", ["work-items", "receipts", "fences", "packs", "batches", "connector-events"])
def test_lists__refuse_a_parameter_that_they_do_not_have(path: str, rolf: Caller) -> None:
    answer = rolf.get(path, {"stat": "canary-dead"})
    assert (400, "unknown_parameter") == (answer.status_code, answer.json()["code"])
    assert "canary" not in answer.content.decode()


def test_batch__is_made_of_a_filter_and_runs(rolf: Caller, installation: Installation) -> None:
    for _ in range(3):
        installation.work()
    made = rolf.post("batches", {"reason": "Stage names are fixed", "filter": {"namespace": "acme-sales"}}, "k")
    assert (201, 3, "running") == (made.status_code, made.json()["total"], made.json()["state"])
    again = rolf.post("batches", {"reason": "Stage names are fixed", "filter": {"namespace": "acme-sales"}}, "k")
    assert (201, "true", made.json()) == (again.status_code, again["Idempotent-Replay"], again.json())
    assert 3 == run_to_rest()
    batch_id = made.json()["id"]
    done = rolf.get(f"batches/{batch_id}").json()
    assert ("finished", 3, 0) == (done["state"], done["totals"]["replayed"], done["totals"]["left"])
    first = rolf.get(f"batches/{batch_id}/items", {"limit": 2}).json()
    second = rolf.get(f"batches/{batch_id}/items", {"limit": 2, "after": first["after"]}).json()
    assert ([1, 2], [3], None) == (
        [item["position"] for item in first["items"]],
        [item["position"] for item in second["items"]],
        second["after"],
    )
    assert [batch_id] == [batch["id"] for batch in rolf.get("batches").json()["items"]]
    (entry,) = AuditEntry.objects.filter(action="replay_batch.created")
    assert ("rolf", "api") == (entry.actor_name, entry.via)


def test_batch__a_key_stays_bound_while_nobody_knows_what_became_of_its_request(
    rolf: Caller, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.work()
    asked = {"reason": "Stage names are fixed", "filter": {"namespace": "acme-sales"}}

    def breaks(*args: Any, **kwargs: Any) -> None:
        raise errors.DatabaseUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(kept, "keep", breaks)
        assert 503 == rolf.post("batches", asked, "k").status_code
    assert 1 == len(rows_of("console_replaybatch"))
    other = rolf.post("batches", {**asked, "filter": {"namespace": "beta"}}, "k")
    assert (422, "idempotency_key_reused") == (other.status_code, other.json()["code"])
    early = rolf.post("batches", asked, "k")
    assert (409, "2") == (early.status_code, early["Retry-After"])
    change("UPDATE console_keptanswer SET under_way_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
    late = rolf.post("batches", asked, "k")
    assert (201, rows_of("console_replaybatch")[0]["id"]) == (late.status_code, late.json()["id"])


def test_batch__an_unknown_commit_is_told_and_keeps_its_key(
    rolf: Caller, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.work()

    def unknown(*args: Any, **kwargs: Any) -> None:
        raise errors.CommitUnknown

    with monkeypatch.context() as patched:
        patched.setattr("integration.batches.service.create", unknown)
        answer = rolf.post("batches", {"reason": "x", "filter": {}}, "k")
    assert (503, "commit_unknown", "60") == (answer.status_code, answer.json()["code"], answer["Retry-After"])
    assert 422 == rolf.post("batches", {"reason": "y", "filter": {}}, "k").status_code


def test_batch__a_key_is_free_again_after_a_busy_database(
    rolf: Caller, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.work()

    def busy(*args: Any, **kwargs: Any) -> None:
        raise errors.LockTimeout

    with monkeypatch.context() as patched:
        patched.setattr("integration.batches.service.create", busy)
        assert 503 == rolf.post("batches", {"reason": "x", "filter": {}}, "k").status_code
    assert 201 == rolf.post("batches", {"reason": "x", "filter": {}}, "k").status_code


def test_batch__is_made_of_ids_and_cancelled(rolf: Caller, installation: Installation) -> None:
    ref = installation.work()
    made = rolf.post("batches", {"reason": "x", "ids": [ref], "canary": 1}).json()
    ended = rolf.post(f"batches/{made['id']}/cancel", {"reason": "Not yet"}, "c")
    assert (200, "cancelled") == (ended.status_code, ended.json()["state"])
    repeated = rolf.post(f"batches/{made['id']}/cancel", {"reason": "Not yet"}, "c")
    assert (200, "true") == (repeated.status_code, repeated["Idempotent-Replay"])
    refused = rolf.post(f"batches/{made['id']}/go", {})
    assert (409, "batch_state") == (refused.status_code, refused.json()["code"])
    assert 1 == AuditEntry.objects.filter(action="replay_batch.cancelled").count()
    assert [] == rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"reason": "x"}, 400, "invalid_input"),
        ({"reason": "x", "ids": [str(uuid.uuid4())], "filter": {}}, 400, "invalid_input"),
        ({"reason": " ", "filter": {}}, 400, "invalid_input"),
        ({"reason": "x", "filter": {"replayed": True}}, 400, "invalid_input"),
        ({"reason": "x", "filter": {"nonsense": 1}}, 422, "invalid_input"),
        ({"reason": "x", "filter": {"namespace": "nowhere"}}, 409, "selection_empty"),
        ({"reason": "x", "filter": {}, "expected_digest": "0" * 64}, 409, "selection_drifted"),
        ({"reason": "x", "filter": {}, "canary": -1}, 422, "invalid_input"),
    ],
)
def test_batch__of_a_bad_request_is_not_made(
    rolf: Caller, installation: Installation, body: dict[str, Any], status: int, code: str
) -> None:
    installation.work()
    answer = rolf.post("batches", body)
    assert (status, code) == (answer.status_code, answer.json()["code"])
    assert [] == rows_of("console_replaybatch")


@pytest.mark.parametrize("scopes", [(VIEW,), (VIEW, REPLAY), (BULK,)])
def test_batch__needs_the_right_to_replay_in_bulk_at_the_door(
    scopes: tuple[str, ...], person: Callable[..., User], installation: Installation
) -> None:
    installation.work()
    rita = Caller(person("rita", "Replayer"), *scopes)
    assert (200 if VIEW in scopes else 403) == rita.get("batches").status_code
    refused = rita.post("batches", {"reason": "x", "filter": {}})
    assert (403, "permission_denied") == (refused.status_code, refused.json()["code"])
    assert "The token's scopes" in refused.json()["detail"]
    assert [] == rows_of("console_replaybatch")
    assert [] == rows_of("console_keptanswer")
