"""An ended generation gives its active key to the one that is queued behind it, and to nobody else."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from structlog.testing import capture_logs

from integration.projection import handoff
from integration.projection.handoff import end_generation, hand_over
from integration.projection.sweep import KEYLESS_HEADS, Sweeper, find_keyless_heads
from integration.storage import db as door
from integration.storage.sql import handoffs, projections, work_items
from integration.storage.statements import LockRank
from tests.db.work.test_plans import explain, faults_of_plan
from tests.support.projections import Source, active_keys
from tests.support.work import Pack, change, item_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(db) -> Source:
    return Source(pack=Pack())


def end(work_id: str, projection_key: str | None) -> tuple[bool, list[LockRank]]:
    """End a claimed generation through the handoff; return whether it ended and what was locked."""
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'processing', Attempt = 1, OwnershipEpoch = 1,"
        " LeaseToken = 't', LeaseUntil = UTC_TIMESTAMP(6) WHERE WorkId = %s",
        work_id,
    )
    params = {"work_id": work_id, "lease_token": "t", "epoch": 1}

    def unit(tx):
        ended = end_generation(tx, work_items.COMPLETE_WORK_ITEM, params, projection_key=projection_key)
        return ended, list(tx.lock_trace)

    return door.run(unit, name="test.end")


@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("A-25", "P-24")
def test_end__gives_the_key_to_the_queued_successor_and_touches_nothing_else(source):
    other = Source(pack=source.pack, lane="contact:8")
    ended, waiting, stranger = source.generation(), source.generation(count=2, active=False), other.generation()
    before = {work_id: item_row(work_id) for work_id in (waiting, stranger)}

    assert end(ended, source.key) == (True, [LockRank.WORK_ITEM, LockRank.WORK_ITEM])

    assert active_keys() == {ended: None, waiting: source.key, stranger: other.key}
    assert item_row(ended)["State"] == "succeeded"
    after = {work_id: item_row(work_id) for work_id in (waiting, stranger)}
    changed = {name for work_id in after for name, value in after[work_id].items() if value != before[work_id][name]}
    assert changed == {"ProjectionActiveKey", "UpdatedAt"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.evidence("P-24")
def test_end__without_a_successor_leaves_the_key_free(source):
    history = [source.generation(active=False, State=state) for state in ("succeeded", "dead", "cancelled")]
    ended = source.generation()
    assert end(ended, source.key) == (True, [LockRank.WORK_ITEM])
    assert set(active_keys().values()) == {None}
    assert [item_row(work_id)["State"] for work_id in history] == ["succeeded", "dead", "cancelled"]


@pytest.mark.django_db(transaction=True)
def test_end__of_a_row_without_a_projection_hands_nothing_on(source):
    (work_id,) = source.pack.admit()
    assert end(work_id, None) == (True, [LockRank.WORK_ITEM])
    assert item_row(work_id)["State"] == "succeeded"


@pytest.mark.django_db(transaction=True)
def test_end__that_matches_nothing_hands_nothing_on(source):
    ended, waiting = source.generation(), source.generation(active=False)
    params = {"work_id": ended, "lease_token": "t", "epoch": 1}
    done = door.run(
        lambda tx: end_generation(tx, work_items.COMPLETE_WORK_ITEM, params, projection_key=source.key), name="t"
    )
    assert done is False
    assert active_keys() == {ended: source.key, waiting: None}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("over", "given"),
    [
        ({"State": "pending"}, True),
        ({"State": "blocked"}, True),
        ({"State": "pending", "Attempt": 1}, False),
        ({"State": "cancelled"}, False),
        ({"State": "processing", "Attempt": 1}, False),
        ({"State": "retry", "Attempt": 1}, False),
    ],
    ids=str,
)
def test_hand_over__gives_the_key_only_to_a_queued_generation(source, over, given):
    waiting = source.generation(active=False, **over)
    found = door.run(lambda tx: hand_over(tx, source.key), name="t")
    assert (found == waiting) is given
    assert active_keys() == {waiting: source.key if given else None}


@pytest.mark.django_db(transaction=True)
def test_hand_over__to_a_successor_that_ended_after_it_was_read_gives_nothing(source, monkeypatch):
    waiting = source.generation(active=False, State="cancelled")
    monkeypatch.setattr(handoff, "_is_queued", lambda row: True)
    assert door.run(lambda tx: hand_over(tx, source.key), name="t") is None
    assert active_keys() == {waiting: None}


@pytest.mark.evidence("P-24")
def test_sweep__finds_a_planted_keyless_head_and_nothing_else(source):
    fine = Source(pack=source.pack, lane="contact:8")
    fine.generation()
    fine.generation(active=False)
    ended = Source(pack=source.pack, lane="contact:9")
    ended.generation(active=False, State="succeeded")
    source.pack.admit(3)
    assert find_keyless_heads(page=2) == ()
    assert KEYLESS_HEADS._value.get() == 0

    source.generation(active=False, State="succeeded")
    planted = source.generation(active=False)
    blocked = Source(pack=source.pack, lane="contact:10").generation(active=False, State="blocked")
    with capture_logs() as logs:
        found = find_keyless_heads(page=2)
    assert {head.work_id for head in found} == {planted, blocked}
    assert KEYLESS_HEADS._value.get() == 2
    assert {entry["work_id"] for entry in logs if entry["event"] == "projection.keyless_head"} == {planted, blocked}


@pytest.mark.evidence("P-24")
def test_sweeper__finds_the_same_in_steps_and_says_it_at_the_end_of_a_round(source, monkeypatch):
    for number in range(5):
        Source(pack=source.pack, lane=f"contact:{number + 20}").generation()
    source.generation(active=False)
    KEYLESS_HEADS.set(0)
    sweeper = Sweeper(page=2)
    steps = 1
    while not sweeper.step():
        assert KEYLESS_HEADS._value.get() == 0
        steps += 1
    # Two pages and a bit of what is pending, one of what is blocked, and the step that finds the end.
    assert (steps, KEYLESS_HEADS._value.get()) == (6, 1)

    change("UPDATE _System_ConnectorWorkItem SET State = 'succeeded' WHERE ProjectionActiveKey IS NULL")
    while not sweeper.step():
        pass
    assert KEYLESS_HEADS._value.get() == 0


@pytest.mark.evidence("P-24")
def test_sweeper__that_meets_an_outage_begins_anew(source, monkeypatch):
    source.generation(active=False)
    sweeper = Sweeper(page=1)
    assert sweeper.step() is False
    with monkeypatch.context() as away:
        away.setattr(
            "integration.storage.db.Reader.fetch_all", lambda *_: (_ for _ in ()).throw(OperationalError(2006))
        )
        with pytest.raises(OperationalError):
            sweeper.step()
    while not sweeper.step():
        pass
    assert KEYLESS_HEADS._value.get() == 1


@pytest.mark.evidence("P-24")
def test_sweep_command__exits_with_a_code_when_it_finds_one(source):
    out = StringIO()
    call_command("sweep_projections", "--json", stdout=out)
    assert json.loads(out.getvalue()) == []

    planted = source.generation(active=False)
    out = StringIO()
    with pytest.raises(CommandError) as raised:
        call_command("sweep_projections", stdout=out)
    assert raised.value.returncode == 3
    assert planted in out.getvalue()


@pytest.mark.evidence("P-20", "P-24")
@pytest.mark.parametrize("history", [10, 1000])
def test_handoff__costs_the_same_behind_a_hundred_times_the_history(engine, source, history):
    for _ in range(history):
        source.generation(active=False, State="succeeded")
    work_id = source.generation(active=False)
    params = {
        "projection_key": source.key,
        "projection_keys": (source.key,),
        "work_id": work_id,
        "state": "pending",
        "moment": source.now,
        "queue_class": "",
        "limit": 1000,
    }
    for statement in (
        projections.FIND_NEWEST_OF_PROJECTION,
        handoffs.ACTIVATE_SUCCESSOR,
        handoffs.LIST_WAITING_GENERATIONS,
        handoffs.LIST_ACTIVE_KEYS,
        handoffs.FIND_KEYLESS_HEAD,
    ):
        assert faults_of_plan(engine, statement, params) == [], statement.name
    steps = explain(projections.FIND_NEWEST_OF_PROJECTION, params)
    assert "IX_WorkItem_ProjectionOrder" in json.dumps(steps, default=str)
    assert "filesort" not in json.dumps(steps, default=str)
    assert not [step for step in steps if engine == "tidb" and ("Sort" in step["id"] or "TopN" in step["id"])]
