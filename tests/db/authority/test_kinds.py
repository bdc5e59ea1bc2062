"""What the Event has authority over: mirrors that were never claimed, and Events that no WorkItem names."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from integration.authority import gate, reads, service
from integration.authority.listing import DeadFilters
from integration.authority.values import Plan, Ref, RefKind, Refused, Replayed
from integration.ingress.crypto import SealedColumn, open_sealed, row_aad
from integration.projection.identity import ProjectionIdentity
from integration.values import new_id
from tests.support.authority import MARIA, PAYLOAD, World, audit_entries, change, definition, rows_of, system_rows

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
ROUTES, PACKS = "_System_ConnectorRoute", "_System_ConnectorPackInstall"
DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "RetryCount": 5, "LastError": "canary-last-error"}
MIRROR_STATES = ("pending", "retry", "blocked", "dead")
CLASSES = ("per_event", "source_projection")


def one(table: str, where: str, *params: Any) -> dict[str, Any]:
    (row,) = rows_of(table, where, *params)
    return row


def replay(ref: Ref) -> Replayed:
    plan = service.plan(ref, MARIA)
    outcome = service.replay(ref, actor=MARIA, reason="mended")
    assert isinstance(outcome, Replayed), outcome
    assert plan.refusal is None
    return outcome


def refused(ref: Ref) -> Refused:
    """Return the refusal in which plan and replay agree, nothing having been written but to the trail."""
    before = system_rows()
    plan, outcome = service.plan(ref, MARIA), service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(outcome, Refused), outcome
    assert plan.refusal is not None
    assert (plan.refusal.code, plan.refusal.sentence) == (outcome.code, outcome.sentence)
    assert system_rows() == before
    return outcome


def mirrored(world: World, state: str = "pending", *, event: dict[str, Any] | None = None, **over: Any) -> Ref:
    """Insert a dead Event and its never-claimed mirror; return the mirror's reference."""
    made = world.generation if world.execution == "source_projection" else world.work
    died = {"TerminalAt": world.now - timedelta(minutes=30)}
    return made(state, Attempt=0, event={**DEAD_EVENT, **died, **(event or {})}, **over)


def event_of(ref: Ref) -> str:
    return str(one(ITEMS, "WorkId = %s", ref.id)["EventId"])


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in after if after[name] != before[name]}


@pytest.mark.evidence("A-02", "A-04", "A-05")
@pytest.mark.parametrize("execution", CLASSES)
@pytest.mark.parametrize("state", MIRROR_STATES)
def test_mirror__is_ended_with_its_event_and_named_by_the_child(state: str, execution: str):
    world = World(execution=execution)
    ref = mirrored(world, state, LeaseToken="left", LeaseOwner="p", LeaseUntil=world.now, TargetLaneActiveKey="b" * 64)
    event_id = event_of(ref)
    event_before, item_before = one(EVENTS, "EventId = %s", event_id), one(ITEMS, "WorkId = %s", ref.id)
    listed = [(row.ref, row.owner, row.work_id) for row in reads.list_dead(DeadFilters()).rows]
    assert listed == [(Ref(id=event_id, kind=RefKind.EVENT), "event", ref.id)]
    assert (reads.get_detail(ref).owner.kind, gate.owner_of(event_id).why.rule) == ("event", 2)

    done = replay(ref)

    assert (done.original, done.original_event_id) == (Ref(id=event_id, kind=RefKind.EVENT), event_id)
    event, item = one(EVENTS, "EventId = %s", event_id), one(ITEMS, "WorkId = %s", ref.id)
    now = done.replayed_at.replace(tzinfo=None)
    assert {name: event[name] for name in changed(event_before, event)} == {"ReplayedAt": now}
    assert (item["State"], item["ReplayedAt"], item["Attempt"]) == ("dead", now, 0)
    assert item["TerminalAt"] is not None
    if state == "dead":
        assert item["TerminalAt"] == item_before["TerminalAt"]
    kept = {"LeaseToken", "LeaseOwner", "LeaseUntil", "TargetLaneActiveKey", "ProjectionActiveKey", "BlockedOn"}
    assert {item[name] for name in kept} == {None}
    child = one(ITEMS, "WorkId = %s", done.child_work_id)
    assert (child["ReplayOfWorkId"], child["EventId"], child["State"]) == (ref.id, done.child_event_id, "pending")
    assert child["Attempt"] == 0
    # Nothing of the original can be claimed: the child is the only row that is to run.
    assert [row["WorkId"] for row in rows_of(ITEMS, "State NOT IN ('dead')")] == [done.child_work_id]
    if execution == "source_projection":
        assert (child["ProjectionKey"], child["ProjectionActiveKey"]) == (item["ProjectionKey"],) * 2
        assert child["InputStartOrdinal"] == child["LaneOrdinal"] == done.lane_ordinal
        assert child["SourceScopeKey"] == item["SourceScopeKey"]
    else:
        assert (child["ProjectionKey"], child["SubjectKind"], child["SubjectId"]) == (
            None,
            "event",
            done.child_event_id,
        )


