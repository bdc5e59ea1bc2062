"""The payload reader reads a generation's own interval and identity, in ordinal order, or says what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from integration.ingress.crypto import SealBroken, SealedColumn, open_sealed, row_aad
from integration.projection import inputs as reading
from integration.projection.inputs import InputsMissing, MissingWhy, count_inputs, open_inputs, read_generation
from integration.storage import db as door
from integration.storage.sql import inputs as sql
from tests.db.work.test_plans import explain, faults_of_plan
from tests.support.projections import Source
from tests.support.work import Pack, Row, change, event_row

pytestmark = pytest.mark.django_db


def opened(row: Row) -> Mapping[str, Any]:
    plain = open_sealed(bytes(row["Payload"]), row_aad(SealedColumn.EVENT_PAYLOAD, row["EventId"]))
    return dict(json.loads(plain))


@pytest.fixture
def source(db) -> Source:
    return Source(pack=Pack())


def numbers(work_id: str, **options: Any) -> list[int]:
    return [item.payload["n"] for item in open_inputs(work_id, opened, **options)]


@pytest.mark.evidence("P-05")
def test_inputs__are_read_by_ordinal_whatever_clocks_statuses_and_sequences_say(source):
    statuses = ["dead", "processed", "skipped", "failed", "pending"]
    rows = [
        source.event(
            OccurredAt=source.now - timedelta(hours=place),
            ReceivedAt=source.now - timedelta(days=place),
            DeliverySequence=100 - place,
            Status=statuses[place],
        )
        for place in range(5)
    ]
    work_id = source.generation(rows)
    change("UPDATE _System_ConnectorEvent SET Status = 'dead' WHERE EventId = %s", rows[-1]["EventId"])

    found = list(open_inputs(work_id, opened))
    assert [item.ordinal for item in found] == [row["LaneOrdinal"] for row in rows]
    assert [item.event_id for item in found] == [row["EventId"] for row in rows]
    assert [item.payload["n"] for item in found] == [1, 2, 3, 4, 5]
    assert [item.occurred_at for item in found] == sorted((item.occurred_at for item in found), reverse=True)


@pytest.mark.evidence("P-05")
def test_inputs__are_the_generations_own_and_no_neighbours(source):
    before = source.generation(count=3, active=False, State="succeeded")
    own = source.generation(count=4)
    after = source.generation(count=2, active=False)
    assert numbers(before) == [1, 2, 3]
    assert numbers(own) == [4, 5, 6, 7]
    assert numbers(after) == [8, 9]


@pytest.mark.evidence("P-05")
@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_inputs__are_the_same_in_pages_of_any_size_and_can_be_read_again(source, page):
    work_id = source.generation(count=6)
    inputs = open_inputs(work_id, opened, page=page)
    assert [item.payload["n"] for item in inputs] == [1, 2, 3, 4, 5, 6]
    assert [item.payload["n"] for item in inputs] == [1, 2, 3, 4, 5, 6]
    assert inputs.fault is None


@pytest.mark.evidence("P-05")
def test_inputs__are_opened_one_at_a_time(source):
    work_id = source.generation(count=5)
    events: list[str] = []

    def watched(row: Row) -> Mapping[str, Any]:
        events.append("open")
        return opened(row)

    for _ in open_inputs(work_id, watched, page=2):
        events.append("used")
    assert events == ["open", "used"] * 5


@pytest.mark.evidence("P-05")
def test_inputs__hold_one_page_at_a_time_however_many_there_are(source):
    work_id = source.generation(count=100)
    pages: list[int] = []

    def fetch(read):
        rows = read()
        pages.append(len(rows))
        return rows

    assert numbers(work_id, fetch=fetch) == list(range(1, 101))
    # The generation, its bounds, then pages of a fixed size.
    assert pages == [1, 2, 32, 32, 32, 4]


@pytest.mark.evidence("P-11")
def test_inputs__exclude_what_else_stands_inside_the_interval(source):
    others = [
        Source(pack=source.pack, kind="contact.removed"),
        Source(pack=source.pack, route_version=2),
        Source(pack=source.pack, work_type="workflow_action_apply"),
        Source(pack=source.pack, lane="contact:8"),
    ]
    rows = []
    for other in others:
        rows.append(source.event())
        other.event({"n": -1})
    rows.append(source.event())
    work_id = source.generation(rows)
    stranger = Pack(namespace="other", ordinal=0)
    for _ in range(9):
        Source(pack=stranger).event({"n": -2})

    assert numbers(work_id) == [1, 3, 5, 7, 9]
    assert numbers(work_id, page=1) == [1, 3, 5, 7, 9]
    generation = read_generation(door.read(), work_id)
    assert (generation.first, generation.last) == (1, 9)
    assert count_inputs(door.read(), generation, cap=100) == 5
    assert count_inputs(door.read(), generation, cap=3) == 3


def delete(row: Row) -> None:
    assert change("DELETE FROM _System_ConnectorEvent WHERE EventId = %s", row["EventId"]) == 1


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize(
    ("place", "why"),
    [(0, MissingWhy.FIRST_INPUT), (-1, MissingWhy.SELECTED_INPUT)],
)
def test_missing_bound__is_an_error_and_no_payload_is_given(source, place, why):
    rows = [source.event() for _ in range(4)]
    work_id = source.generation(rows)
    delete(rows[place])
    with pytest.raises(InputsMissing) as raised:
        open_inputs(work_id, opened)
    assert raised.value.why is why
    assert raised.value.data_fields["work_id"] == work_id


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("column", ["RouteVersion = 9", "WorkType = 'workflow_action_apply'", "SourceLane = 'other'"])
def test_bound_of_another_identity__is_missing(source, place, column):
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows)
    change(f"UPDATE _System_ConnectorEvent SET {column} WHERE EventId = %s", rows[place]["EventId"])
    with pytest.raises(InputsMissing):
        open_inputs(work_id, opened)


@pytest.mark.evidence("P-06")
def test_selected_event__that_is_not_the_one_at_the_upper_bound_is_missing(source):
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows, EventId=rows[1]["EventId"])
    with pytest.raises(InputsMissing) as raised:
        open_inputs(work_id, opened)
    assert raised.value.why is MissingWhy.SELECTED_INPUT


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"InputStartOrdinal": None}, MissingWhy.INTERVAL),
        ({"InputStartOrdinal": 0}, MissingWhy.INTERVAL),
        ({"InputStartOrdinal": -3}, MissingWhy.INTERVAL),
        ({"InputStartOrdinal": 99}, MissingWhy.INTERVAL),
        ({"LaneOrdinal": None}, MissingWhy.INTERVAL),
        ({"ProjectionKey": "f" * 64}, MissingWhy.IDENTITY),
        ({"FlowVersion": "2"}, MissingWhy.IDENTITY),
        ({"SourceLane": None}, MissingWhy.IDENTITY),
    ],
    ids=str,
)
def test_generation__without_a_valid_interval_or_with_another_key_has_no_inputs(source, over, why):
    work_id = source.generation(count=2, **over)
    with pytest.raises(InputsMissing) as raised:
        open_inputs(work_id, opened)
    assert raised.value.why is why


@pytest.mark.evidence("P-06")
def test_generation__that_is_not_there_has_no_inputs(source):
    with pytest.raises(InputsMissing) as raised:
        open_inputs("00000000-0000-7000-8000-000000000000", opened)
    assert raised.value.why is MissingWhy.GENERATION


@pytest.mark.evidence("P-06")
@pytest.mark.parametrize("place", [0, -1])
def test_input__that_goes_while_it_is_read_is_missed_and_the_fault_stays(source, place):
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows)
    inputs = open_inputs(work_id, opened, page=1)
    delete(rows[place])
    with pytest.raises(InputsMissing) as raised:
        list(inputs)
    assert inputs.fault is raised.value


@pytest.mark.evidence("P-06")
def test_input__that_cannot_be_opened_is_an_error_and_the_fault_stays(source):
    rows = [source.event() for _ in range(3)]
    work_id = source.generation(rows)
    change(
        "UPDATE _System_ConnectorEvent SET Payload = %s WHERE EventId = %s",
        event_row(rows[0]["EventId"])["Payload"],
        rows[1]["EventId"],
    )
    inputs = open_inputs(work_id, opened)
    with pytest.raises(SealBroken):
        list(inputs)
    assert isinstance(inputs.fault, SealBroken)


def crowd_of(source: Source, history: int) -> str:
    """Return a generation of five inputs behind a history of ended generations of the same key."""
    rows = [source.event() for _ in range(history)]
    for first in range(0, history, 5):
        source.generation(rows[first : first + 5], active=False, State="succeeded")
    own = [source.event() for _ in range(5)]
    return source.generation(own)


@pytest.mark.evidence("P-20")
@pytest.mark.parametrize("history", [10, 1000])
def test_payload_read__costs_the_same_behind_a_hundred_times_the_history(engine, source, history):
    work_id = crowd_of(source, history)
    generation = read_generation(door.read(), work_id)
    params = {**generation.member_params(), "limit": reading.PAGE, "ordinals": (generation.first, generation.last)}
    for statement in (sql.READ_GENERATION, sql.LIST_INPUTS, sql.LIST_BOUNDS):
        assert faults_of_plan(engine, statement, {**params, "work_id": work_id}) == []
    # What is counted is the page itself, which MariaDB shows as a table of its own.
    assert [fault for fault in faults_of_plan(engine, sql.COUNT_INPUTS, params) if "derived" not in fault] == []
    assert "IX_Event_SourceLane" in json.dumps(explain(sql.LIST_INPUTS, params), default=str)
    assert rows_read(engine, params) == 5


def rows_read(engine: str, params: dict[str, Any]) -> int:
    """Return how many index entries the page's statement read, as the database itself counted them."""
    with connections["default"].cursor() as cursor:
        if engine == "tidb":
            cursor.execute("EXPLAIN ANALYZE " + sql.LIST_INPUTS.text, params)
            names = [column[0] for column in cursor.description]
            steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            return max(int(float(step["actRows"])) for step in steps if "Scan" in str(step["id"]))
        # Not FLUSH STATUS, which would commit.
        counter = "SHOW SESSION STATUS LIKE 'Handler_read_next'"
        cursor.execute(counter)
        before = int(cursor.fetchone()[1])
        cursor.execute(sql.LIST_INPUTS.text, params)
        cursor.fetchall()
        cursor.execute(counter)
        return int(cursor.fetchone()[1]) - before
