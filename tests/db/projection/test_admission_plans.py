"""What an admission, a duplicate and a payload read cost does not grow with the retained history of the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from integration.ingress.service import materialize_batch
from integration.projection.identity import ProjectionIdentity
from integration.projection.inputs import open_inputs
from integration.storage.sql import events, inputs, projections, protocols
from integration.storage.statements import Returns, Statement, all_statements
from integration.values import new_id
from tests.support import admission
from tests.support.admission import generations, listed, receive, unowned_inputs
from tests.support.work import Row, change, insert, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("P-20")]
#: Ended generations of the one source: history, and a hundred times it. TiDB reads an index 32 rows at a time at
#: least, so that less history than that would look cheaper than it is.
SHORT, LONG = 40, 4000
#: Which index each statement stays on, whatever the history.
INDEX_OF = {
    projections.LIST_ACTIVE_GENERATIONS: "UX_WorkItem_ProjectionActive",
    projections.FIND_NEWEST_OF_PROJECTION: "IX_WorkItem_ProjectionOrder",
    projections.LIST_COVERING_STARTS: "IX_WorkItem_ProjectionOrder",
    inputs.LIST_INPUTS: "IX_Event_SourceLane",
    inputs.LIST_BOUNDS: "IX_Event_SourceLane",
    events.LIST_STORED_EVENTS: "UX_Event_Idempotency",
    projections.LOCK_SELECTED_EVENTS: "PRIMARY",
    projections.LOCK_GENERATIONS: "PRIMARY",
    projections.EXTEND_GENERATION: "PRIMARY",
    projections.SKIP_SUPERSEDED_EVENTS: "PRIMARY",
    protocols.LIST_PROJECTION_PROTOCOLS: "PRIMARY",
}
#: What would read or sort the source's whole history.
BAD_TYPES = {"ALL", "index"}


def retain(pack_id: str, count: int) -> None:
    """Admit a generation, end it, and copy it until the source has that much history."""
    receive(listed(("first-a", 1), ("first-b", 1)))
    materialize_batch(pack_id)
    (item,) = generations()
    admission.claim_row(item["WorkId"])
    admission.end_row(item["WorkId"])
    (item,) = generations()
    item.pop("LanePosition", None)
    (_, stored) = query("SELECT * FROM _System_ConnectorEvent ORDER BY LaneOrdinal")
    new_events: list[Row] = []
    new_items: list[Row] = []
    for number in range(1, count):
        ordinal = number + 2
        event_id = new_id()
        new_events.append(
            {
                **stored,
                "EventId": event_id,
                "LaneOrdinal": ordinal,
                "IdempotencyKey": f"old-{number}",
                "ReceiptId": new_id(),
            }
        )
        new_items.append(
            {
                **item,
                "WorkId": new_id(),
                "EventId": event_id,
                "InputStartOrdinal": ordinal,
                "LaneOrdinal": ordinal,
            }
        )
    insert("_System_ConnectorEvent", new_events)
    insert("_System_ConnectorWorkItem", new_items)
    change("UPDATE _System_ConnectorPackInstall SET NextLaneOrdinal = %s", count + 2)
    assert len(generations()) == count


@contextmanager
def sent() -> Iterator[list[tuple[Statement, dict[str, Any]]]]:
    """Note the program's statements that are sent, with their parameters."""
    by_text = {statement.text: statement for _, _, statement in all_statements()}
    found: list[tuple[Statement, dict[str, Any]]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql in by_text and not many:
            found.append((by_text[sql], dict(params or {})))
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(note):
        yield found


def explain(statement: Statement, params: dict[str, Any], *, analyze: bool = False) -> list[dict[str, Any]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(("EXPLAIN ANALYZE " if analyze else "EXPLAIN ") + statement.text, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def handler_reads() -> int:
    rows = query("SHOW SESSION STATUS LIKE 'Handler_read%%'")
    return sum(int(row["Value"]) for row in rows)


def rows_of(engine: str, statements: list[tuple[Statement, dict[str, Any]]]) -> dict[str, int]:
    """Return how many rows each read examines, as the engine counts them when it runs it again."""
    found: dict[str, int] = {}
    for statement, params in statements:
        if not statement.text.lstrip().startswith("SELECT"):
            continue
        if engine == "tidb":
            examined = sum(int(float(step["actRows"])) for step in explain(statement, params, analyze=True))
        else:
            before = handler_reads()
            with connections["default"].cursor() as cursor:
                cursor.execute(statement.text.replace("FOR UPDATE", ""), params)
                cursor.fetchall()
            examined = handler_reads() - before
        found[statement.name] = found.get(statement.name, 0) + examined
    return found


def work_of_a_batch(engine: str, pack_id: str, name: str) -> list[dict[str, int]]:
    """Admit, extend, queue, repeat and read; return the rows that each statement of each step examines."""
    steps = []
    for step in ("activated", "extended", "queued", "repeated", "covered"):
        items = [(f"{name}-{step}-{place}", 1) for place in range(3)]
        if step == "repeated":
            items = [(f"{name}-{done}-0", 1) for done in ("activated", "extended", "queued")]
        if step == "covered":
            items = [("first-a", 1), ("first-b", 1)]
        if step == "queued":
            admission.claim_row(next(row for row in generations() if row["State"] == "pending")["WorkId"])
        receive(listed(*items))
        with sent() as statements:
            assert materialize_batch(pack_id).count == 1
        steps.append(rows_of(engine, statements))
    claimed = next(row for row in generations() if row["State"] == "processing")
    with sent() as statements:
        assert len(list(open_inputs(claimed["WorkId"], lambda row: {}))) == 6
    steps.append(rows_of(engine, statements))
    key = {"projection_key": claimed["ProjectionKey"]}
    steps.append(rows_of(engine, [(projections.FIND_NEWEST_OF_PROJECTION, key)]))
    return steps


def test_cost__does_not_grow_with_history(engine: str):
    examined = {}
    for count in (SHORT, LONG):
        pack_id = admission.activate(admission.LISTS)
        retain(pack_id, count)
        examined[count] = work_of_a_batch(engine, pack_id, "n")
        assert unowned_inputs() == {}
        for table in ("WorkItem", "Event", "IngressReceipt", "ProjectionProtocol", "CutoverReceipt", "Route"):
            change(f"DELETE FROM _System_Connector{table}")
        change("DELETE FROM _System_ConnectorPackInstall")
        change("DELETE FROM _System_ConnectorNamespace")
    for before, after in zip(examined[SHORT], examined[LONG], strict=True):
        assert after == before
    assert {"FIND_NEWEST_OF_PROJECTION", "LIST_ACTIVE_GENERATIONS", "LIST_COVERING_STARTS", "LIST_INPUTS"} <= {
        name for step in examined[LONG] for name in step
    }


def test_plans__stay_on_their_index(engine: str):
    pack_id = admission.activate(admission.LISTS)
    retain(pack_id, LONG)
    receive(listed(("a", 1)))
    materialize_batch(pack_id)
    live = next(row for row in generations() if row["ProjectionActiveKey"] is not None)
    identity = ProjectionIdentity.of_work_item(live)
    params: dict[str, Any] = {
        "projection_keys": (live["ProjectionKey"], "0" * 64),
        "projection_key": live["ProjectionKey"],
        "event_ids": (live["EventId"], new_id()),
        "work_ids": (live["WorkId"], new_id()),
        "pack_install_ids": (pack_id,),
        "namespace": "demo",
        "event_kinds": (identity.event_kind,),
        "idempotency_keys": ("old-1", "old-2"),
        "pack_install_id": pack_id,
        "event_kind": identity.event_kind,
        "source_lane": identity.source_lane,
        "route_version": 1,
        "work_type": identity.work_type,
        "first": live["InputStartOrdinal"] - 9,
        "last": live["LaneOrdinal"],
        "ordinals": (live["InputStartOrdinal"], live["LaneOrdinal"]),
        "limit": 32,
        "event_id": new_id(),
        "lane_ordinal": live["LaneOrdinal"] + 1,
        "target_lane": None,
        "missing_active_key": None,
        "work_id": live["WorkId"],
        "superseded_event_id": live["EventId"],
    }
    faults = {}
    for statement, index in INDEX_OF.items():
        found = plan_faults(engine, explain(statement, params), index)
        if found:
            faults[statement.name] = found
    assert faults == {}


def plan_faults(engine: str, steps: list[dict[str, Any]], index: str) -> list[str]:
    if engine == "tidb":
        text = " | ".join(f"{step['id']} {step['access object']} {step['operator info']}" for step in steps)
        found = [text] if "FullScan" in text or "Sort_" in text else []
        used = f"index:{index}" in text or (index == "PRIMARY" and ("Point_Get" in text or "TableRangeScan" in text))
        return found if used else [*found, f"not on {index}: {text}"]
    found = [f"{step['type']} on {step['table']}" for step in steps if step["type"] in BAD_TYPES]
    found += ["filesort" for step in steps if "filesort" in (step["Extra"] or "")]
    return found if index in {step["key"] for step in steps} else [*found, f"not on {index}: {steps}"]


def test_check__sees_a_plan_that_reads_the_history(engine: str):
    pack_id = admission.activate(admission.LISTS)
    retain(pack_id, SHORT)
    scan = Statement(
        name="SCAN",
        text="SELECT WorkId FROM _System_ConnectorWorkItem WHERE FlowName = %(name)s ORDER BY InputStartOrdinal",
        returns=Returns.ROWS,
    )
    assert plan_faults(engine, explain(scan, {"name": "x"}), "IX_WorkItem_ProjectionOrder")
    few = rows_of(engine, [(scan, {"name": "demo.apply_deal"})])
    change("DELETE FROM _System_ConnectorWorkItem WHERE LaneOrdinal > 9")
    assert rows_of(engine, [(scan, {"name": "demo.apply_deal"})]) != few
