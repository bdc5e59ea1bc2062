"""Bulk replays of who may replay in bulk in some namespaces only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from console.access import service as access
from console.access.policy import BULK
from console.models import ScopeGrant
from console.permissions import REPLAY, VIEW
from integration import errors, scopes
from integration.authority.listing import DeadFilters
from integration.authority.values import Ref
from integration.batches import reads, service
from integration.batches.selection import select
from integration.batches.values import Batch, BatchNotFound, SelectionEmpty
from integration.scopes import EVERYWHERE, NOWHERE
from integration.values import Actor, new_id
from tests.support.access import account, acting, granted, let_expire
from tests.support.authority import World, rows_of
from tests.support.batches import batch_of, children_by_original, outcomes, replayer, run_to_rest
from tests.support.commands import run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-32")]
MOVES = (service.go, service.pause, service.resume, service.cancel)


@pytest.fixture
def alpha() -> World:
    return World(namespace="alpha", kind="alpha.changed")


@pytest.fixture
def beta() -> World:
    return World(namespace="beta", kind="beta.changed")


def otto(*worlds: World, permission: str = BULK) -> Actor:
    """Return an account that holds a permission in some namespaces, as it acts now."""
    user = account("otto")
    for world in worlds:
        granted(user, permission, namespace=world.namespace)
    return acting(user)


def made_by(actor: Actor, *refs: Ref, **over: object) -> Batch:
    """Make a batch of a filter that narrows nothing, or of ids, where the actor may."""
    within = actor.reach(BULK)
    selection = select(None if refs else DeadFilters(), refs or None, within=within)
    return service.create(selection, actor=actor, reason="x", **over)  # type: ignore[arg-type]


def test_filter__takes_the_rows_of_the_own_namespaces_alone(alpha: World, beta: World):
    hidden, own = alpha.work(), beta.work()
    actor = otto(beta)
    batch = made_by(actor)
    assert (1, ("beta",)) == (batch.total, reads.list_places(batch.id))
    assert 1 == run_to_rest()
    assert {own.id: 1} == children_by_original()
    assert hidden.id not in [row["ref_id"] for row in rows_of("console_replaybatchitem")]


def test_filter__of_a_namespace_elsewhere_takes_nothing(alpha: World, beta: World):
    alpha.work()
    actor = otto(beta)
    selection = select(DeadFilters(namespace="alpha"), within=actor.reach(BULK))
    assert select(DeadFilters(namespace="no-such"), within=actor.reach(BULK)).items == selection.items == ()
    with pytest.raises(SelectionEmpty):
        service.create(selection, actor=actor, reason="x")


def test_ids__elsewhere_end_as_ids_of_nothing(alpha: World, beta: World):
    hidden, own, nothing = alpha.work(), beta.work(), Ref(id=new_id())
    batch = made_by(otto(beta), hidden, own, nothing)
    assert 3 == run_to_rest()
    ended = {row["ref_id"]: (row["outcome"], row["code"]) for row in rows_of("console_replaybatchitem")}
    assert ended[hidden.id] == ended[nothing.id] == ("vanished", "not_found")
    assert {own.id: 1} == children_by_original()
    assert ("beta",) == reads.list_places(batch.id)
    with pytest.raises(SelectionEmpty):
        made_by(otto(), hidden, nothing)


def test_ids__where_one_may_replay_row_by_row_only_are_not_replayed_in_bulk(alpha: World, beta: World):
    single, own = alpha.work(), beta.work()
    granted(account("otto"), REPLAY, namespace="alpha")
    batch = made_by(otto(beta), single, own)
    run_to_rest()
    assert {"permission_denied", "replayed"} == set(outcomes(batch.id))
    assert {own.id: 1} == children_by_original()


def test_selection__of_somebody_who_may_more_is_refused(alpha: World, beta: World):
    alpha.work()
    beta.work()
    with pytest.raises(errors.NotAllowed):
        service.create(select(DeadFilters()), actor=otto(beta), reason="x")
    assert [] == rows_of("console_replaybatch")


def test_selection__of_somebody_who_may_replay_row_by_row_is_refused(beta: World):
    beta.work()
    with pytest.raises(errors.NotAllowed):
        service.create(select(DeadFilters(namespace="beta")), actor=otto(beta, permission=REPLAY), reason="x")
    assert [] == rows_of("console_replaybatch")


def _revoke(grant: ScopeGrant) -> None:
    access.revoke(grant.id, reason="Enough", actor=acting(account("bruno", "Admin")))


@pytest.mark.parametrize("take_away", [_revoke, let_expire])
def test_right__that_goes_while_it_runs_stops_it(take_away: Callable[[ScopeGrant], None], alpha: World, beta: World):
    for world in (alpha, beta):
        for _ in range(3):
            world.work()
    user = account("otto")
    granted(user, BULK, namespace="beta")
    grant = granted(user, BULK, namespace="alpha")
    batch = made_by(acting(user), canary=1)
    assert (6, 1) == (batch.total, run_to_rest())
    service.go(batch.id, actor=acting(user))
    take_away(grant)
    assert 0 == run_to_rest()
    halted = reads.get_batch(batch.id)
    assert ("halted", "permission_denied") == (halted.state, halted.halt_code)
    assert 1 == sum(children_by_original().values())


def test_batch__is_seen_by_who_may_look_into_all_its_namespaces(alpha: World, beta: World):
    alpha.work()
    beta.work()
    keeper = replayer("rolf")
    of_both, of_beta = batch_of(keeper), batch_of(keeper, filters=DeadFilters(namespace="beta"))
    of_nothing = batch_of(keeper, selection=select(refs=[Ref(id=new_id())]))
    one, two = otto(beta).reach(VIEW), otto(alpha, beta).reach(VIEW)
    for within, seen in (
        (EVERYWHERE, [of_nothing, of_beta, of_both]),
        (two, [of_beta, of_both]),
        (one, [of_beta]),
        (NOWHERE, []),
    ):
        assert [batch.id for batch in seen] == [batch.id for batch in reads.list_batches(within=within).batches]
        for batch in (of_both, of_beta, of_nothing):
            if batch in seen:
                assert batch == reads.get_batch(batch.id, within=within)
            else:
                with pytest.raises(BatchNotFound):
                    reads.get_batch(batch.id, within=within)


def test_list__is_paged_without_those_of_others(alpha: World, beta: World):
    keeper, within = replayer("rolf"), otto(beta).reach(VIEW)
    alpha.work()
    beta.work()
    own = []
    for _ in range(3):
        batch_of(keeper)
        own.append(batch_of(keeper, filters=DeadFilters(namespace="beta")).id)
    page, met = reads.list_batches(limit=2, within=within), []
    while True:
        met += [batch.id for batch in page.batches]
        if page.older is None:
            break
        page = reads.list_batches(page.older, limit=2, within=within)
    assert own[::-1] == met


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_move__of_a_batch_elsewhere_is_that_of_none(move: Callable[..., Batch], alpha: World, beta: World):
    alpha.work()
    batch = batch_of(replayer("rolf"))
    for ref in (batch.id, new_id()):
        with pytest.raises(BatchNotFound):
            move(ref, actor=otto(beta))
    granted(account("otto"), VIEW, namespace="alpha")
    with pytest.raises(errors.NotAllowed):
        move(batch.id, actor=otto(beta))
    assert "running" == reads.get_batch(batch.id).state


def test_move__of_a_batch_in_the_own_place_goes_through(beta: World):
    beta.work()
    batch = batch_of(replayer("rolf"))
    actor = otto(beta)
    assert "paused" == service.pause(batch.id, actor=actor).state
    assert "running" == service.resume(batch.id, actor=actor).state
    assert "cancelled" == service.cancel(batch.id, actor=actor).state


def test_command__has_the_same_places(alpha: World, beta: World):
    hidden, own = alpha.work(), beta.work()
    otto(beta)
    made = run("dlq", "batch", "create", "--as", "otto", "--all", "--reason", "x", "--json")
    assert (0, 1) == (made.code, made.document["total"])
    of_alpha = batch_of(replayer("rolf"), filters=DeadFilters(namespace="alpha"))
    listed = run("dlq", "batch", "list", "--as", "otto", "--json").document["batches"]
    assert [made.document["id"]] == [batch["id"] for batch in listed]
    for verb in ("show", "pause", "cancel"):
        there, nowhere = (run("dlq", "batch", verb, "--as", "otto", ref) for ref in (of_alpha.id, new_id()))
        assert (4, there.err) == (there.code, nowhere.err)
    run_to_rest()
    assert {hidden.id: 1, own.id: 1} == children_by_original()


def test_control__without_the_scope_the_batch_would_be_seen(alpha: World, beta: World, monkeypatch: pytest.MonkeyPatch):
    alpha.work()
    batch, actor = batch_of(replayer("rolf")), otto(beta)
    monkeypatch.setattr(scopes.Scope, "covers", lambda self, namespace: True)
    assert batch.id == reads.get_batch(batch.id, within=actor.reach(VIEW)).id
    assert "paused" == service.pause(batch.id, actor=actor).state
