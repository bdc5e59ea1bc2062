"""The statements of catalog and ingress find their rows by a key, whatever stands beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import events, fences, namespaces, packs, receipts, routes
from integration.storage.statements import Statement
from integration.values import digest_text, new_id
from tests.support import webhooks

pytestmark = pytest.mark.django_db

STATEMENTS = [
    receipts.FIND_RECEIPT_BY_KEY,
    receipts.FIND_ANY_READY_RECEIPT,
    receipts.LIST_READY_RECEIPTS,
    receipts.LOCK_RECEIPTS,
    receipts.MARK_RECEIPTS_MATERIALIZED,
    receipts.MARK_RECEIPTS_QUARANTINED,
    receipts.COUNT_RECEIPTS,
    receipts.READ_OLDEST_READY_RECEIPT,
    packs.LOCK_PACK,
    packs.FIND_PACK,
    packs.READ_NAMESPACE_REVISION,
    packs.READ_GREATEST_REVISION,
    packs.ADVANCE_LANE_ORDINAL,
    packs.MARK_PACK_ACTIVE,
    packs.MARK_PACK_RETIRED,
    packs.LIST_INCARNATIONS,
    packs.LIST_ACTIVE_PACKS_OF_NAMESPACE,
    routes.FIND_ROUTE,
    routes.LIST_LIVE_ROUTES,
    routes.LIST_ROUTES_BY_LIVE_KEY,
    routes.SWEEP_ROUTES,
    routes.MARK_ROUTES_LIVE,
    fences.LIST_ARMED_FENCES,
    fences.LIST_LIVE_OVERRIDES,
    namespaces.FIND_NAMESPACE,
    events.LIST_STORED_EVENTS,
    events.FIND_EVENT_OF_PACK,
]
#: Reads whose order must come from the index, so that their limit bounds what they read.
ORDERED = {"LIST_READY_RECEIPTS", "READ_OLDEST_READY_RECEIPT"}


@pytest.fixture
def crowd() -> dict[str, Any]:
    """Many receipts, most of them done; many packs, most of them of other namespaces."""
    pack_id = webhooks.activate()
    now = datetime.now(UTC).replace(tzinfo=None)
    with connections["default"].cursor() as cursor:
        ids = [new_id() for _ in range(2000)]
        cursor.executemany(
            "INSERT INTO _System_ConnectorIngressReceipt (ReceiptId, PackInstallId, Namespace, RouteKey, Provider,"
            " IdempotencyKey, BodyHash, Body, State, ReceivedAt)"
            " VALUES (%s, %s, %s, 'deals', 'p', %s, %s, 'x', %s, %s)",
            [
                (
                    one,
                    pack_id,
                    f"n{place % 7}",
                    digest_text(one),
                    "0" * 64,
                    "received" if place % 9 == 0 else "done",
                    now,
                )
                for place, one in enumerate(ids)
            ],
        )
        cursor.executemany(
            "INSERT INTO _System_ConnectorPackInstall (PackInstallId, OrgId, AppInstallationId, Namespace, PackName,"
            " PackVersion, Incarnation, Status, CatalogDigest, InstalledAt)"
            " VALUES (%s, %s, %s, %s, 'p', '1', 1, 'retired', %s, %s)",
            [(new_id(), webhooks.ORG, webhooks.ORG, f"other{place}", "0" * 64, now) for place in range(300)],
        )
        cursor.executemany(
            "INSERT INTO _System_ConnectorRoute (RouteId, PackInstallId, EventKind, RouteVersion, Provider, WorkType,"
            " ExecutionClass, FlowName, FlowVersion, Status, Definition, CreatedAt)"
            " VALUES (%s, %s, 'k', 1, 'p', 'connector_event', 'per_event', 'f', '1', 'swept', '{}', %s)",
            [(new_id(), new_id(), now) for _ in range(300)],
        )
    return {
        "receipt_ids": ids[:3],
        "idempotency_key": digest_text(ids[0]),
        "idempotency_keys": ("a", "b"),
        "event_kinds": ("deal.created",),
        "namespace": "n1",
        "route_keys": ("deals",),
        "after_at": datetime(1970, 1, 1),  # noqa: DTZ001 - as the column has it
        "after_id": "",
        "limit": 50,
        "state": "received",
        "pack_install_id": pack_id,
        "pack_name": "demo",
        "quarantine_code": "body_not_json",
        "expected_lane_ordinal": 1,
        "next_lane_ordinal": 2,
        "active_key": "n1:x",
        "catalog_revision": 9,
        "route_id": new_id(),
        "live_keys": ("demo:deal.created", "demo:deal.updated"),
        "fence_ids": (new_id(), new_id()),
    }


def faults_of_plan(engine: str, statement: Statement, params: dict[str, Any]) -> list[str]:
    found = []
    with connections["default"].cursor() as cursor:
        cursor.execute("EXPLAIN " + statement.text, params)
        names = [column[0] for column in cursor.description]
        steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for step in steps:
        if engine == "tidb":
            name = str(step["id"])
            # The greatest of an indexed column is read from the index's end, limited to one row.
            if "FullScan" in name and "keep order:true, desc" not in str(step["operator info"]):
                found.append(f"{name} on {step['access object']}")
            if statement.name in ORDERED and ("Sort" in name or "TopN" in name):
                found.append(name)
        elif step["table"] and not str(step["table"]).startswith("<"):
            if step["type"] in {"ALL", "index"}:
                found.append(f"{step['type']} on {step['table']}")
            if statement.name in ORDERED and "filesort" in (step["Extra"] or ""):
                found.append("filesort")
    return found


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_statement__finds_its_rows_by_a_key(engine: str, crowd: dict[str, Any], statement: Statement):
    assert faults_of_plan(engine, statement, crowd) == []


def test_plan__of_a_scan_is_caught(engine: str, crowd: dict[str, Any]):
    from integration.storage.statements import Returns

    scan = Statement(
        name="SCAN",
        text="SELECT ReceiptId FROM _System_ConnectorIngressReceipt WHERE Provider = %(namespace)s",
        returns=Returns.ROWS,
    )
    assert faults_of_plan(engine, scan, crowd) != []
