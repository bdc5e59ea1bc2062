"""Fences armed, overridden and lifted: what they stop, what they never stop, and what is kept of who did it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from integration import errors
from integration.cutover.fences import reads, service
from integration.cutover.fences.values import (
    AdmissionsUnderWay,
    FenceNotArmed,
    FenceNotFound,
    FenceState,
    OverrideNotFound,
    OverrideNotLive,
    OverrideState,
)
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.ingress.service import materialize_ready
from integration.storage import db
from integration.storage.statements import LockRank
from integration.values import Actor, new_id
from tests.support import webhooks
from tests.support.authority import audit_entries, change, rows_of

pytestmark = pytest.mark.django_db
FENCES, OVERRIDES = "_System_ConnectorAdmissionFence", "_System_ConnectorAdmissionOverride"
DELIA = Actor(user_id=21, name="delia", via="command", permissions=frozenset({CUTOVER_PERMISSION}))
HOUR = timedelta(hours=1)


@pytest.fixture
def pack_id() -> str:
    return webhooks.activate()


def arm(scope: str = "*", **over: Any) -> service.Armed:
    return service.arm_fence("demo", scope, **{"reason": "Stages are renamed", "actor": DELIA, **over})


def grant(fence_id: str, scope: str, **over: Any) -> service.Granted:
    return service.grant_override(fence_id, scope, **{"reason": "This one is urgent", "actor": DELIA, **over})


def post(*events: str) -> None:
    for number, event in enumerate(events):
        answer = webhooks.post(Client(), webhooks.deal(number, event=event), delivery_id=f"{number}-{new_id()}")
        assert answer.status_code == 200


def states() -> list[str]:
    return [row["State"] for row in webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")]


def run_out(table: str = FENCES) -> None:
    change(f"UPDATE {table} SET ExpiresAt = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")


@pytest.mark.evidence("C-14")
def test_fence__stops_materialization_and_never_the_receipt_and_nothing_is_lost(pack_id: str):
    armed = arm()
    assert (armed.is_new, armed.waited_for) == (True, (pack_id,))
    post("deal.created", "deal.updated", "deal.created")
    assert materialize_ready() == 0
    assert states() == ["received"] * 3
    assert service.lift_fence(armed.fence.fence_id, actor=DELIA).state is FenceState.LIFTED
    assert materialize_ready() == 3
    assert states() == ["materialized"] * 3
    events, receipts = webhooks.rows("Event", "LaneOrdinal"), webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")
    assert [row["ReceiptId"] for row in events] == [row["ReceiptId"] for row in receipts]


@pytest.mark.evidence("C-14")
def test_fence__of_one_kind_stops_that_kind_alone(pack_id: str):
    arm("deal.created")
    post("deal.created", "deal.updated")
    assert materialize_ready() == 1
    assert states() == ["received", "materialized"]


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("scope", ["*", "deal.lost"])
def test_fence__keeps_what_has_no_route_yet_from_quarantine(pack_id: str, scope: str):
    """A pack that routes the kind may be activated behind the fence; quarantined, it would have come too late."""
    fence = arm(scope).fence
    post("deal.lost")
    assert materialize_ready() == 0
    assert states() == ["received"]
    webhooks.activate(webhooks.variant("demo", ("- event: deal.updated", "- event: deal.lost"), ("1.0.0", "1.0.1")))
    service.lift_fence(fence.fence_id, actor=DELIA)
    assert materialize_ready() == 1
    assert states() == ["materialized"]


def test_fence__over_everything_leaves_the_bodies_sealed(pack_id: str, monkeypatch: pytest.MonkeyPatch):
    from integration.ingress import crypto, materialize

    arm()
    post("deal.created", "deal.created")
    monkeypatch.setattr(crypto, "open_sealed", lambda *_: pytest.fail("a body was opened behind a fence"))
    page = materialize.read_page(pack_id, 1, materialize.START)
    assert page is not None
    batch = materialize.materialize_page(page)
    assert (batch.held, batch.count, batch.end) == (1, 0, None)
    assert materialize.quarantine_page(page).held == 1
    assert states() == ["received"] * 2


def test_arm__twice_is_one_fence_by_its_terms(pack_id: str):
    first, again = arm(), arm(reason="Another sentence")
    assert (again.fence, again.is_new, again.waited_for) == (first.fence, False, (pack_id,))
    hour, same_hour = arm(expires_in=HOUR), arm(expires_in=HOUR)
    assert (same_hour.fence, same_hour.is_new) == (hour.fence, False)
    assert hour.fence.expires_at == hour.fence.armed_at + HOUR
    others = [arm(expires_in=2 * HOUR), arm("deal.created")]
    assert all(other.is_new for other in others)
    assert len(rows_of(FENCES)) == 4
    assert len([entry for entry in audit_entries() if entry["action"] == "admission_fence.armed"]) == 4


@pytest.mark.evidence("C-14")
def test_arm__beside_a_fence_that_lets_something_through_stops_that_too(pack_id: str):
    first = arm().fence
    override = grant(first.fence_id, "deal.created").override
    second = arm()
    assert (second.is_new, second.fence.live_overrides) == (True, ())
    assert arm().fence == second.fence
    post("deal.created")
    assert materialize_ready() == 0
    service.lift_fence(second.fence.fence_id, actor=DELIA)
    service.lift_override(override.override_id, actor=DELIA)
    again = arm()
    assert (again.is_new, again.fence.fence_id) == (False, first.fence_id)


def test_arm__for_a_time_of_which_less_is_left_is_another_fence(pack_id: str):
    arm(expires_in=HOUR)
    change(f"UPDATE {FENCES} SET ArmedAt = ArmedAt - INTERVAL 50 MINUTE, ExpiresAt = ExpiresAt - INTERVAL 50 MINUTE")
    second = arm(expires_in=HOUR)
    assert second.is_new
    assert second.fence.expires_at == second.fence.armed_at + HOUR
    assert arm(expires_in=HOUR).fence == second.fence


def test_arm__anew_after_it_was_lifted_or_ran_out_is_another_fence(pack_id: str):
    first = arm().fence
    service.lift_fence(first.fence_id, actor=DELIA)
    second = arm(expires_in=HOUR).fence
    run_out()
    assert reads.get_fence(second.fence_id).state is FenceState.EXPIRED
    third = arm(expires_in=HOUR)
    assert third.is_new
    assert {fence.fence_id for fence in reads.list_armed()} == {third.fence.fence_id}


def test_fence__that_ran_out_stops_nothing_any_more(pack_id: str):
    arm(expires_in=HOUR)
    post("deal.created")
    assert materialize_ready() == 0
    run_out()
    assert materialize_ready() == 1


def test_fence__beside_another_must_be_lifted_too(pack_id: str):
    expiring, lasting = arm(expires_in=HOUR).fence, arm().fence
    post("deal.created")
    service.lift_fence(expiring.fence_id, actor=DELIA)
    assert materialize_ready() == 0
    service.lift_fence(lasting.fence_id, actor=DELIA)
    assert materialize_ready() == 1


@pytest.mark.evidence("C-14")
def test_override__lets_its_scope_through_until_it_is_taken_back(pack_id: str):
    fence = arm().fence
    granted = grant(fence.fence_id, "deal.created")
    assert granted.is_new
    assert granted.fence.live_overrides == (granted.override,)
    again = grant(fence.fence_id, "deal.created")
    assert (again.override, again.is_new) == (granted.override, False)
    post("deal.created", "deal.updated")
    assert materialize_ready() == 1
    closed = service.lift_override(granted.override.override_id, actor=DELIA)
    assert (closed.state, closed.lifted_by) == (OverrideState.LIFTED, "delia")
    post("deal.created")
    assert materialize_ready() == 0
    assert states() == ["materialized", "received", "received"]


def test_override__ends_by_itself(pack_id: str):
    granted = grant(arm().fence.fence_id, "*", expires_in=HOUR)
    assert granted.override.expires_at == granted.override.granted_at + HOUR
    post("deal.created")
    assert materialize_ready() == 1
    run_out(OVERRIDES)
    post("deal.created")
    assert materialize_ready() == 0
    with pytest.raises(OverrideNotLive, match="has run out") as caught:
        service.lift_override(granted.override.override_id, actor=DELIA)
    assert caught.value.data_fields["state"] == "expired"
    assert grant(granted.fence.fence_id, "*", expires_in=HOUR).is_new


@pytest.mark.parametrize("end", ["lift", "run_out"])
def test_fence__that_is_over_is_neither_lifted_nor_overridden(pack_id: str, end: str):
    fence_id = arm(expires_in=HOUR).fence.fence_id
    if end == "lift":
        service.lift_fence(fence_id, actor=DELIA)
    else:
        run_out()
    before = rows_of(FENCES), rows_of(OVERRIDES)
    for act in (lambda: service.lift_fence(fence_id, actor=DELIA), lambda: grant(fence_id, "*")):
        with pytest.raises(FenceNotArmed) as caught:
            act()
        assert (caught.value.code, caught.value.exit_code) == ("fence_not_armed", errors.EXIT_REFUSED)
    assert (rows_of(FENCES), rows_of(OVERRIDES)) == before
    refused = [entry for entry in audit_entries() if entry["outcome"] == "refused"]
    assert [json.loads(entry["facts"])["code"] for entry in refused] == ["fence_not_armed"] * 2


def test_trail__tells_who_armed_overrode_closed_and_lifted_and_why(pack_id: str):
    fence = arm("deal.created", expires_in=HOUR).fence
    granted = grant(fence.fence_id, "*")
    service.lift_override(granted.override.override_id, actor=DELIA, reason="No longer urgent")
    service.lift_fence(fence.fence_id, actor=DELIA, reason="Stages are right")
    found = [entry for entry in audit_entries() if entry["ref_kind"] == "admission_fence"]
    assert [(entry["action"], entry["reason"]) for entry in found] == [
        ("admission_fence.armed", "Stages are renamed"),
        ("admission_fence.overridden", "This one is urgent"),
        ("admission_fence.closed", "No longer urgent"),
        ("admission_fence.lifted", "Stages are right"),
    ]
    (org_id,) = {row["OrgId"] for row in rows_of("_System_ConnectorNamespace")}
    for entry in found:
        assert (entry["ref_id"], entry["namespace"], entry["org_id"]) == (fence.fence_id, "demo", org_id)
        assert (entry["event_kind"], entry["actor_name"], entry["outcome"]) == ("deal.created", "delia", "done")
    assert json.loads(found[0]["facts"]) == {"seconds": 3600}


CALLS: dict[str, Callable[[Actor], object]] = {
    "arm": lambda actor: arm(actor=actor),
    "lift": lambda actor: service.lift_fence(new_id(), actor=actor),
    "grant": lambda actor: grant(new_id(), "*", actor=actor),
    "close": lambda actor: service.lift_override(new_id(), actor=actor),
}

ACTION_OF = {
    "arm": "admission_fence.armed",
    "lift": "admission_fence.lifted",
    "grant": "admission_fence.overridden",
    "close": "admission_fence.closed",
}


@pytest.mark.parametrize("name", CALLS)
def test_rights__are_asked_before_anything_is_read_and_the_refusal_is_in_the_trail(name: str):
    with pytest.raises(errors.NotAllowed):
        CALLS[name](Actor(user_id=3, name="vera", permissions=frozenset({"integration.view_connector_event"})))
    (entry,) = audit_entries()
    assert (entry["action"], entry["outcome"], entry["actor_name"]) == (ACTION_OF[name], "refused", "vera")
    assert json.loads(entry["facts"]) == {"code": "permission_denied"}
    assert (entry["ref_id"] == "") == (name in {"arm", "close"})


def test_trail__of_who_may_not_repeats_nothing_that_is_no_id():
    with pytest.raises(errors.NotAllowed):
        service.lift_fence("mine\n<b>", actor=Actor(user_id=3, name="vera", permissions=frozenset()))
    assert [entry["ref_id"] for entry in audit_entries()] == [""]


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"scope": "deal.*"}, "scope"),
        ({"expires_in": timedelta(0)}, "expires_in"),
        ({"expires_in": timedelta(days=31)}, "expires_in"),
        ({"reason": " "}, "reason"),
        ({"reason": "a\nb"}, "reason"),
        ({"wait_seconds": float("nan")}, "wait_seconds"),
        ({"wait_seconds": float("inf")}, "wait_seconds"),
        ({"wait_seconds": -1.0}, "wait_seconds"),
    ],
)
def test_arm__with_a_bad_term_changes_nothing(pack_id: str, over: dict[str, Any], field: str):
    with pytest.raises(errors.InvalidInput) as caught:
        arm(**over)
    assert caught.value.data_fields["field"] == field
    assert rows_of(FENCES) == []


def test_override__is_not_taken_back_with_a_wait_that_has_no_end(pack_id: str):
    override = grant(arm().fence.fence_id, "deal.created").override
    with pytest.raises(errors.InvalidInput) as caught:
        service.lift_override(override.override_id, actor=DELIA, wait_seconds=float("nan"))
    assert caught.value.data_fields == {"field": "wait_seconds", "found": "nan"}
    assert reads.get_override(override.override_id).state is OverrideState.LIVE


def test_what_is_not_there__is_not_found(pack_id: str):
    with pytest.raises(errors.NotFound):
        service.arm_fence("nowhere", "*", reason="x", actor=DELIA)
    for identity in (new_id(), "\u00e9", "x" * 300):
        with pytest.raises(FenceNotFound):
            service.lift_fence(identity, actor=DELIA)
        with pytest.raises(FenceNotFound):
            grant(identity, "*")
        with pytest.raises(OverrideNotFound):
            service.lift_override(identity, actor=DELIA)
    with pytest.raises(errors.NotFound):
        reads.read_status("nowhere")
    with pytest.raises(errors.NotFound):
        reads.read_effect("nowhere", "*")


def traced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[LockRank, ...]]]:
    """Note each transaction's name and the ranks that it locked."""
    seen: list[tuple[str, tuple[LockRank, ...]]] = []
    run = db.run

    def noting(unit: Callable[[db.Tx], Any], *, name: str, **options: Any) -> Any:
        def noted(tx: db.Tx) -> Any:
            try:
                return unit(tx)
            finally:
                seen.append((name, tuple(tx.lock_trace)))

        return run(noted, name=name, **options)

    monkeypatch.setattr(db, "run", noting)
    return seen


