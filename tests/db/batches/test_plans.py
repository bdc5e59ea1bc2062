"""What a runner asks before every item is found by keys, however much work there is."""

from __future__ import annotations

import pytest
from django.db import connections

from integration.batches.repetition import dead_children
from integration.storage import db
from integration.storage.db import _adapt
from integration.storage.sql import replay_batches as sql
from tests.support.work import Pack, change

pytestmark = pytest.mark.django_db


@pytest.fixture
def children() -> list[str]:
    """Fifty children among hundreds of rows: the first forty ended one after the other, the last three of them dead."""
    ids = Pack().admit(400)
    for place, work_id in enumerate(ids[:40]):
        change(
            "UPDATE _System_ConnectorWorkItem SET State = %s, TerminalAt = %s WHERE WorkId = %s",
            *("dead" if place >= 37 else "succeeded", f"2026-01-01 00:00:{place:02}", work_id),
        )
    return ids[:50]


def test_children__that_ended_last_are_found_by_their_ids(children: list[str], engine: str):
    params = _adapt({"work_ids": tuple(sorted(children)), "limit": 3})
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql.LIST_LAST_ENDED_CHILDREN.text}", params)
        names = [column[0] for column in cursor.description]
        plan = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if engine == "mariadb":
        assert [(row["type"], row["key"]) for row in plan] == [("range", "PRIMARY")], plan
    else:
        reads = [row["id"].strip("├─└│ ").rpartition("_")[0] for row in plan if row["access object"]]
        assert reads
        assert set(reads) <= {"Batch_Point_Get", "IndexRangeScan", "TableRowIDScan"}, plan


def test_children__are_as_many_as_are_asked_for_and_the_last_ones(children: list[str]):
    rows = db.read().fetch_all(sql.LIST_LAST_ENDED_CHILDREN, {"work_ids": tuple(sorted(children)), "limit": 3})
    assert [row["WorkId"] for row in rows] == [children[39], children[38], children[37]]
    assert dead_children(rows, 3)
    rows = db.read().fetch_all(sql.LIST_LAST_ENDED_CHILDREN, {"work_ids": tuple(sorted(children)), "limit": 4})
    assert not dead_children(rows, 4)
