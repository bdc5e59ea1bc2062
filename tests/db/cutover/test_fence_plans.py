"""The statements on fences find their rows by a key, in the order of the index, whatever stands beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import fences as sql
from integration.values import digest_text, new_id
from tests.db.ingress.test_plans import faults_of_plan
from tests.support import webhooks

pytestmark = pytest.mark.django_db
STATEMENTS = [
    sql.FIND_FENCE,
    sql.FIND_OVERRIDE,
    sql.MARK_FENCE_LIFTED,
    sql.MARK_OVERRIDE_LIFTED,
    sql.LIST_PAST_FENCES,
    sql.LIST_OVERRIDES_OF_FENCES,
    sql.LIST_ADMITTING_PACKS,
    sql.LIST_LIVE_KINDS,
    sql.COUNT_RECEIVED_LATELY,
    sql.COUNT_FENCED_REPLAYS,
]


@pytest.fixture
def crowd() -> dict[str, Any]:
    """Hundreds of fences, most of them lifted, of receipts, of audit entries and of packs of other namespaces."""
    pack_id = webhooks.activate()
    now = datetime.now(UTC).replace(tzinfo=None)
    fence_ids = [new_id() for _ in range(600)]
    with connections["default"].cursor() as cursor:
        cursor.executemany(
            "INSERT INTO _System_ConnectorAdmissionFence (FenceId, Namespace, Scope, ArmedAt, ArmedBy, Reason, LiftedAt)"
            " VALUES (%s, %s, '*', %s, 'ana', 'x', %s)",
            [(one, f"n{place % 7}", now, now if place % 50 else None) for place, one in enumerate(fence_ids)],
        )
        cursor.executemany(
            "INSERT INTO _System_ConnectorAdmissionOverride (OverrideId, FenceId, Scope, GrantedAt, GrantedBy, Reason)"
            " VALUES (%s, %s, 'k', %s, 'ana', 'x')",
            [(new_id(), one, now) for one in fence_ids],
        )
        cursor.executemany(
            "INSERT INTO _System_ConnectorIngressReceipt (ReceiptId, PackInstallId, Namespace, RouteKey, Provider,"
            " IdempotencyKey, BodyHash, Body, State, ReceivedAt) VALUES (%s, %s, %s, 'd', 'p', %s, %s, 'x', %s, %s)",
            [
                (
                    one,
                    pack_id,
                    f"n{place % 7}",
                    digest_text(one),
                    "0" * 64,
                    ("received", "materialized")[place % 2],
                    now,
                )
                for place, one in enumerate(new_id() for _ in range(1500))
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
        cursor.executemany(
            "INSERT INTO console_auditentry (id, stream, seq, previous_digest, digest, at, actor_name, via, action,"
            " outcome, ref_kind, ref_id, reason, facts)"
            " VALUES (%s, 's', %s, %s, %s, %s, 'ana', 'console', 'a.b', 'done', 'x', 'y', '', '{}')",
            [(new_id(), place, "0" * 64, "0" * 64, now) for place in range(1, 600)],
        )
    return {
        "fence_id": fence_ids[3],
        "fence_ids": tuple(fence_ids[:3]),
        "override_id": new_id(),
        "lifted_by": "ana",
        "before": "~",
        "limit": 20,
        "namespace": "demo",
        "seconds": 60,
        "since": now,
    }


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_statement__finds_its_rows_by_a_key(engine: str, crowd: dict[str, Any], statement: Any):
    assert faults_of_plan(engine, statement, crowd) == []


def test_past_fences__come_in_the_order_of_their_key(engine: str, crowd: dict[str, Any]):
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql.LIST_PAST_FENCES.text}", crowd)
        plan = str(cursor.fetchall())
    assert ("filesort" not in plan) if engine == "mariadb" else ("Sort" not in plan and "TopN" not in plan), plan
