"""What an inbound cutover asks is bounded by the backlog or answered from an index, whatever else is stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections

from integration.cutover.inbound import reads
from integration.storage import db
from integration.storage.sql import cutovers, processes, scheduler_leases
from integration.storage.statements import Statement
from integration.values import new_id
from tests.support.legacy import LegacyPack
from tests.support.work import change, insert, query

pytestmark = pytest.mark.django_db

STATEMENTS = [
    cutovers.NEWEST_CUTOVER_RECEIPT,
    cutovers.LIST_CUTOVER_RECEIPTS,
    cutovers.COUNT_EVENTS_OF_PACK,
    cutovers.COUNT_WORK_ITEMS_OF_PACK,
    cutovers.COUNT_EVENT_CLAIMS,
    cutovers.COUNT_EVENTS_LEFT_BEHIND,
    cutovers.COUNT_ENDLESS_CLAIMS,
    cutovers.COUNT_LOST_WORK_ITEMS,
    cutovers.COUNT_EVENTS_WITHOUT_WORK,
    cutovers.LIST_UNDATED_EVENTS_WITHOUT_WORK,
    cutovers.LIST_DATED_EVENTS_WITHOUT_WORK,
    cutovers.LIST_WORK_OF_EVENTS,
    cutovers.LOCK_EVENTS_WITHOUT_WORK,
    cutovers.COUNT_AMBIGUOUS_EVENTS,
    cutovers.COUNT_MIRRORS_LEFT_BEHIND,
    cutovers.COUNT_UNCONFIRMED_OUTCOMES,
    cutovers.COUNT_UNCLOSED_ROLLBACKS,
    cutovers.LIST_LOST_EVENT_CLAIMS,
    cutovers.TAKE_EVENT_BACK,
    processes.LOCK_PROCESSES,
    processes.EVICT_PROCESSES,
    scheduler_leases.LIST_SCHEDULER_LEASES,
    scheduler_leases.SEIZE_SCHEDULER_LEASES,
    scheduler_leases.GIVE_SCHEDULER_LEASES_BACK,
]


@pytest.fixture
def crowd(db: None) -> dict[str, Any]:
    """Some thousand Events of two packs, most of them ended, with and without work."""
    pack, other = LegacyPack(flow="tests.noop"), LegacyPack(namespace="other", flow="tests.noop")
    pack.route()
    ids = pack.events(600)
    pack.admit(200)
    other.events(600)
    change("UPDATE _System_ConnectorEvent SET Status = 'processed' WHERE LaneOrdinal > 60")
    process_ids = [new_id() for _ in range(200)]
    for owner in (pack, other):
        fences = [
            {
                "FenceId": new_id(),
                "PackInstallId": owner.pack_id,
                "OwnerGeneration": number,
                "State": "closed",
                "OpenedAt": "2026-01-01",
                "OpenedBy": "owner",
            }
            for number in range(20)
        ]
        insert("_System_ConnectorRollbackFence", fences)
    rows = [
        {
            "ProcessId": process_id,
            "Kind": "event_legacy",
            "BuildVersion": "v1",
            "Host": "h",
            "PackInstallId": pack.pack_id,
            "StartedAt": "2026-01-01",
            "HeartbeatAt": "2026-01-01",
        }
        for process_id in process_ids
    ]
    insert("_System_ConnectorClaimProcess", rows)
    return {
        "pack_install_id": pack.pack_id,
        "event_ids": tuple(ids[:5]),
        "route_ids": (pack.route_id,),
        "after": "",
        "retry_at": "1000-01-01",
        "status": "pending",
        "cutoff": 60,
        "limit": 100,
        "owners": ("event", "work_item"),
        "statuses": ("failed", "pending", "processing"),
        "states": ("pending", "processing", "retry"),
        "process_ids": tuple(process_ids[:2]),
        "evicted_by": "owner",
        "seized": "inbound_cutover",
        "lease_token": "t",
        "claim_token": "t",
        "event_id": ids[0],
        "slack_seconds": 5,
        "last_error": "",
    }


def scans(engine: str, statement: Statement, params: dict[str, Any]) -> list[str]:
    with connections["default"].cursor() as cursor:
        cursor.execute("EXPLAIN " + statement.text, params)
        names = [column[0] for column in cursor.description]
        steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if engine == "tidb":
        return [f"{step['id']} on {step['access object']}" for step in steps if "FullScan" in str(step["id"])]
    return [
        f"{step['type']} on {step['table']}"
        for step in steps
        if step["table"] and not str(step["table"]).startswith("<") and step["type"] in {"ALL", "index"}
    ]


def test_statements__scan_no_table(engine, crowd):
    found = {statement.name: faults for statement in STATEMENTS if (faults := scans(engine, statement, crowd))}
    assert found == {}


def test_plan__of_a_scan_is_caught(engine, crowd):
    """The process rows are read whole, once a cutover; it is the one, and shows that a scan would be seen."""
    assert scans(engine, processes.LIST_CLAIMERS_OF_PACK, crowd) != []


class Recorder:
    """A reader that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Statement, Any]] = []
        self._reader = db.read()

    def fetch_one(self, statement: Statement, params: Any = None) -> Any:
        self.asked.append((statement, params))
        return self._reader.fetch_one(statement, params)

    def fetch_all(self, statement: Statement, params: Any = None) -> Any:
        self.asked.append((statement, params))
        return self._reader.fetch_all(statement, params)


