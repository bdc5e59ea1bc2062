"""A rollback's statements find their rows by a key: what a pack has ended is not walked for what it has not."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import legacy_outcomes, rollback_fences
from integration.storage.statements import Statement
from tests.db.work.test_plans import faults_of_plan
from tests.support.rollback import MovedPack, deliver_end
from tests.support.work import item_row

pytestmark = pytest.mark.django_db
STATEMENTS = [
    value
    for module in (rollback_fences, legacy_outcomes)
    for value in vars(module).values()
    if isinstance(value, Statement) and not value.text.lstrip().startswith("INSERT")
]


@pytest.fixture
def facts(db: None) -> dict[str, Any]:
    """A pack with much that has ended, a rollback that is half reconciled, and what was admitted since."""
    pack = MovedPack()
    pack.admit(1500, State="succeeded", Attempt=1)
    work_ids = pack.waiting(60)
    done = pack.roll_back()
    for fenced_id in work_ids[:30]:
        deliver_end(fenced_id)
    pack.waiting(20)
    work_id = pack.waiting()[0]
    row = item_row(work_id)
    return {
        "pack_install_id": pack.pack_id,
        "fence_id": done.fence_id,
        "receipt_id": done.receipt_id,
        "work_id": work_id,
        "work_ids": (work_id,),
        "event_id": row["EventId"],
        "event_ids": (row["EventId"],),
        "work_type": row["WorkType"],
        "after": "",
        "after_ordinal": 1,
        "limit": 100,
        "cutoff": 0,
        "state": "open",
        "item_count": 1,
        "set_digest": "0" * 64,
        "digest": "0" * 64,
        "outcome": "dead",
        "receipt_version": 1,
        "ended_at": row["RunAfter"],
    }


def test_statements__find_their_rows_by_a_key(facts: dict[str, Any]):
    engine = "tidb" if connections["default"].settings_dict["ENGINE"] == "django_tidb" else "mariadb"
    found = {statement.name: faults for statement in STATEMENTS if (faults := faults_of_plan(engine, statement, facts))}
    assert found == {}
