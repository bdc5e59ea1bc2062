"""The kernel's statements find their rows by a key, whatever stands beside them."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import (
    attempts,
    cancellations,
    cutovers,
    dependencies,
    events,
    processes,
    replay_facts,
    work_items,
)
from integration.storage.sql.integration_work_items import INTEGRATION
from integration.storage.sql.work_port import WorkStatements
from integration.storage.statements import Statement
from integration.values import new_id
from integration.work.pages import START
from tests.support.integration_work import admit_integration
from tests.support.work import Pack, change, query

pytestmark = pytest.mark.django_db

NOTHING = ("-",)
PLACES = {
    f"{state}_{side}{part}": value
    for state in ("pending", "retry")
    for side, run_after in (("after", START.run_after), ("to", datetime(2100, 1, 1, tzinfo=UTC)))
    for part, value in (("", run_after.replace(tzinfo=None)), ("_class", ""), ("_id", ""))
}
LANES = {
    "page": 512,
    **PLACES,
    "closed_packs": NOTHING,
    "blocked_lanes": NOTHING,
    "busy_targets": NOTHING,
    "slots": 2,
    "own_slots": (0, 1),
    "limit": 64,
}


@pytest.fixture
def crowd(db) -> dict[str, Any]:
    """A few thousand rows: most ended, some due, some claimed, one of which is asked for."""
    pack = Pack()
    ids = pack.admit(2400, SourceLane="deal:1", TargetLane="account:1")
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'succeeded', TerminalAt = UTC_TIMESTAMP(6), Attempt = 1"
        " WHERE LaneOrdinal <= 2000"
    )
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'processing', LeaseToken = 't', LeaseUntil = UTC_TIMESTAMP(6)"
        " WHERE LaneOrdinal BETWEEN 2001 AND 2050"
    )
    rows = query("SELECT * FROM _System_ConnectorWorkItem WHERE WorkId IN %s", tuple(ids[-4:]))
    row = rows[0]
    return {
        "work_id": row["WorkId"],
        "event_id": row["EventId"],
        "event_ids": tuple(found["EventId"] for found in rows),
        "work_ids": tuple(found["WorkId"] for found in rows),
        "pack_install_id": pack.pack_id,
        "namespace": "acme",
        "source_lane": "deal:1",
        "state": "succeeded",
        "older_pack_install_ids": NOTHING,
        "target_lane_keys": ("a" * 64,),
        "process_id": new_id(),
        "process_ids": (new_id(),),
        "in_flight": 0,
        "lease_token": "t",
        "lease_seconds": 60,
        "epoch": 0,
        "attempt": 1,
        "delay_microseconds": 1,
        "slack_seconds": 5,
        "failure_class": "flow_error",
        "failure_summary": "x",
        "finished_at": None,
        "outcome": "retry",
        "pack_install_ids": (pack.pack_id,),
        "position": row["LaneOrdinal"],
        "cap": 1000,
        "route_ids": (pack.route_id,),
        "event_kind": pack.kind,
        "blocked_on": "account.created",
        "actor_name": "ana",
        "run_after": row["RunAfter"],
        "queue_class": "default",
        **LANES,
    }


STATEMENTS = [
    work_items.LIST_PAGE_ENDS,
    work_items.LIST_CLAIM_CANDIDATES,
    work_items.LIST_PACK_CANDIDATES,
    work_items.LIST_HEAD_POSITIONS,
    work_items.FIND_UNFINISHED_IN_OLDER_INCARNATIONS,
    work_items.LIST_BUSY_TARGET_LANES,
    work_items.FIRST_CLAIM,
    work_items.LATER_CLAIM,
    work_items.RENEW_LEASE,
    work_items.COMPLETE_WORK_ITEM,
    work_items.COMPLETE_WORK_ITEMS,
    work_items.SKIP_WORK_ITEMS,
    work_items.LIST_ENDED,
    work_items.RELEASE_WORK_ITEM,
    work_items.SKIP_WORK_ITEM,
    work_items.RETRY_WORK_ITEM,
    work_items.BURY_WORK_ITEM,
    work_items.ACKNOWLEDGE_CANCEL,
    work_items.LIST_EXPIRED_LEASES,
    work_items.REAP_WORK_ITEM,
    work_items.REAP_EXHAUSTED_WORK_ITEM,
    work_items.READ_CLAIM_FACTS,
    work_items.FIND_UNFINISHED_WORK,
    work_items.FIND_UNFINISHED_OF_PACK,
    events.READ_EVENT_FOR_EXECUTION,
    events.LOCK_EVENTS_FOR_CLAIM,
    work_items.LIST_CLAIMED_BY_TOKEN,
    attempts.INSERT_ATTEMPTS_OF_CLAIM,
    attempts.CLOSE_EXECUTION_ATTEMPT,
    processes.LOCK_PROCESS,
    processes.FIND_PROCESS,
    processes.RECORD_HEARTBEATS,
    processes.MARK_PROCESSES_STOPPED,
    cutovers.NEWEST_CUTOVER_RECEIPT,
    work_items.LIST_STOPPED,
    replay_facts.READ_LANE_PLACE,
    replay_facts.COUNT_LANE_AFTER,
    dependencies.LIST_BLOCKED_WORK,
    dependencies.FIND_ENDED_WELL,
    dependencies.BLOCK_WORK_ITEMS,
    dependencies.UNBLOCK_WORK_ITEMS,
    cancellations.CANCEL_WORK_ITEM,
    cancellations.REQUEST_CANCEL,
    cancellations.SKIP_CANCELLED_EVENT,
    cancellations.LIST_CANCEL_REQUESTED,
    cancellations.LIST_WORK_OF_EVENT_TO_CANCEL,
]
#: Reads whose order must come from the index, so that their limit bounds what they read.
ORDERED = {
    "LIST_CLAIM_CANDIDATES_OF_INTEGRATION",
    "LIST_CLAIM_CANDIDATES",
    "NEWEST_CUTOVER_RECEIPT",
    "LIST_BLOCKED_WORK",
}


def faults_of_plan(engine: str, statement: Statement, params: dict[str, Any]) -> list[str]:
    found = []
    for step in explain(statement, params):
        if engine == "tidb":
            name = str(step["id"])
            if "FullScan" in name:
                found.append(f"{name} on {step['access object']}")
            if statement.name in ORDERED and ("Sort" in name or "TopN" in name):
                found.append(name)
        elif step["table"] and not str(step["table"]).startswith(("<union", "<derived")):
            if step["type"] in {"ALL", "index"}:
                found.append(f"{step['type']} on {step['table']}")
            if statement.name in ORDERED and "filesort" in (step["Extra"] or ""):
                found.append("filesort")
    return found


def explain(statement: Statement, params: dict[str, Any]) -> list[dict[str, Any]]:
    with connections["default"].cursor() as cursor:
        cursor.execute("EXPLAIN " + statement.text, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def integration_crowd(crowd) -> dict[str, Any]:
    """The same of a table that holds several families."""
    ids = admit_integration(1200, SourceLane="deal:1", TargetLane="account:1")
    change(
        "UPDATE _System_IntegrationWorkItem SET State = 'succeeded', TerminalAt = UTC_TIMESTAMP(6), Attempt = 1"
        " WHERE LaneOrdinal <= 1000"
    )
    return {**crowd, "work_id": ids[-1], "work_ids": tuple(ids[-4:]), "family": "effect"}


def test_statements__of_the_other_families_find_their_rows_by_a_key(engine, integration_crowd):
    statements = [getattr(INTEGRATION, member.name) for member in fields(WorkStatements)]
    found = {
        statement.name: faults
        for statement in statements
        if (faults := faults_of_plan(engine, statement, integration_crowd))
    }
    assert found == {}


def test_statements__find_their_rows_by_a_key(engine, crowd):
    found = {statement.name: faults for statement in STATEMENTS if (faults := faults_of_plan(engine, statement, crowd))}
    assert found == {}


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (work_items.LIST_STOPPED, "IX_WorkItem_LanePosition"),
        (dependencies.FIND_ENDED_WELL, "IX_WorkItem_Scope"),
        (dependencies.LIST_BLOCKED_WORK, "IX_WorkItem_Claim"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_statement__reads_a_range_of_the_index_that_it_names(engine, crowd, statement, index):
    steps = explain(statement, crowd)
    if engine == "tidb":
        ranges = [step for step in steps if f"index:{index}" in str(step["access object"])]
        assert {str(step["id"]).strip("│├└─ ").rpartition("_")[0] for step in ranges} == {"IndexRangeScan"}
    else:
        used = [step["type"] for step in steps if step["key"] == index]
        assert len(used) == 1
        assert used[0] in {"range", "ref"}


def test_plan__of_a_scan_is_caught(engine, crowd):
    from integration.storage.statements import Returns

    scan = Statement(
        name="SCAN",
        text="SELECT WorkId FROM _System_ConnectorWorkItem WHERE FlowName = %(namespace)s",
        returns=Returns.ROWS,
    )
    assert faults_of_plan(engine, scan, crowd) != []