def test_locks__are_the_namespace_then_each_active_pack_alone(pack_id: str, monkeypatch: pytest.MonkeyPatch):
    newer = webhooks.activate(webhooks.variant("demo", ('version: "1.0.0"', 'version: "1.0.1"')))
    seen = traced(monkeypatch)
    armed = arm()
    assert armed.waited_for == (newer,)
    assert seen == [
        ("fences.arm", (LockRank.NAMESPACE,)),
        ("fences.list_packs", ()),
        ("fences.await_admissions", (LockRank.PACK,)),
    ]
    seen.clear()
    override = grant(armed.fence.fence_id, "*").override
    service.lift_override(override.override_id, actor=DELIA)
    service.lift_fence(armed.fence.fence_id, actor=DELIA)
    assert seen == [
        ("fences.grant_override", (LockRank.NAMESPACE,)),
        ("fences.lift_override", (LockRank.NAMESPACE, LockRank.LEAF)),
        ("fences.list_packs", ()),
        ("fences.await_admissions", (LockRank.PACK,)),
        ("fences.lift", (LockRank.NAMESPACE, LockRank.LEAF)),
    ]


def test_arm__that_waits_too_long_says_that_the_fence_is_armed(pack_id: str, monkeypatch: pytest.MonkeyPatch):
    def busy(*_: Any) -> None:
        raise errors.LockTimeout

    with monkeypatch.context() as patched:
        patched.setattr("integration.cutover.fences.barrier.lock_pack", busy)
        with pytest.raises(AdmissionsUnderWay) as caught:
            arm(wait_seconds=0)
    (fence,) = reads.list_armed()
    assert caught.value.data_fields == {"fence_id": fence.fence_id, "waited_for": 0}
    assert (caught.value.code, caught.value.retryable) == ("admissions_under_way", True)
    again = arm()
    assert (again.fence, again.is_new, again.waited_for) == (fence, False, (pack_id,))


