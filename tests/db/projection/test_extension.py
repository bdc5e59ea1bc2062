"""Only a generation that nobody has begun with extends; whatever else is not over keeps both bounds."""

from __future__ import annotations

from typing import Any

import pytest

from integration.ingress.service import materialize_batch, materialize_ready
from integration.projection.admission import Place
from integration.states import NONTERMINAL_STATES, TERMINAL_STATES, WorkItemState
from integration.storage import db
from integration.storage.locks import lock_generations, lock_pack
from integration.storage.sql import projections
from tests.support import admission, webhooks
from tests.support.admission import event_at, generations, inputs, ranges, unowned_inputs
from tests.support.work import Row, change, item_row

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("P-03")]

TARGET_LANE = ("target_lane: \"deal.id && join(':', ['deal', to_string(deal.id)])\"", "target_lane: deal.stage")
UNBEGUN = {"State": "pending", "Attempt": 0}
#: What a generation may be while it is not over and somebody has begun with it, or may have.
BEGUN: list[dict[str, Any]] = [
    {"State": "pending", "Attempt": 1},
    *({"State": state.value, "Attempt": attempt} for state in sorted(NONTERMINAL_STATES) for attempt in (0, 1)),
]
BEGUN.remove(UNBEGUN)


@pytest.fixture
def pack_id() -> str:
    return admission.activate(TARGET_LANE)


def put(work_id: str, **columns: Any) -> None:
    for name, value in columns.items():
        change(f"UPDATE _System_ConnectorWorkItem SET {name} = %s WHERE WorkId = %s", value, work_id)


def bounds(row: Row) -> tuple[int, int, str]:
    return row["InputStartOrdinal"], row["LaneOrdinal"], row["EventId"]


def test_extend__moves_the_upper_bound_and_skips_the_superseded_event(pack_id: str):
    inputs(1)
    materialize_batch(pack_id)
    (before,) = generations()
    change("UPDATE _System_ConnectorEvent SET Status = 'failed', RetryCount = 2 WHERE LaneOrdinal = 1")
    inputs(1)
    admission.receive(webhooks.deal(1, stage="lost"))

    assert dict(materialize_batch(pack_id).placed) == {Place.EXTENDED: 1}

    (after,) = generations()
    assert ranges() == [(1, 3, True)]
    changed = {name for name in after if after[name] != before[name]}
    assert changed - {"LanePosition"} == {"EventId", "LaneOrdinal", "TargetLane", "UpdatedAt"}
    assert (after["EventId"], after["TargetLane"]) == (event_at(3)["EventId"], "lost")
    assert [(event_at(ordinal)["Status"], event_at(ordinal)["TerminalAt"] is None) for ordinal in (1, 2, 3)] == [
        ("skipped", False),
        ("skipped", False),
        ("pending", True),
    ]
    assert event_at(1)["RetryCount"] == 2
    assert unowned_inputs() == {}


@pytest.mark.parametrize("begun", BEGUN, ids=lambda case: f"{case['State']}-{case['Attempt']}")
def test_begun__keeps_both_bounds_and_later_inputs_extend_its_successor(pack_id: str, begun: dict[str, Any]):
    inputs(1, 1)
    materialize_batch(pack_id)
    (first,) = generations()
    put(first["WorkId"], **begun)

    inputs(1, 1)
    assert dict(materialize_batch(pack_id).placed) == {Place.QUEUED: 1}
    assert ranges() == [(1, 2, True), (3, 4, False)]
    inputs(1)
    assert dict(materialize_batch(pack_id).placed) == {Place.EXTENDED: 1}

    assert ranges() == [(1, 2, True), (3, 5, False)]
    assert bounds(item_row(first["WorkId"])) == bounds(first)
    assert event_at(2)["Status"] == "pending"
    assert unowned_inputs() == {}


@pytest.mark.parametrize(
    "begun",
    [
        "ExecutionOwner = 'work_item'",
        "Status = 'processing'",
        "Status = 'processed'",
        "Status = 'dead'",
        "ClaimToken = 'theirs'",
        "ReplayedAt = UTC_TIMESTAMP(6)",
    ],
)
def test_begun_by_the_event_executor__does_not_extend(pack_id: str, begun: str):
    inputs(1)
    materialize_batch(pack_id)
    change(f"UPDATE _System_ConnectorEvent SET {begun}")
    before = event_at(1)
    inputs(1)

    assert dict(materialize_batch(pack_id).placed) == {Place.QUEUED: 1}

    assert ranges() == [(1, 1, True), (2, 2, False)]
    assert event_at(1) == before


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_ended__stays_as_it_is_and_a_new_generation_is_active(pack_id: str, state: WorkItemState):
    inputs(1, 1)
    materialize_batch(pack_id)
    (first,) = generations()
    admission.claim_row(first["WorkId"])
    admission.end_row(first["WorkId"], state.value)
    before = item_row(first["WorkId"])
    inputs(1)

    assert dict(materialize_batch(pack_id).placed) == {Place.ACTIVATED: 1}

    assert ranges() == [(1, 2, False), (3, 3, True)]
    assert item_row(first["WorkId"]) == before
    assert unowned_inputs() == {}


