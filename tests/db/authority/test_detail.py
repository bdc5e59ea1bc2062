"""One row's page: every named field, its attempts, receipt, lineage and fences; nothing else."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integration import errors
from integration.authority import reads, service
from integration.authority.listing import DeadFilters
from integration.authority.values import Ref, Replayed
from integration.values import new_id, plain
from tests.support.authority import MARIA, World, change, rows_of
from tests.support.rows import insert

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
HIDDEN = "canary-never-shown"


def aware(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


def receipt(world: World) -> str:
    receipt_id = new_id()
    insert(
        "_System_ConnectorIngressReceipt",
        ReceiptId=receipt_id,
        PackInstallId=world.pack_id,
        Namespace=world.namespace,
        RouteKey="prospects",
        Provider="outreach",
        IdempotencyKey="f" * 64,
        BodyHash="b" * 64,
        Body=HIDDEN.encode(),
        SafeHeaders=json.dumps({"x": HIDDEN}),
        State="materialized",
        ReceivedAt=world.now,
        MaterializedAt=world.now,
    )
    return receipt_id


def attempt(ref: Ref, number: int, world: World, **over: Any) -> None:
    values = {
        "WorkId": ref.id,
        "Attempt": number,
        "OwnershipEpoch": number,
        "StartedAt": world.now + timedelta(seconds=number),
    }
    insert("_System_ConnectorExecutionAttempt", **{**values, **over})


@pytest.mark.evidence("A-38")
def test_list_and_detail__show_every_field_that_the_contract_names():
    world = World()
    parent = world.work(ReplayedAt=world.now)
    parent_event = rows_of(ITEMS, "WorkId = %s", parent.id)[0]["EventId"]
    receipt_id = receipt(world)
    ref = world.work(
        ReplayOfWorkId=parent.id,
        ReplayedAt=world.now,
        TargetLane="crm:7",
        LeaseOwner=HIDDEN,
        LeaseToken=HIDDEN,
        FailureClass=HIDDEN,
        FailureSummary=HIDDEN,
        event={
            "ReceiptId": receipt_id,
            "ReceiptIndex": 0,
            "ReplayOfEventId": parent_event,
            "TargetLane": "crm:7",
            "ClaimToken": HIDDEN,
            "ClaimedBy": HIDDEN,
            "LastError": HIDDEN,
        },
    )
    attempt(ref, 1, world, FinishedAt=world.now + timedelta(seconds=1), Outcome="retry")
    attempt(ref, 2, world, FinishedAt=world.now + timedelta(seconds=2), Outcome="lost", DispatchedAt=world.now)
    attempt(ref, 3, world)
    (item,) = rows_of(ITEMS, "WorkId = %s", ref.id)
    (event,) = rows_of(EVENTS, "EventId = %s", item["EventId"])
    (pack,) = rows_of("_System_ConnectorPackInstall")
    detail = reads.get_detail(ref)
    (listed,) = [row for row in reads.list_dead(DeadFilters()).rows if row.ref == ref]
    assert listed == detail.row
    expected = {
        "work_id": item["WorkId"],
        "event_id": item["EventId"],
        "state": item["State"],
        "work_type": item["WorkType"],
        "org_id": item["OrgId"],
        "namespace": item["Namespace"],
        "pack_install_id": item["PackInstallId"],
        "pack_name": pack["PackName"],
        "pack_version": pack["PackVersion"],
        "incarnation": pack["Incarnation"],
        "provider": event["Provider"],
        "event_kind": item["EventKind"],
        "route_version": item["RouteVersion"],
        "execution_class": "per_event",
        "source_lane": item["SourceLane"],
        "target_lane": "crm:7",
        "lane_ordinal": item["LaneOrdinal"],
        "attempt": item["Attempt"],
        "max_attempts": item["MaxAttempts"],
        "failure_count": item["FailureCount"],
        "first_failed_at": aware(item["FirstFailedAt"]),
        "last_failed_at": aware(item["LastFailedAt"]),
        "terminal_at": aware(item["TerminalAt"]),
        "replayed_at": aware(item["ReplayedAt"]),
        "replay_of_work_id": parent.id,
        "replay_of_event_id": parent_event,
        "idempotency_key": event["IdempotencyKey"],
        "delivery_id": event["DeliveryId"],
        "delivery_sequence": event["DeliverySequence"],
        "occurred_at": aware(event["OccurredAt"]),
        "received_at": aware(event["ReceivedAt"]),
    }
    shown = {field.name: getattr(detail.row, field.name) for field in dataclasses.fields(detail.row)}
    assert {name: shown.pop(name) for name in expected} == expected
    assert set(shown) == {"ref", "owner", "note"}
    assert [(entry.attempt, entry.outcome) for entry in detail.attempts] == [(1, "retry"), (2, "lost"), (3, "dead")]
    assert detail.attempts[2].finished_at == detail.row.terminal_at
    assert detail.attempts[1].dispatched_at == world.now
    assert (detail.receipt.receipt_id, detail.receipt.route_key, detail.receipt.state) == (
        receipt_id,
        "prospects",
        "materialized",
    )
    assert [node.work_id for node in detail.lineage.ancestors] == [parent.id]
    assert HIDDEN not in json.dumps(plain(detail))


@pytest.mark.evidence("A-38")
def test_list_and_detail__show_a_legacy_rows_own_facts():
    world = World()
    ref = world.legacy(LastError=HIDDEN, ClaimToken=HIDDEN, ClaimedBy=HIDDEN, ReplayedAt=world.now)
    detail = reads.get_detail(ref)
    (listed,) = reads.list_dead(DeadFilters()).rows
    assert listed == detail.row
    (event,) = rows_of(EVENTS)
    assert (detail.row.ref, detail.row.owner, detail.row.work_id) == (ref, "event", None)
    assert (detail.row.attempt, detail.row.failure_count, detail.row.max_attempts) == (5, 5, None)
    assert (detail.row.terminal_at, detail.row.replayed_at) == (aware(event["TerminalAt"]), aware(event["ReplayedAt"]))
    assert (detail.event.status, detail.event.execution_owner, detail.event.retry_count) == ("dead", "event", 5)
    assert (detail.attempts, detail.receipt) == ((), None)
    assert HIDDEN not in json.dumps(plain(detail))


@pytest.mark.parametrize("state", ["pending", "processing", "retry", "succeeded", "cancelled"])
def test_detail__opens_a_row_in_any_state(state: str):
    world = World()
    ref = world.work(state)
    detail = reads.get_detail(ref)
    assert (detail.row.state, detail.row.ref) == (state, ref)
    assert (detail.run_after is None) == (state in {"succeeded", "cancelled"})


def test_detail__tells_a_running_attempt_from_one_that_waits():
    world = World()
    running, waiting = world.work("processing", Attempt=1), world.work("retry", Attempt=1)
    attempt(running, 1, world)
    attempt(waiting, 1, world)
    (now,) = reads.get_detail(running).attempts
    (then,) = reads.get_detail(waiting).attempts
    assert (now.outcome, now.finished_at) == (None, None)
    assert (then.outcome, then.finished_at) == ("retry", reads.get_detail(waiting).row.last_failed_at)


def test_detail__of_an_event_shows_its_mirror_and_of_a_mirror_its_event():
    world = World()
    mirror = world.work("pending", Attempt=0, event={"Status": "dead", "TerminalAt": world.now})
    (item,) = rows_of(ITEMS)
    for ref in (mirror, Ref(id=item["EventId"]), Ref.parse(f"event:{item['EventId']}")):
        detail = reads.get_detail(ref)
        assert (detail.row.owner, detail.row.work_id, detail.owner.why.rule) == ("event", mirror.id, 2)
        assert detail.row.state == "dead"


@pytest.mark.parametrize("text", ["event", "work_item"])
def test_detail__of_nothing_is_not_found(text: str):
    World()
    with pytest.raises(errors.NotFound):
        reads.get_detail(Ref.parse(f"{text}:{new_id()}"))
    with pytest.raises(errors.NotFound):
        reads.lineage(Ref.parse(f"{text}:{new_id()}"))


def test_detail__of_an_events_id_under_the_name_of_a_work_item_is_not_found():
    world = World()
    legacy = world.legacy()
    with pytest.raises(errors.NotFound):
        reads.get_detail(Ref.parse(f"work_item:{legacy.id}"))


def test_detail__shows_the_fences_that_bear_on_it():
    world = World()
    ref = world.work()
    covering, overridden = world.fence("*"), world.fence(world.kind)
    world.fence("prospect.created")
    world.fence("*", LiftedAt=world.now)
    world.override(overridden, world.kind)
    fences = {fence.fence_id: fence.is_overridden for fence in reads.get_detail(ref).fences}
    assert fences == {covering: False, overridden: True}


def test_lineage__follows_generations_and_not_the_childs_event():
    world = World()
    ref = world.work()
    done = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(done, Replayed)
    # A later input moves the child on to another Event.
    moved = world.event()
    change(f"UPDATE {ITEMS} SET EventId = %s WHERE WorkId = %s", moved, done.child_work_id)
    (child,) = reads.lineage(ref).descendants
    assert (child.work_id, child.event_id) == (done.child_work_id, moved)
    assert [node.work_id for node in reads.lineage(Ref(id=done.child_work_id)).ancestors] == [ref.id]


def test_lineage__of_an_event_only_replay_reaches_the_event():
    world = World()
    origin = world.legacy(ReplayedAt=world.now)
    child = world.work("pending", Attempt=0, event={"ReplayOfEventId": origin.id})
    above = reads.lineage(child).ancestors
    assert [(node.work_id, node.event_id) for node in above] == [(None, origin.id)]
    assert [node.work_id for node in reads.lineage(origin).descendants] == [child.id]


def test_lineage__is_cut_where_it_grows_too_long(monkeypatch: pytest.MonkeyPatch):
    from integration.authority import lineage

    monkeypatch.setattr(lineage, "LINEAGE_CAP", 3)
    world = World()
    chain = [world.work()]
    for _ in range(5):
        chain.append(world.work(ReplayOfWorkId=chain[-1].id))
    above, below = reads.lineage(chain[-1]), reads.lineage(chain[0])
    assert ([node.work_id for node in above.ancestors], above.is_cut) == ([ref.id for ref in chain[2:5]], True)
    assert ([node.work_id for node in below.descendants], below.is_cut) == ([ref.id for ref in chain[1:4]], True)
    assert not reads.lineage(chain[3]).descendants[2:]