@pytest.mark.evidence("A-04")
def test_mirror__lineage_and_trail_tell_of_the_event_and_the_mirror():
    world = World()
    ref = mirrored(world)
    done = replay(ref)
    chain = reads.lineage(Ref(id=done.child_work_id or ""))
    assert [node.work_id for node in chain.ancestors] == [ref.id]
    assert [node.work_id for node in reads.lineage(ref).descendants] == [done.child_work_id]
    (entry,) = audit_entries()
    assert (entry["action"], entry["ref_kind"], entry["ref_id"]) == ("event.replayed", "event", event_of(ref))
    assert json.loads(entry["facts"])["mirror_work_id"] == ref.id
    again = refused(ref)
    assert (again.code, again.winner.actor_name, again.winner.child_work_id) == (
        "already_replayed",
        "maria",
        done.child_work_id,
    )


@pytest.mark.evidence("A-05")
@pytest.mark.parametrize("state", MIRROR_STATES)
def test_mirror__ends_before_the_child_exists(state: str):
    """The order in which the database was sent the writes."""
    from tests.db.authority.test_replay import Recorder

    ref = mirrored(World(execution="source_projection"), state)
    with Recorder() as seen:
        replay(ref)
    assert [write for write in seen.writes if write[1].startswith("_System_")] == [
        ("UPDATE", EVENTS),
        ("UPDATE", ITEMS),
        ("UPDATE", PACKS),
        ("INSERT", EVENTS),
        ("INSERT", ITEMS),
    ]


@pytest.mark.evidence("A-06")
@pytest.mark.parametrize("execution", CLASSES)
@pytest.mark.parametrize(
    ("state", "over"),
    [
        ("processing", {}),
        ("succeeded", {}),
        ("skipped", {}),
        ("cancelled", {}),
        ("awaiting_legacy_outcome", {}),
        ("legacy_outcome_unknown", {}),
        *((state, {"ReplayedAt": "2026-01-01"}) for state in MIRROR_STATES),
    ],
)
def test_mirror__that_conflicts_fails_closed(state: str, over: dict[str, Any], execution: str):
    ref = mirrored(World(execution=execution), state, **over)
    answer = refused(ref)
    assert (answer.code, answer.facts["work_id"]) == ("mirror_conflict", ref.id)


@pytest.mark.evidence("A-02")
@pytest.mark.parametrize("status", ["pending", "processing", "failed", "processed", "skipped"])
def test_mirror__is_replayed_by_its_events_death_and_not_by_its_own(status: str):
    world = World()
    ref = mirrored(world, "dead", event={"Status": status})
    assert refused(ref).code == "not_dead"
    assert reads.list_dead(DeadFilters()).rows == ()