def rows_read(engine: str, statement: Statement, params: Any) -> float:
    """Return how many rows the steps of a statement have read, at most, once it was executed."""
    given = {name: tuple(value) if isinstance(value, set) else value for name, value in params.items()}
    analyze, column = ("EXPLAIN ANALYZE", "actRows") if engine == "tidb" else ("ANALYZE", "r_rows")
    with connections["default"].cursor() as cursor:
        cursor.execute(f"{analyze} {statement.text}", given)
        names = [column[0] for column in cursor.description]
        return max(float(dict(zip(names, row, strict=True))[column] or 0) for row in cursor.fetchall())


@pytest.mark.evidence("C-01")
def test_facts_and_coverage__under_the_locks_do_not_read_what_was_executed(engine, crowd):
    """The Event of a WorkItem that was claimed keeps its status, so that its open ones are the whole history."""
    pack_id = crowd["pack_install_id"]
    change(
        "UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item', Status = 'pending'"
        " WHERE PackInstallId = %s AND LaneOrdinal > 60",
        pack_id,
    )
    change("UPDATE _System_ConnectorWorkItem SET State = 'succeeded', Attempt = 1")
    (pack,) = query("SELECT * FROM _System_ConnectorPackInstall WHERE PackInstallId = %s", pack_id)
    recorder = Recorder()
    reads.read_facts(recorder, pack, is_attested=True)
    reads.read_coverage(recorder, pack_id)
    # The process rows are read whole, once a cutover.
    asked = [(one, params) for one, params in recorder.asked if one is not processes.LIST_CLAIMERS_OF_PACK]
    found = {one.name: rows_read(engine, one, params) for one, params in asked}
    assert len(found) >= 10
    assert {name: count for name, count in found.items() if count > 100} == {}
    everything = {"pack_install_id": pack_id, "owners": ("work_item",), "statuses": ("pending",)}
    assert rows_read(engine, cutovers.COUNT_EVENTS_OF_PACK, everything) > 500


@pytest.mark.evidence("C-11")
def test_pages_of_events_without_work__read_no_page_twice(engine, crowd):
    """On MariaDB each reads what it returns and no more, wherever it begins; TiDB's index lacks the id, and it sorts
    what is left of the kind, but never another kind."""
    change(
        "UPDATE _System_ConnectorEvent SET Status = 'pending', NextRetryAt = IF(LaneOrdinal > 300, '2026-01-01', NULL)"
        " WHERE PackInstallId = %s",
        crowd["pack_install_id"],
    )
    change("DELETE FROM _System_ConnectorWorkItem")
    for statement, retry_at in (
        (cutovers.LIST_UNDATED_EVENTS_WITHOUT_WORK, "1000-01-01"),
        (cutovers.LIST_DATED_EVENTS_WITHOUT_WORK, "2026-01-01"),
    ):
        read = rows_read(engine, statement, crowd | {"limit": 20, "retry_at": retry_at})
        assert read <= (500 if engine == "tidb" else 40)
