"""What a look reads is bounded by pages of the claim's index, and nothing behind what is left out is starved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections

from integration.storage.sql import work_items
from integration.storage.statements import Statement
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_next
from integration.work.pages import ENTRIES_PER_ROW
from integration.work.reap import reap_expired
from tests.support.work import Pack, change, expire_lease, item_row, query

pytestmark = pytest.mark.django_db

WINDOW = 16
PAGE = WINDOW * ENTRIES_PER_ROW
DEEP = 3000
READS = {
    statement.text: statement
    for statement in (work_items.LIST_PAGE_ENDS, work_items.LIST_CLAIM_CANDIDATES, work_items.LIST_PACK_CANDIDATES)
}


@contextmanager
def noted() -> Iterator[list[tuple[Statement, Any]]]:
    """Note which of the statements are sent, with their parameters."""
    found: list[tuple[Statement, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql in READS:
            found.append((READS[sql], params))
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(note):
        yield found


def rows_read(engine: str, statement: Statement, params: Any) -> int:
    """Return how many rows and index entries the engine reads when it runs a statement again."""
    with connections["default"].cursor() as cursor:
        if engine == "tidb":
            cursor.execute("EXPLAIN ANALYZE " + statement.text, params)
            names = [column[0] for column in cursor.description]
            steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            return sum(int(float(step["actRows"])) for step in steps if "Scan" in str(step["id"]))
        counter = "SHOW SESSION STATUS LIKE 'Handler_read%%'"
        before = sum(int(row["Value"]) for row in query(counter))
        cursor.execute(statement.text, params)
        cursor.fetchall()
        return sum(int(row["Value"]) for row in query(counter)) - before


def deep_lane(pack: Pack, *, are_tied: bool = False) -> str:
    """Admit a lane of thousands of items; return its head."""
    ids = pack.admit(DEEP, SourceLane="deal:deep")
    if not are_tied:
        change(
            "UPDATE _System_ConnectorWorkItem SET RunAfter = TIMESTAMPADD(SECOND, LaneOrdinal - %s, RunAfter)", 2 * DEEP
        )
    return ids[0]


@pytest.mark.parametrize("are_tied", [False, True], ids=["spread", "tied"])
def test_look__past_a_deep_lane_reads_pages_and_finds_what_is_behind(engine, pack, process, are_tied):
    head = deep_lane(pack, are_tied=are_tied)
    recent = datetime.now(UTC) - timedelta(seconds=1)
    (behind,) = pack.admit(SourceLane="deal:other", RunAfter=recent)
    queue = CandidateQueue(process, window=WINDOW)

    assert claim_next(process, queue).work_id == head
    found, fills = None, 0
    with noted() as sent:
        while found is None and fills < 10:
            found, fills = claim_next(process, queue), fills + 1
    assert found is not None
    assert found.work_id == behind
    assert len(sent) <= 2 * fills * (4 + 3 * 4)
    read = {}
    for statement, params in sent:
        read[statement.name] = max(read.get(statement.name, 0), rows_read(engine, statement, params))
    assert set(read) == {"LIST_PAGE_ENDS", "LIST_CLAIM_CANDIDATES"}
    assert max(read.values()) <= 4 * PAGE < DEEP, read


def test_look__at_the_beginning_is_made_in_each_fill(pack, process):
    from integration.work.finish import complete

    deep_lane(pack)
    queue = CandidateQueue(process, window=WINDOW, clock=lambda: 0.0)
    first = claim_next(process, queue)
    assert claim_next(process, queue) is None, "the walk is on its way behind the lane"
    complete(first)
    second = claim_next(process, queue)
    assert second.item.position == first.item.position + 1


def test_walk__that_is_through_meets_what_comes_and_begins_anew_after_a_while(pack, process):
    deep_lane(pack)
    old = datetime.now(UTC) - timedelta(seconds=DEEP + DEEP // 2)
    now = 0.0
    queue = CandidateQueue(process, window=WINDOW, clock=lambda: now)
    assert claim_next(process, queue) is not None
    for _ in range(10):
        assert claim_next(process, queue) is None

    (late,) = pack.admit(SourceLane="deal:late")
    (passed,) = pack.admit(SourceLane="deal:passed", RunAfter=old)
    assert claim_next(process, queue).work_id == late
    assert claim_next(process, queue) is None
    now += 10
    found = [claim_next(process, queue) for _ in range(10)]
    assert [claim.work_id for claim in found if claim is not None] == [passed]


def test_look__gives_the_due_retries_of_a_hidden_pack_their_share(engine, pack, process):
    deep_lane(pack)
    late = Pack(namespace="late")
    ids = late.admit(2, RunAfter=datetime.now(UTC) - timedelta(seconds=1))
    pack.admit(2 * WINDOW, RunAfter=datetime.now(UTC) - timedelta(seconds=DEEP))
    change(
        "UPDATE _System_ConnectorWorkItem SET State = 'retry', Attempt = 1, OwnershipEpoch = 1"
        " WHERE PackInstallId = %s OR (LaneOrdinal > %s)",
        late.pack_id,
        DEEP,
    )
    queue = CandidateQueue(process, window=WINDOW)
    with noted() as sent:
        taken = {item.work_id for _ in range(4) for item in queue.take(100)}
    assert set(ids) <= taken
    (share, *_) = [(statement, params) for statement, params in sent if statement.name == "LIST_PACK_CANDIDATES"]
    assert rows_read(engine, *share) < PAGE

    deep = (share[0], {**share[1], "pack_install_id": pack.pack_id, "blocked_lanes": (f"{pack.pack_id}/deal:deep",)})
    assert rows_read(engine, *deep) < DEEP / 2, "a page bounds it, however many are left out"


def test_reap__is_not_kept_from_others_by_packs_that_it_may_not_claim_from(pack, process, take):
    own = take(pack.admit()[0]).work_id
    closed = [Pack(namespace=f"closed{number}") for number in range(3)]
    hiding = [take(work_id).work_id for other in closed for work_id in other.admit(4)]
    for work_id in hiding:
        expire_lease(work_id, seconds=120)
    expire_lease(own)
    change(
        "UPDATE _System_ConnectorWorkItem SET RunAfter = RunAfter - INTERVAL 60 SECOND WHERE PackInstallId <> %s",
        pack.pack_id,
    )
    for other in closed:
        other.cut_over("rollback")
    assert reap_expired(process, limit=4).retried == 1
    assert item_row(own)["State"] == "retry"
    assert {item_row(work_id)["State"] for work_id in hiding} == {"processing"}
