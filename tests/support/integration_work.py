"""WorkItems of the families that no Event is behind, for tests of the kernel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from integration.values import digest_text, new_id
from tests.support.work import insert


def admit_integration(count: int = 1, *, family: str = "effect", namespace: str = "acme", **over: Any) -> list[str]:
    """Insert pending items of a family; return their WorkIds. `over` overrides columns."""
    now = datetime.now(UTC) - timedelta(seconds=5)
    rows = []
    for number in range(1, count + 1):
        work_id = new_id()
        rows.append(
            {
                "WorkId": work_id,
                "WorkFamily": family,
                "WorkType": "external_command",
                "SubjectKind": "command",
                "SubjectId": new_id(),
                "OrgId": "0" * 36,
                "Namespace": namespace,
                "FlowName": "tests.effect",
                "FlowVersion": "1",
                "CatalogDigest": "c" * 64,
                "LaneOrdinal": number,
                "ActiveKey": digest_text(work_id),
                "State": "pending",
                "RunAfter": now,
                "MaxAttempts": 3,
                "CreatedAt": now,
                "UpdatedAt": now,
                **over,
            }
        )
    insert("_System_IntegrationWorkItem", rows)
    return [str(row["WorkId"]) for row in rows]