@pytest.mark.evidence("A-08", "A-19")
@pytest.mark.parametrize("execution", CLASSES)
@pytest.mark.parametrize("over", [{}, {"ExecutionOwner": "work_item"}, {"LaneOrdinal": None}, {"ReceiptId": None}])
def test_event_only__makes_a_generation_without_lineage(execution: str, over: dict[str, Any]):
    world = World(execution=execution)
    ref = world.legacy(**over)
    before = one(EVENTS, "EventId = %s", ref.id)
    done = replay(ref)
    after, event = one(EVENTS, "EventId = %s", ref.id), one(EVENTS, "EventId = %s", done.child_event_id)
    assert {name: after[name] for name in changed(before, after)} == {
        "ReplayedAt": done.replayed_at.replace(tzinfo=None)
    }
    child = one(ITEMS, "EventId = %s", event["EventId"])
    assert (child["WorkId"], child["ReplayOfWorkId"], event["ReplayOfEventId"]) == (done.child_work_id, None, ref.id)
    assert open_sealed(event["Payload"], row_aad(SealedColumn.EVENT_PAYLOAD, event["EventId"])) == PAYLOAD
    assert (event["IdempotencyKey"], event["SourceLane"]) == (f"replay:{ref.id}", before["SourceLane"])
    if execution == "source_projection":
        assert child["ProjectionKey"] == ProjectionIdentity.of_work_item(child).key()
        assert child["ProjectionActiveKey"] == child["ProjectionKey"]
        assert child["InputStartOrdinal"] == child["LaneOrdinal"] == done.lane_ordinal
    else:
        assert child["ProjectionKey"] is None
    assert [node.event_id for node in reads.lineage(ref).descendants] == [done.child_event_id]
    assert [node.event_id for node in reads.lineage(Ref(id=child["WorkId"])).ancestors] == [ref.id]
    again = refused(ref)
    assert (again.code, again.winner.child_work_id) == ("already_replayed", done.child_work_id)


@pytest.mark.evidence("A-13")
@pytest.mark.parametrize("execution", CLASSES)
@pytest.mark.parametrize("snapshot", [None, "{}", "[1]", '"source_projection"', '{"execution": "another"}'])
def test_event_only__of_a_lane_without_a_snapshot_is_refused(execution: str, snapshot: str | None):
    ref = World(execution=execution).legacy(RouteSnapshot=snapshot)
    assert refused(ref).code == "route_snapshot_unavailable"


@pytest.mark.evidence("A-13")
def test_event_only__is_judged_by_its_snapshot_and_not_by_the_route_that_it_names():
    world = World(execution="source_projection")
    ref = world.legacy(RouteSnapshot=definition(world.kind, execution="per_event"))
    assert refused(ref).code == "execution_class_changed"
    # Nor does the route that admitted it have to be there any more.
    change(f"UPDATE {EVENTS} SET RouteId = %s, RouteSnapshot = %s", new_id(), definition(world.kind))
    change(f"UPDATE {EVENTS} SET RouteSnapshot = %s", definition(world.kind, execution="source_projection"))
    assert replay(ref).child_work_id


@pytest.mark.evidence("A-13")
def test_event_only__without_a_lane_cannot_have_been_a_projections():
    world = World()
    assert replay(world.legacy(SourceLane=None, RouteSnapshot=None)).child_work_id
    other = world.legacy(SourceLane=None, RouteSnapshot=definition(world.kind, execution="source_projection"))
    change(f"UPDATE {ROUTES} SET ExecutionClass = 'source_projection'")
    assert refused(other).code == "active_generation_in_scope"


def owned(world: World) -> Ref:
    return world.generation("dead")


def event_only(world: World) -> Ref:
    return world.legacy()


KINDS = {"work_item": owned, "mirror": mirrored, "event_only": event_only}
kinds = pytest.mark.parametrize("kind", list(KINDS))


