"""Work, receipts, lanes and incarnations of the namespaces in which a reader may look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from integration.cutover.reads import IncarnationFilters, list_incarnations
from integration.errors import InvalidInput
from integration.ingress.receipt_reads import list_receipts
from integration.scopes import EVERYWHERE, NOWHERE, Place, Scope
from integration.states import ReceiptState, WorkItemState
from integration.storage.db import _adapt
from integration.storage.sql import cutover_pages, namespace_lists
from integration.storage.sql import lanes as lane_sql
from integration.work.figures import count_states
from integration.work.keys import _FAR, _LAST_ID
from integration.work.lanes import LaneFilters, read_lanes
from integration.work.reads import list_work
from tests.db.work.test_plans import explain, faults_of_plan
from tests.support.rows import Installation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.evidence("A-32")]


@pytest.fixture
def worlds() -> list[Installation]:
    """Three namespaces whose rows came and ended in turns."""
    made = [
        Installation(namespace=name, kind=f"{name}.changed", pack_name=name, provider=name)
        for name in ("alpha", "beta", "gamma")
    ]
    for minutes in range(5):
        for world in made:
            world.work(ended_ago=timedelta(minutes=minutes))
            world.work("pending")
            world.quarantined()
    for world in made:
        world.work("blocked", Attempt=0, BlockedOn="account.created", TargetLane="account:1")
    return made


def within(*worlds: Installation) -> Scope:
    return Scope.of(Place(org_id=world.org_id, namespace=world.namespace) for world in worlds)


def down(page_of: Callable[[str | None], Any]) -> list[Any]:
    """Return every row, page by page to the end."""
    page = page_of(None)
    rows = list(page.rows)
    while page.older is not None:
        page = page_of(page.older)
        rows += page.rows
    return rows


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("state", [WorkItemState.DEAD, WorkItemState.PENDING])
def test_work__of_two_namespaces_is_everybodys_without_the_third(
    worlds: list[Installation], state: WorkItemState, limit: int
):
    everything = [row for row in list_work(state=state, cursor=None, limit=200).rows if row.namespace != "beta"]
    wanted = [row.work_id for row in everything]
    if state is WorkItemState.PENDING:
        wanted.sort()
    scope = within(worlds[0], worlds[2])
    found = down(lambda cursor: list_work(state=state, cursor=cursor, limit=limit, within=scope))
    assert wanted == [row.work_id for row in found]
    page = list_work(state=state, cursor=None, limit=limit, within=scope)
    while page.older is not None:
        page = list_work(state=state, cursor=page.older, limit=limit, within=scope)
    back = [row.work_id for row in page.rows]
    while page.newer is not None:
        page = list_work(state=state, cursor=page.newer, limit=limit, within=scope)
        back = [row.work_id for row in page.rows] + back
    assert wanted == back


def test_work__of_nowhere_and_of_a_namespace_elsewhere_is_none(worlds: list[Installation]):
    for scope, name in ((NOWHERE, None), (within(worlds[0]), "beta"), (EVERYWHERE, "no-such")):
        for state in (WorkItemState.DEAD, WorkItemState.PENDING):
            page = list_work(state=state, cursor=None, within=scope, namespace=name)
            assert ((), None, None) == (page.rows, page.newer, page.older)
    with pytest.raises(InvalidInput, match="name the state"):
        list_work(state=None, cursor=None, within=within(worlds[0]))


@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize("state", [None, ReceiptState.QUARANTINED, ReceiptState.MATERIALIZED])
def test_receipts__of_two_namespaces_are_everybodys_without_the_third(
    worlds: list[Installation], state: ReceiptState | None, limit: int
):
    everything = list_receipts(state=state, cursor=None, limit=500).rows
    wanted = sorted(
        (row for row in everything if row.namespace != "beta"),
        key=lambda row: (row.received_at, row.receipt_id),
        reverse=True,
    )
    scope = within(worlds[0], worlds[2])
    found = down(lambda cursor: list_receipts(state=state, cursor=cursor, limit=limit, within=scope))
    assert [row.receipt_id for row in wanted] == [row.receipt_id for row in found]
    assert () == list_receipts(state=state, cursor=None, within=scope, namespace="beta").rows
    assert () == list_receipts(state=state, cursor=None, within=NOWHERE).rows


def test_lanes__are_those_of_the_own_namespaces(worlds: list[Installation]):
    held = read_lanes(within=within(worlds[0], worlds[2])).held
    assert ["alpha", "gamma"] == sorted(lane.namespace for lane in held)
    assert () == read_lanes(LaneFilters(namespace="beta"), within=within(worlds[0])).held
    assert () == read_lanes(within=NOWHERE).held


def test_states__are_counted_in_the_own_namespaces(worlds: list[Installation]):
    found = {state: count.value for state, count in count_states(("alpha", "gamma")).items()}
    assert found == {"pending": 10, "processing": 0, "retry": 0, "blocked": 2, "received": 0, "quarantined": 10}
    capped = count_states(("alpha", "gamma"), cap=7)["pending"]
    assert (7, True) == (capped.value, capped.capped)
    assert {0} == {count.value for count in count_states(()).values()}


@pytest.mark.parametrize("limit", [1, 50])
def test_incarnations__are_those_of_the_own_namespaces(worlds: list[Installation], limit: int):
    scope = within(worlds[0], worlds[2])
    found = down(lambda cursor: list_incarnations(None, cursor, limit, within=scope))
    assert [worlds[0].pack_id, worlds[2].pack_id] == [row.pack_install_id for row in found]
    assert () == list_incarnations(IncarnationFilters(namespace="beta"), within=scope).rows
    assert () == list_incarnations(within=NOWHERE).rows


def test_lists__read_one_statement_a_namespace(worlds: list[Installation], django_assert_max_num_queries: Any):
    scope = within(*worlds)
    for read in (
        lambda: list_work(state=WorkItemState.DEAD, cursor=None, within=scope),
        lambda: list_receipts(state=None, cursor=None, within=scope),
        lambda: list_incarnations(within=scope),
    ):
        with django_assert_max_num_queries(len(worlds) + 1):
            read()


def test_statements__read_a_range_in_its_order(worlds: list[Installation], engine: str):
    params = _adapt(
        {
            "namespace": "alpha",
            "namespaces": ("alpha", "gamma"),
            "state": "dead",
            "moment": _FAR,
            "work_id": _LAST_ID,
            "receipt_id": _LAST_ID,
            "pack_name": "",
            "incarnation": 0,
            "limit": 51,
            "cap": 100,
            "lanes": 10,
        }
    )
    in_order = (
        namespace_lists.LIST_ENDED_WORK_OF_NAMESPACE_OLDER,
        namespace_lists.LIST_ENDED_WORK_OF_NAMESPACE_NEWER,
        namespace_lists.LIST_WAITING_WORK_OF_NAMESPACE_LATER,
        namespace_lists.LIST_WAITING_WORK_OF_NAMESPACE_SOONER,
        namespace_lists.LIST_RECEIPTS_OF_NAMESPACE,
        cutover_pages.LIST_INCARNATIONS_WITHIN_AFTER,
    )
    merged = (
        namespace_lists.LIST_RECEIPTS_OF_NAMESPACE_IN_ANY_STATE,
        namespace_lists.COUNT_STATES_OF_NAMESPACE,
        lane_sql.LIST_SAMPLED_LANES_OF_NAMESPACE,
    )
    for statement in in_order + merged:
        assert [] == faults_of_plan(engine, statement, params), statement.name
    for statement in in_order:
        for step in explain(statement, params):
            if engine == "tidb":
                assert not {"Sort", "TopN"} & {part.strip("│├└─ ").partition("_")[0] for part in [str(step["id"])]}
            else:
                assert "filesort" not in (step["Extra"] or ""), statement.name
