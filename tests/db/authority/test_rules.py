"""Every refusal: its code, its sentence, its next step, and that nothing was written; plan and replay agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from integration.authority import service
from integration.authority.values import VIEW_PERMISSION, Ref, Refused, Replayed, Ruling
from integration.values import Actor, new_id
from tests.support.authority import MARIA, World, audit_entries, change, definition, rows_of, system_rows

pytestmark = pytest.mark.django_db
ITEMS, EVENTS = "_System_ConnectorWorkItem", "_System_ConnectorEvent"
PACKS, ROUTES = "_System_ConnectorPackInstall", "_System_ConnectorRoute"


def not_there(_: World) -> Ref:
    return Ref(id=new_id())


def ambiguous(world: World) -> Ref:
    ref = world.work()
    event_id = rows_of(ITEMS)[0]["EventId"]
    world.work(event_id=event_id, WorkType="workflow_action_apply", Attempt=0, State="pending", TerminalAt=None)
    return ref


def reconciled(world: World) -> Ref:
    return world.work("reconciled_legacy_terminal", Attempt=0, event={"Status": "dead", "TerminalAt": world.now})


def replayed_before(world: World) -> Ref:
    return world.work(ReplayedAt=world.now)


def with_a_child(world: World) -> Ref:
    ref = world.work()
    world.work("pending", Attempt=0, ReplayOfWorkId=ref.id)
    return ref


def fenced_by_the_event(world: World) -> Ref:
    return world.work(event={"ReplayedAt": world.now})


def mirror_in(state: str) -> Callable[[World], Ref]:
    def make(world: World) -> Ref:
        return world.work(state, Attempt=0, event={"Status": "dead", "TerminalAt": world.now})

    return make


def replayed_mirror(world: World) -> Ref:
    return world.work("dead", Attempt=0, ReplayedAt=world.now, event={"Status": "dead", "TerminalAt": world.now})


def retired_pack(world: World) -> Ref:
    ref = world.work()
    change(f"UPDATE {PACKS} SET Status = 'retired', ActiveKey = NULL")
    return ref


def other_pack_is_active(world: World) -> Ref:
    ref = retired_pack(world)
    world.pack(new_id(), name="salesloft")
    return ref


def fence(scope: str, **over) -> Callable[[World], Ref]:
    def make(world: World) -> Ref:
        world.fence(scope, **over)
        return world.work()

    return make


def fence_with_an_override_that_ended(world: World) -> Ref:
    fence_id = world.fence("*")
    world.override(fence_id, world.kind, ExpiresAt=world.now - timedelta(minutes=1))
    world.override(fence_id, world.kind, LiftedAt=world.now)
    world.override(fence_id, "prospect.created")
    return world.work()


def swept_route(world: World) -> Ref:
    ref = world.work()
    change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
    return ref


def route_of_another_kind(world: World) -> Ref:
    ref = world.work()
    change(f"UPDATE {ROUTES} SET EventKind = 'prospect.created', LiveKey = 'x'")
    return ref


def now_a_projection(world: World) -> Ref:
    ref = world.work()
    change(f"UPDATE {ROUTES} SET ExecutionClass = 'source_projection'")
    return ref


def was_a_projection(world: World) -> Ref:
    return world.work(ProjectionKey="a" * 64)


def unreadable_definition(world: World) -> Ref:
    ref = world.work()
    change(f"UPDATE {ROUTES} SET Definition = %s", '{"event": 1}')
    return ref


def projection_without_a_lane(world: World) -> Ref:
    ref = world.work(event={"SourceLane": None}, ProjectionKey="a" * 64, SourceLane=None)
    change(f"UPDATE {ROUTES} SET ExecutionClass = 'source_projection'")
    return ref


def lane_without_snapshot(world: World) -> Ref:
    return world.legacy(RouteSnapshot=None)


def in_state(state: str) -> Callable[[World], Ref]:
    def make(world: World) -> Ref:
        return world.work(state)

    return make


def rolled_back(world: World) -> Ref:
    world.receipt("rollback", 2)
    return world.work()


def living_event(world: World) -> Ref:
    return world.legacy(Status="failed", TerminalAt=None)


def replayed_event(world: World) -> Ref:
    return world.legacy(ReplayedAt=world.now)


REFUSALS = [
    ("not_found", not_there),
    ("ambiguous_owner", ambiguous),
    ("legacy_reconciled", reconciled),
    *(
        ("not_dead", in_state(state))
        for state in ("pending", "processing", "retry", "blocked", "succeeded", "skipped", "cancelled")
    ),
    ("not_dead", in_state("awaiting_legacy_outcome")),
    ("not_dead", in_state("legacy_outcome_unknown")),
    ("not_dead", living_event),
    ("already_replayed", replayed_before),
    ("already_replayed", with_a_child),
    ("already_replayed", replayed_event),
    ("event_replay_fence", fenced_by_the_event),
    *(
        ("mirror_conflict", mirror_in(state))
        for state in ("processing", "succeeded", "skipped", "cancelled", "awaiting_legacy_outcome")
    ),
    ("mirror_conflict", replayed_mirror),
    ("pack_not_active", retired_pack),
    ("pack_not_active", other_pack_is_active),
    ("admission_fenced", fence("*")),
    ("admission_fenced", fence("prospect.updated")),
    ("admission_fenced", fence_with_an_override_that_ended),
    ("route_not_live", swept_route),
    ("route_not_live", route_of_another_kind),
    ("route_snapshot_unavailable", lane_without_snapshot),
    ("execution_class_changed", now_a_projection),
    ("execution_class_changed", was_a_projection),
    ("catalog_revision_unresolved", unreadable_definition),
    ("active_generation_in_scope", projection_without_a_lane),
    ("binding_generation_stale", rolled_back),
]
NAMES = [f"{code}-{make.__name__}-{number}" for number, (code, make) in enumerate(REFUSALS)]


@pytest.mark.parametrize(("code", "make"), REFUSALS, ids=NAMES)
def test_replay__refuses_with_the_plans_code_and_writes_only_to_the_trail(code: str, make: Callable[[World], Ref]):
    world = World()
    ref = make(world)
    before = system_rows()
    plan = service.plan(ref, MARIA)
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert plan.refusal is not None
    assert (plan.refusal.code, answer.code) == (code, code)
    assert (answer.sentence, answer.next_step) == (plan.refusal.sentence, plan.refusal.next_step)
    assert answer.sentence
    assert answer.next_step
    assert system_rows() == before
    (entry,) = audit_entries()
    assert (entry["outcome"], f'"code":"{code}"' in entry["facts"]) == ("refused", True)


@pytest.mark.parametrize(
    "make",
    [
        fence("prospect.created"),
        fence("*", LiftedAt="2026-01-01"),
        fence("*", ExpiresAt="2026-01-01"),
        fence("*", Namespace="other-namespace"),
    ],
)
def test_replay__passes_a_fence_that_does_not_cover_it(make: Callable[[World], Ref]):
    ref = make(World())
    assert service.plan(ref, MARIA).refusal is None
    assert isinstance(service.replay(ref, actor=MARIA, reason="x"), Replayed)


@pytest.mark.parametrize("scope", ["*", "prospect.updated"])
def test_replay__passes_a_fence_with_a_live_override(scope: str):
    world = World()
    world.override(world.fence("*"), scope, ExpiresAt=world.now + timedelta(hours=1))
    ref = world.work()
    assert isinstance(service.replay(ref, actor=MARIA, reason="x"), Replayed)


def test_replay__refuses_a_route_that_is_not_the_confirmed_one():
    world = World()
    ref = world.work()
    before = system_rows()
    answer = service.replay(ref, actor=MARIA, reason="x", route=2)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.facts["confirmed"], answer.facts["route_version"]) == ("route_not_live", 2, 1)
    assert (service.plan(ref, MARIA, route=2).refusal or answer).code == "route_not_live"
    assert system_rows() == before
    assert isinstance(service.replay(ref, actor=MARIA, reason="x", route=1), Replayed)


@pytest.mark.evidence("A-32", "K-10")
@pytest.mark.parametrize(
    "permissions", [frozenset(), frozenset({VIEW_PERMISSION}), frozenset({"integration.view_audit"})]
)
def test_replay__asks_for_both_permissions_at_request_time(permissions: frozenset[str]):
    world = World()
    ref = world.work()
    nobody = Actor(user_id=9, name="victor", permissions=permissions)
    before = system_rows()
    answer = service.replay(ref, actor=nobody, reason="x")
    assert isinstance(answer, Refused)
    assert (answer.code, answer.http_status, answer.exit_code) == ("permission_denied", 403, 5)
    assert system_rows() == before
    assert audit_entries()[0]["outcome"] == "refused"


def test_plan__tells_nothing_to_whoever_may_not_view():
    world = World()
    ref = world.work()
    stranger = Actor(user_id=9, name="victor")
    plan = service.plan(ref, stranger)
    assert (plan.owner, plan.target, plan.notes) == (None, None, ())
    assert plan.verdicts[0].ruling is Ruling.REFUSED
    assert {verdict.ruling for verdict in plan.verdicts[1:]} == {Ruling.NOT_REACHED}
    there, not_there_ = (service.replay(item, actor=stranger, reason="x") for item in (ref, Ref(id=new_id())))
    assert there == not_there_


def test_plan__shows_every_rule_to_whoever_may_view_only():
    world = World()
    plan = service.plan(world.work(), Actor(user_id=9, name="victor", permissions=frozenset({VIEW_PERMISSION})))
    assert (plan.refusal.code, plan.owner.kind) == ("permission_denied", "work_item")
    assert {verdict.ruling for verdict in plan.verdicts[1:]} == {Ruling.OK}


def test_plan__says_where_the_child_goes_and_what_it_overtakes():
    world = World()
    ref = world.work(event={"RouteVersion": 4})
    plan = service.plan(ref, MARIA)
    assert (plan.target.pack_install_id, plan.target.route_version, plan.target.flow) == (
        world.pack_id,
        1,
        "prospect_sync 3",
    )
    assert len(plan.notes) == 2
    assert [verdict.code for verdict in plan.verdicts] == [
        "permission_denied",
        "not_found",
        "schema_unavailable",
        "ambiguous_owner",
        "legacy_reconciled",
        "not_dead",
        "already_replayed",
        "event_replay_fence",
        "mirror_conflict",
        "pack_not_active",
        "admission_fenced",
        "route_not_live",
        "route_snapshot_unavailable",
        "execution_class_changed",
        "active_generation_in_scope",
        "event_only_successor",
        "catalog_revision_unresolved",
        "binding_generation_stale",
        "materialization_failed",
    ]


def test_plan__writes_nothing():
    world = World()
    ref = world.work()
    before = system_rows()
    assert service.plan(ref, MARIA).refusal is None
    assert (system_rows(), audit_entries()) == (before, [])


@pytest.mark.evidence("A-27")
def test_replay__that_meets_a_rotated_pack_under_its_lock_rolls_back(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    after = overtake(monkeypatch, lambda: change(f"UPDATE {PACKS} SET Status = 'retired', ActiveKey = NULL"))
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "pack_not_active"
    assert system_rows() == after[0]


@pytest.mark.evidence("A-28")
def test_replay__that_meets_a_swept_route_under_its_lock_rolls_back(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    after = overtake(monkeypatch, lambda: change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL"))
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "route_not_live"
    assert system_rows() == after[0]


def test_replay__follows_a_route_that_was_replaced_before_its_lock_only_if_it_was_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
):
    world = World()
    ref, other = world.work(), world.work()

    def replace() -> None:
        change(f"UPDATE {ROUTES} SET Status = 'swept', LiveKey = NULL")
        world.route(new_id(), world.pack_id, version=2, Definition=definition(world.kind, version=2))

    overtake(monkeypatch, replace)
    answer = service.replay(ref, actor=MARIA, reason="x", route=1)
    assert isinstance(answer, Refused)
    assert answer.code == "route_not_live"
    done = service.replay(other, actor=MARIA, reason="x")
    assert isinstance(done, Replayed)
    assert done.route_version == 2


def test_replay__that_meets_a_fence_armed_before_its_lock_rolls_back(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    after = overtake(monkeypatch, lambda: world.fence("*"))
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(answer, Refused)
    assert answer.code == "admission_fenced"
    assert system_rows() == after[0]


def overtake(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[dict]:
    """Let something happen between a replay's reading and its first lock; return the rows as that left them."""
    real = service.gather.read_facts
    left: list[dict] = []

    def overtaken(*arguments, **options):
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        act()
        left.append(system_rows())
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    return left