@pytest.mark.evidence("A-11", "A-12", "A-36")
@kinds
def test_projection__is_refused_after_its_route_became_per_event(kind: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
    world.route(new_id(), world.pack_id, version=2, ExecutionClass="per_event")
    answer = refused(ref)
    assert (answer.code, dict(answer.facts)) == (
        "execution_class_changed",
        {"original": "source_projection", "route": "per_event"},
    )


@kinds
def test_per_event__is_refused_after_its_route_became_a_projections(kind: str):
    world = World()
    ref = world.work() if kind == "work_item" else KINDS[kind](world)
    change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
    world.route(new_id(), world.pack_id, version=2, ExecutionClass="source_projection")
    assert refused(ref).code == "execution_class_changed"


def lane_of(ref: Ref) -> dict[str, Any]:
    event_id = ref.id if ref.kind is RefKind.EVENT else event_of(ref)
    return {"SourceLane": one(EVENTS, "EventId = %s", event_id)["SourceLane"]}


def active(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {}


def queued(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"ProjectionActiveKey": None}


def of_another_pack(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    pack_id = new_id()
    world.pack(pack_id, status="retired", incarnation=7)
    return {"PackInstallId": pack_id, "ProjectionKey": world.identity("x", pack_install_id=pack_id).key()}


def of_another_route(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"RouteVersion": 9, "RouteId": new_id(), "ProjectionKey": "9" * 64}


def of_another_companion(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"CompanionPackName": "crm", "CompanionPackVersion": "2", "FlowVersion": "4", "ProjectionKey": "8" * 64}


def of_another_work_type(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"WorkType": "workflow_action_apply", "ProjectionKey": "7" * 64}


def of_another_key(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"ProjectionKey": "6" * 64, "SourceScopeKey": None}


def per_event_of_the_same_source(world: World, lane: dict[str, Any]) -> dict[str, Any]:
    return {"ProjectionKey": None, "ProjectionActiveKey": None, "SourceScopeKey": None, "SubjectId": new_id()}


SUCCESSORS = (
    active,
    queued,
    of_another_pack,
    of_another_route,
    of_another_companion,
    of_another_work_type,
    of_another_key,
    per_event_of_the_same_source,
)


@pytest.mark.evidence("A-07", "A-09", "A-26", "A-37")
@pytest.mark.parametrize("make", SUCCESSORS, ids=lambda make: make.__name__)
@kinds
def test_projection__conflicts_with_whatever_else_of_its_source_is_to_run(kind: str, make: Any):
    world = World(execution="source_projection")
    ref = KINDS[kind](world, "dead") if kind == "mirror" else KINDS[kind](world)
    lane = lane_of(ref)
    over = {**lane, **make(world, lane)}
    other = world.generation("pending", Attempt=0, event={"ExecutionOwner": "event"}, **over)
    answer = refused(ref)
    assert (answer.code, answer.facts["work_ids"]) == ("active_generation_in_scope", [other.id])

    change(f"UPDATE {ITEMS} SET State = 'succeeded', ProjectionActiveKey = NULL WHERE WorkId = %s", other.id)
    change(f"UPDATE {EVENTS} SET Status = 'processed' WHERE EventId = %s", event_of(other))
    assert replay(ref).child_work_id


@pytest.mark.evidence("A-26", "A-37")
@pytest.mark.parametrize(
    "state", ["processing", "retry", "blocked", "awaiting_legacy_outcome", "legacy_outcome_unknown"]
)
@kinds
def test_projection__conflicts_with_every_nonterminal_state(kind: str, state: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world, "dead") if kind == "mirror" else KINDS[kind](world)
    other = world.generation(state, **lane_of(ref))
    assert refused(ref).facts["work_ids"] == [other.id]


@pytest.mark.evidence("A-10", "A-26")
@pytest.mark.parametrize("status", ["pending", "processing", "failed"])
@kinds
def test_projection__conflicts_with_an_event_only_successor(kind: str, status: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    event_id = world.event(ExecutionOwner="event", Status=status, **lane_of(ref))
    answer = refused(ref)
    assert (answer.code, answer.facts["event_ids"]) == ("event_only_successor", [event_id])
    change(f"UPDATE {EVENTS} SET Status = 'skipped' WHERE EventId = %s", event_id)
    assert replay(ref).child_work_id


@pytest.mark.evidence("A-10")
@kinds
@pytest.mark.parametrize(
    "over",
    [
        {"Status": "pending", "ExecutionOwner": "work_item"},
        {"Status": "processed"},
        {"Status": "pending", "SourceLane": "another"},
        {"Status": "pending", "EventKind": "another"},
        {"Status": "pending", "Namespace": "another"},
    ],
)
def test_projection__does_not_wait_for_an_event_that_is_no_successor(kind: str, over: dict[str, Any]):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    world.event(**{"ExecutionOwner": "event", **lane_of(ref), **over})
    assert replay(ref).child_work_id


@pytest.mark.evidence("A-10")
@kinds
def test_projection__does_not_wait_for_an_event_inside_an_ended_interval(kind: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    lane = lane_of(ref)
    inside = world.event(ExecutionOwner="event", Status="pending", **lane)
    world.generation("succeeded", InputStartOrdinal=world.ordinal, **lane)
    assert replay(ref).child_work_id
    assert one(EVENTS, "EventId = %s", inside)["Status"] == "pending"


@pytest.mark.evidence("A-20", "A-21")
@kinds
@pytest.mark.parametrize("is_changed", [False, True])
def test_projection__keeps_its_key_under_the_same_identity_and_its_lineage_under_another(kind: str, is_changed: bool):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    lane = lane_of(ref)["SourceLane"]
    old_key = world.identity(lane).key()
    if is_changed:
        change(f"UPDATE {PACKS} SET Status = 'retired', ActiveKey = NULL")
        change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
        pack_id = new_id()
        world.pack(pack_id, incarnation=2)
        world.route(new_id(), pack_id)
    done = replay(ref)
    child = one(ITEMS, "WorkId = %s", done.child_work_id)
    assert (child["ProjectionKey"] == old_key) is not is_changed
    assert child["ProjectionKey"] == ProjectionIdentity.of_work_item(child).key()
    assert child["ReplayOfWorkId"] == (None if kind == "event_only" else ref.id)
    assert len(rows_of(ITEMS, "ProjectionKey = %s", child["ProjectionKey"])) == (
        2 if kind != "event_only" and not is_changed else 1
    )


@pytest.mark.evidence("A-34")
@kinds
def test_plan__names_the_rule_and_what_will_be_locked(kind: str):
    plan: Plan = service.plan(KINDS[kind](World(execution="source_projection")), MARIA)
    assert plan.owner is not None
    assert (plan.owner.kind, plan.owner.why.rule) == {
        "work_item": ("work_item", 1),
        "mirror": ("event", 2),
        "event_only": ("event", 3),
    }[kind]
    assert plan.lock_order == ("PACK", "EVENT", "WORK_ITEM")
    assert plan.verdicts[-1].sentence == "The child is one Event and one WorkItem, made in the same transaction."


@kinds
def test_replay__under_a_rollbacks_ownership_is_refused(kind: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    world.receipt("rollback", 2)
    answer = refused(ref)
    assert (answer.code, dict(answer.facts)) == (
        "binding_generation_stale",
        {"direction": "rollback", "owner_generation": 2},
    )
    world.receipt("forward", 3)
    assert one(ITEMS, "WorkId = %s", replay(ref).child_work_id)["OwnerGeneration"] == 3


@kinds
def test_replay__of_an_incarnation_before_its_first_cutover_waits_like_other_events(kind: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    change("DELETE FROM _System_ConnectorCutoverReceipt")
    assert one(ITEMS, "WorkId = %s", replay(ref).child_work_id)["OwnerGeneration"] == 1


@pytest.mark.evidence("A-39")
@kinds
def test_replay__resolves_definition_route_ownership_and_revision_of_this_moment(kind: str):
    world = World(execution="source_projection")
    ref = KINDS[kind](world)
    change(f"UPDATE {PACKS} SET CatalogRevision = 41, CatalogDigest = %s", "f" * 64)
    world.receipt("forward", 5)
    change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
    route_id = new_id()
    world.route(route_id, world.pack_id, version=2, FlowVersion="4", CompanionPackName="crm", CompanionPackVersion="7")
    plan = service.plan(ref, MARIA)
    told = {verdict.code: dict(verdict.facts) for verdict in plan.verdicts}
    assert told["catalog_revision_unresolved"] == {"catalog_revision": 41, "catalog_digest": "f" * 64}
    assert told["binding_generation_stale"] == {"direction": "forward", "owner_generation": 5}
    assert told["route_not_live"]["route_version"] == 2
    child = one(ITEMS, "WorkId = %s", replay(ref).child_work_id)
    resolved = ("RouteId", "RouteVersion", "FlowVersion", "CompanionPackName", "CompanionPackVersion")
    assert tuple(child[name] for name in resolved) == (route_id, 2, "4", "crm", "7")
    assert (child["CatalogRevision"], child["CatalogDigest"], child["OwnerGeneration"]) == (41, "f" * 64, 5)
