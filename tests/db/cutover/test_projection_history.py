"""The audit's walk over a history: every Event once, whatever the size of a page, by short ranges of an index."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from integration.cutover.projection import reads
from integration.cutover.projection.history import Tally
from integration.cutover.projection.policy import Reason
from integration.storage import db
from integration.storage.sql import projection_audit as sql
from integration.storage.sql import protocols
from integration.storage.statements import Statement
from integration.values import new_id
from tests.support.old_projections import OldPack
from tests.support.work import Row, change, insert, query

pytestmark = pytest.mark.django_db
KINDS = ("contact.changed", "deal.changed", "zeal.changed")
LANES = (None, "", "\tcontact:1", "contact:1", "contact:1 ", "contact:2", "é", "\U0001f600")


def scatter(pack: OldPack, count: int, seed: int) -> None:
    """Insert Events of several kinds and lanes, with and without ordinals, some with WorkItems, as chance has it."""
    chance = random.Random(seed)
    deals = pack.route("deal.changed")
    events: list[Row] = []
    items: list[Row] = []
    for _ in range(count):
        kind = chance.choice(KINDS)
        over: Row = {
            "EventKind": kind,
            # The last kind's route is not there any more.
            "RouteId": {"deal.changed": deals, "zeal.changed": "f" * 36}.get(kind, pack.route_id),
            "SourceLane": chance.choice(LANES),
            "Status": chance.choice(["pending", "skipped", "failed", "processed"]),
        }
        row = pack.event_values({"n": 1}, **over)
        row["LaneOrdinal"] = None if chance.random() < 0.3 else row["LaneOrdinal"]
        events.append(row)
        if chance.random() < 0.3:
            key = chance.choice([None, pack.lane().key])
            items.append(
                pack.item_values(
                    row["EventId"],
                    EventKind=kind,
                    RouteId=over["RouteId"],
                    SourceLane=over["SourceLane"],
                    LaneOrdinal=row["LaneOrdinal"],
                    ProjectionKey=key,
                    State="succeeded",
                )
            )
    insert("_System_ConnectorEvent", events)
    insert("_System_ConnectorWorkItem", items)


def audited(pack_id: str, page: int) -> tuple[Tally, list[int]]:
    steps: list[int] = []
    reader = db.read()
    tally = reads.audit_history(reader, reads.read_pack(reader, pack_id), steps.append, page=page)
    return tally, steps


@pytest.mark.evidence("P-14", "P-15")
@pytest.mark.parametrize("seed", range(3))
def test_walk__reads_every_event_once_whatever_the_page(seed: int):
    pack = OldPack()
    scatter(pack, 120, seed)
    # Another incarnation's.
    OldPack(namespace="elsewhere").lane().coalesced(9)

    whole, steps = audited(pack.pack_id, 1000)
    assert steps[-1] == 120
    assert {reason.value: rows.count for reason, rows in whole.found.items()} == plain_reading(pack)
    for page in (1, 2, 7, 40):
        tally, steps = audited(pack.pack_id, page)
        assert steps[-1] == 120
        assert {reason: rows.count for reason, rows in tally.found.items()} == {
            reason: rows.count for reason, rows in whole.found.items()
        }
        assert (tally.inputs, tally.indirect) == (whole.inputs, whole.indirect)


@pytest.mark.evidence("P-14")
@pytest.mark.parametrize("page", [1, 2, 1000])
def test_walk__leaves_out_nothing_that_sorts_below_everything(page: int):
    """A blank pads the empty text, and a tab comes before it; a number below zero was given by no build."""
    pack = OldPack()
    for kind in ("", "\tcontact", "contact.changed"):
        for lane in (None, "", "\t", "\tcontact:1", "contact:1"):
            pack.event(EventKind=kind, SourceLane=lane)
    for lane, ordinal in ((None, -(2**63)), ("\t", -7), (None, -1), ("\t", 2**63 - 1)):
        pack.event(LaneOrdinal=ordinal, SourceLane=lane)
        pack.event(LaneOrdinal=None, SourceLane="\t")

    tally, steps = audited(pack.pack_id, page)
    assert (tally.inputs, steps[-1]) == (18, 23)


def plain_reading(pack: OldPack) -> dict[str, int]:
    """Judge all rows at once, in Python."""
    events = query("SELECT * FROM _System_ConnectorEvent WHERE PackInstallId = %s", pack.pack_id)
    items = query("SELECT * FROM _System_ConnectorWorkItem WHERE PackInstallId = %s", pack.pack_id)
    direct = {item["EventId"] for item in items}
    by_id = {event["EventId"]: event for event in events}
    found: Counter[str] = Counter()
    for event in events:
        lane, ordinal = event["SourceLane"], event["LaneOrdinal"] or 0
        if event["EventKind"] == "deal.changed" or event["EventId"] in direct:
            continue
        if event["EventKind"] == "zeal.changed" or lane is None:
            found["identity_unresolved"] += not (event["EventKind"] == "zeal.changed" and lane is None)
            continue
        source = pack.lane()
        source.lane = lane
        owners = [item for item in items if item["ProjectionKey"] == source.key]
        peers = [peer for peer in events if (peer["EventKind"], peer["SourceLane"]) == (event["EventKind"], lane)]
        ordinals = [one["LaneOrdinal"] or 0 for one in (*owners, *peers)]
        ended = [item["LaneOrdinal"] or 0 for item in owners if item["EventId"] in by_id]
        if not ended:
            found["missing_owner"] += 1
        elif min(ordinals) <= 0 < max(ordinals):
            found["mixed_history"] += 1
        elif ordinal > max(ended):
            found["beyond_boundary"] += 1
    return {reason: count for reason, count in found.items() if count}


def test_walk__meets_every_kind_of_finding():
    """The scattered histories hold what they are to show."""
    met: set[Reason] = set()
    for seed in range(3):
        pack = OldPack(namespace=f"n{seed}")
        scatter(pack, 120, seed)
        met |= set(audited(pack.pack_id, 1000)[0].found)
    assert {Reason.MISSING_OWNER, Reason.MIXED_HISTORY, Reason.IDENTITY_UNRESOLVED} <= met


# Plans

#: Which index each statement stays on.
INDEX_OF = {
    sql.READ_CUTOVER_PACK: "PRIMARY",
    sql.FIND_HIGHEST_ORDINAL: "UX_Event_Ordinal",
    sql.LIST_AUDITED_ROUTES: "UX_Route_Version",
    sql.LIST_OVERRIDES_SINCE: "IX_AdmissionOverride_Fence",
    sql.LIST_UNENDED_PROJECTIONS: "IX_WorkItem_Pack",
    sql.COUNT_UNENDED_PROJECTIONS: "IX_WorkItem_Pack",
    sql.LIST_EXECUTING_EVENTS: "IX_Event_Executor",
    sql.FIRST_EVENT_KIND: "IX_Event_SourceLane",
    sql.NEXT_EVENT_KIND: "IX_Event_SourceLane",
    sql.LIST_HISTORY_WITHOUT_ORDINAL: "IX_Event_SourceLane",
    sql.LIST_HISTORY_OF_LANE: "IX_Event_SourceLane",
    sql.LIST_HISTORY_OF_LANES: "IX_Event_SourceLane",
    sql.LIST_HISTORY_OF_LATER_LANES: "IX_Event_SourceLane",
    sql.LIST_DIRECT_TASKS: "UX_WorkItem_Event",
    sql.LIST_COMPLETED_BOUNDARIES: "IX_WorkItem_ProjectionOrder",
    sql.LIST_KEPT_CLASSES: "PRIMARY",
    protocols.FIND_PROJECTION_PROTOCOL: "PRIMARY",
    protocols.FIND_PROJECTING_PACK: "PRIMARY",
}


@pytest.fixture
def crowd(db) -> dict[str, Any]:
    """A few thousand Events and WorkItems of three incarnations, all ended but two."""
    packs = [OldPack(namespace=f"n{number}") for number in range(3)]
    for pack in packs:
        events, items = [], []
        for number in range(1000):
            lane = pack.lane(number % 50)
            event = pack.event_values({"n": 1}, SourceLane=lane.lane)
            events.append(event)
            if number % 2:
                key = {"ProjectionKey": lane.key, "SubjectKind": "projection", "LaneOrdinal": event["LaneOrdinal"]}
                items.append(pack.item_values(event["EventId"], State="succeeded", **key))
        insert("_System_ConnectorEvent", events)
        insert("_System_ConnectorWorkItem", items)
        pack.lane(7).task(pack.lane(7).event(), "retry")
        pack.arm()
    pack = packs[1]
    change("INSERT INTO _System_ConnectorProjectionProtocol VALUES (%s, 1, 0, UTC_TIMESTAMP(6), 't')", pack.pack_id)
    ids = tuple(row["EventId"] for row in query("SELECT EventId FROM _System_ConnectorEvent LIMIT 20"))
    return {
        "pack_install_id": pack.pack_id,
        "event_kind": pack.kind,
        "source_lane": "contact:20",
        "ordinal": 200,
        "event_id": "",
        "event_ids": ids,
        "projection_keys": tuple(pack.lane(number).key for number in range(5)),
        "route_ids": (pack.route_id,),
        "fence_ids": (new_id(), new_id()),
        "since": datetime.now(UTC).replace(tzinfo=None),
        "limit": 20,
    }


def test_plans__are_ranges_of_their_index(crowd: dict[str, Any], engine: str):
    faults = {}
    for statement, index in INDEX_OF.items():
        # Behind the only kind there is nothing to plan for.
        given = {**crowd, "event_kind": ""} if statement is sql.NEXT_EVENT_KIND else crowd
        found = plan_faults(engine, explain(statement, given), index)
        if found:
            faults[statement.name] = found
    assert faults == {}


def test_plans__of_every_statement_of_the_audit_are_looked_at():
    declared = {value for value in vars(sql).values() if isinstance(value, Statement)}
    assert declared <= set(INDEX_OF)


def test_check__sees_a_plan_that_reads_the_table(crowd: dict[str, Any], engine: str):
    from dataclasses import replace

    scan = replace(
        sql.LIST_HISTORY_OF_LATER_LANES,
        text=sql.LIST_HISTORY_OF_LATER_LANES.text.replace("FORCE INDEX", "IGNORE INDEX"),  # type: ignore[arg-type]
    )
    assert plan_faults(engine, explain(scan, crowd), "IX_Event_SourceLane")


def explain(statement: Statement, params: dict[str, Any]) -> list[dict[str, Any]]:
    with connections["default"].cursor() as cursor:
        cursor.execute("EXPLAIN " + statement.text, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def plan_faults(engine: str, steps: list[dict[str, Any]], index: str) -> list[str]:
    """Return what of a plan is no range of the index: a scan, a sort, another index."""
    if engine == "tidb":
        text = " | ".join(f"{step['id']} {step['access object']} {step['operator info']}" for step in steps)
        found = [text] if "FullScan" in text or "Sort_" in text else []
        used = f"index:{index}" in text or (index == "PRIMARY" and ("Point_Get" in text or "TableRangeScan" in text))
        return found if used else [*found, f"not on {index}: {text}"]
    found = [f"{step['type']} on {step['table']}" for step in steps if step["type"] in {"ALL", "index"}]
    found += ["filesort" for step in steps if "filesort" in (step["Extra"] or "")]
    return found if index in {step["key"] for step in steps} else [*found, f"not on {index}: {steps}"]