def test_successor__gets_the_key_and_extends_until_it_is_claimed(pack_id: str):
    found = []
    for _ in range(4):
        inputs(1)
        found.append(dict(materialize_batch(pack_id).placed))
        inputs(1)
        found.append(dict(materialize_batch(pack_id).placed))
        active = next(row for row in generations() if row["ProjectionActiveKey"] is not None)
        if active["State"] == "processing":
            admission.end_row(active["WorkId"])
            active = next(row for row in generations() if row["ProjectionActiveKey"] is not None)
        admission.claim_row(active["WorkId"])

    place = Place
    assert found == [{place.ACTIVATED: 1}, {place.EXTENDED: 1}, *[{place.QUEUED: 1}, {place.EXTENDED: 1}] * 3]
    assert ranges() == [(1, 2, False), (3, 4, False), (5, 6, False), (7, 8, True)]
    assert unowned_inputs() == {}


def test_queued__that_may_not_extend__holds_the_receipt_and_loses_nothing(pack_id: str):
    inputs(1)
    materialize_batch(pack_id)
    admission.claim_row(generations()[0]["WorkId"])
    inputs(1)
    materialize_batch(pack_id)
    queued = generations()[1]
    put(queued["WorkId"], State="blocked")
    held, taken = inputs(1, 2)

    batch = materialize_batch(pack_id)

    assert (batch.count, batch.held) == (1, 1)
    assert (admission.receipt(held)[0], admission.receipt(taken)[0]) == ("received", "materialized")
    assert ranges(1) == [(1, 1, True), (2, 2, False)]
    put(queued["WorkId"], State="pending")
    assert materialize_ready() == 1
    assert ranges(1) == [(1, 1, True), (2, 4, False)]
    assert unowned_inputs() == {}


@pytest.mark.parametrize("ended", [None, "cancelled", "succeeded"])
def test_blocked__that_is_let_go__does_not_run_over_what_was_queued_behind(pack_id: str, ended: str | None):
    """It waits unclaimed again; extended, it would hold its successor's inputs a second time."""
    inputs(1)
    materialize_batch(pack_id)
    first = generations()[0]
    put(first["WorkId"], State="blocked")
    inputs(1)
    materialize_batch(pack_id)
    if ended is not None:
        put(generations()[1]["WorkId"], State=ended)
    put(first["WorkId"], State="pending")
    inputs(1)

    placed = dict(materialize_batch(pack_id).placed)

    assert placed == {Place.EXTENDED if ended is None else Place.QUEUED: 1}
    assert ranges() == (
        [(1, 1, True), (2, 3, False)] if ended is None else [(1, 1, True), (2, 2, False), (3, 3, False)]
    )
    assert bounds(item_row(first["WorkId"])) == bounds(first)
    assert unowned_inputs() == {}


def test_begun_by_the_event_executor__keeps_one_successor(pack_id: str):
    inputs(1)
    materialize_batch(pack_id)
    change("UPDATE _System_ConnectorEvent SET ClaimToken = 'theirs'")
    for _ in range(3):
        inputs(1)
        materialize_batch(pack_id)
    change("UPDATE _System_ConnectorEvent SET ClaimToken = NULL")
    inputs(1)
    materialize_batch(pack_id)

    assert ranges() == [(1, 1, True), (2, 5, False)]
    assert unowned_inputs() == {}


def test_keyless_head__that_nobody_is_ahead_of__gets_its_key_back(pack_id: str):
    inputs(1)
    materialize_batch(pack_id)
    put(generations()[0]["WorkId"], ProjectionActiveKey=None)
    assert set(unowned_inputs()) == {"keyless heads"}
    inputs(1)

    assert dict(materialize_batch(pack_id).placed) == {Place.EXTENDED: 1}

    assert ranges() == [(1, 2, True)]
    assert unowned_inputs() == {}


def test_retired_incarnation__keeps_its_generation(pack_id: str):
    inputs(1)
    materialize_ready()
    (before,) = generations()
    newer = admission.activate(TARGET_LANE, admission.NEWER)
    inputs(1)
    materialize_ready()

    assert item_row(before["WorkId"]) == before
    assert [(row["PackInstallId"], row["InputStartOrdinal"]) for row in generations()] == [(pack_id, 1), (newer, 1)]
    assert unowned_inputs() == {}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("State", "processing"),
        ("State", "retry"),
        ("State", "succeeded"),
        ("State", "blocked"),
        ("Attempt", 1),
        ("LeaseToken", "theirs"),
        ("EventId", "00000000-0000-7000-8000-000000000000"),
        ("LaneOrdinal", 2),
        ("ProjectionKey", "0" * 64),
        (None, None),
    ],
)
@pytest.mark.evidence("P-09")
def test_swap__needs_everything_that_it_relies_on(pack_id: str, column: str | None, value: object):
    inputs(1)
    materialize_batch(pack_id)
    (row,) = generations()
    if column is not None:
        put(row["WorkId"], **{column: value})
    params = {
        "work_id": row["WorkId"],
        "projection_key": row["ProjectionKey"],
        "superseded_event_id": row["EventId"],
        "event_id": "00000000-0000-7000-8000-00000000000f",
        "lane_ordinal": 2,
        "target_lane": None,
        "missing_active_key": None,
    }

    def swap(tx: db.Tx) -> int:
        lock_generations(lock_pack(tx, pack_id), [row["WorkId"]])
        return tx.execute(projections.EXTEND_GENERATION, params)

    assert db.run(swap, name="test") == (1 if column is None else 0)