@pytest.mark.evidence("C-14")
def test_status__shows_what_is_armed_and_what_waits_behind_it(pack_id: str):
    assert reads.read_status() == reads.Status(armed=(), waiting=())
    fence = arm().fence
    grant(fence.fence_id, "deal.updated", expires_in=HOUR)
    post("deal.created", "deal.created", "deal.updated")
    materialize_ready()
    status = reads.read_status()
    assert [(found.fence_id, len(found.live_overrides)) for found in status.armed] == [(fence.fence_id, 1)]
    (waiting,) = status.waiting
    assert (waiting.namespace, waiting.backlog.count, waiting.replays_refused) == ("demo", 2, 0)
    assert (waiting.backlog.oldest_age_seconds or -1) >= 0
    service.lift_fence(fence.fence_id, actor=DELIA)
    (waiting,) = reads.read_status("demo").waiting
    assert (reads.read_status().waiting, waiting.backlog.count) == ((), 2)


def test_past__is_paged_from_the_newest_on(pack_id: str):
    ids = [arm().fence.fence_id]
    for number in range(1, 5):
        service.lift_fence(ids[-1], actor=DELIA)
        ids.append(arm(reason=f"number {number}").fence.fence_id)
    first = reads.list_past(limit=3)
    assert [fence.fence_id for fence in first.fences] == ids[3:0:-1]
    second = reads.list_past(first.older, limit=3)
    assert ([fence.fence_id for fence in second.fences], second.older) == (ids[:1], None)
    for place in ("\u00e9", "x" * 37):
        with pytest.raises(errors.InvalidInput):
            reads.list_past(place)


def test_effect__says_what_would_stop_and_what_would_not(pack_id: str):
    post("deal.created", "deal.updated")
    materialize_ready()
    post("deal.created")
    everything = reads.read_effect("demo", "*")
    assert {"deal.created", "deal.updated"} <= set(everything.stopped)
    assert (everything.open, everything.is_unrouted, everything.received) == ((), False, 3)
    assert (everything.received_a_minute, everything.backlog.count) == (0.3, 1)
    one = reads.read_effect("demo", "deal.created")
    assert one.stopped == ("deal.created",)
    assert set(one.open) == set(everything.stopped) - {"deal.created"}
    unknown = reads.read_effect("demo", "deal.unknown")
    assert (unknown.stopped, unknown.is_unrouted) == ((), True)
    assert rows_of(FENCES) == []
