"""A completion that meets an admission never leaves a queued generation without its active key."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from integration.ingress.service import materialize_ready
from integration.projection.sweep import find_keyless_heads
from tests.concurrency.projection.handoff_racers import FLOW
from tests.support import admission, webhooks
from tests.support.processes import manage, race
from tests.support.work import expire_lease, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACERS = "tests.concurrency.projection.handoff_racers"
WORK = ["work", "--until-idle", "--concurrency", "1", "--roles", "claim,reap", "--poll-ms", "10"]


def meet(database_url: str, folder: Path, variant: str) -> list[dict]:
    """Let a completion wait for the lock of an admission that queues a generation; return the generations."""
    admission.activate()
    admission.inputs(1)
    assert materialize_ready() == 1
    admission.inputs(1)
    admitted, completed = race(
        f"{RACERS}:take_part",
        [
            {"role": "admit", "folder": str(folder)},
            {"role": "complete", "folder": str(folder), "variant": variant},
        ],
        database_url,
    )
    assert admitted == {"receipts": 1}
    rows = admission.generations()
    assert [(row["InputStartOrdinal"], row["LaneOrdinal"], row["State"]) for row in rows] == [
        (1, 1, "succeeded"),
        (2, 2, "pending"),
    ]
    assert rows[0]["WorkId"] == completed["work_id"]
    return rows


@pytest.mark.evidence("P-24", "A-25")
def test_completion__that_waited_for_an_admission_hands_its_key_to_what_was_queued(database_url, tmp_path):
    ended, queued = meet(database_url, tmp_path, "guarded")
    assert ended["ProjectionActiveKey"] is None
    assert queued["ProjectionActiveKey"] == queued["ProjectionKey"]
    assert find_keyless_heads() == ()
    assert admission.unowned_inputs() == {}


@pytest.mark.evidence("P-24")
@pytest.mark.parametrize("variant", ["looked_first", "one_swap"])
def test_completion__that_looks_in_no_later_statement_leaves_an_orphan(database_url, engine, tmp_path, variant):
    """The negative control: the same race, the look in an earlier statement or in the same one."""
    _, queued = meet(database_url, tmp_path, variant)
    if variant == "one_swap" and engine == "mariadb":
        # Whatever a write reads, MariaDB reads by locks, so that it sees what it waited for; TiDB does not.
        assert queued["ProjectionActiveKey"] == queued["ProjectionKey"]
        return
    assert queued["ProjectionActiveKey"] is None
    assert [head.work_id for head in find_keyless_heads()] == [queued["WorkId"]]
    assert admission.unowned_inputs() == {"keyless heads": [queued["WorkId"]]}


@pytest.mark.evidence("P-24", "P-09")
def test_completions__under_a_stream_of_admissions_lose_no_input_and_leave_no_orphan(database_url, tmp_path):
    lanes, batches = 4, 25
    file = tmp_path / "given"
    admission.activate(FLOW)
    results = race_of_all(database_url, lanes, batches, file, tmp_path)
    assert results[0] == {"admitted": lanes * batches}

    assert find_keyless_heads() == ()
    assert admission.unowned_inputs() == {}
    rows = admission.generations()
    assert {row["State"] for row in rows} == {"succeeded"}
    assert {row["ProjectionActiveKey"] for row in rows} == {None}
    assert sum(result["ended"] for result in results[1:]) == len(rows)

    given = [json.loads(line) for line in file.read_text().splitlines()]
    by_work = {entry["work_id"]: entry["ordinals"] for entry in given}
    assert by_work == {row["WorkId"]: admission.members(row) for row in rows}
    assert Counter(ordinal for entry in given for ordinal in entry["ordinals"]) == Counter(
        range(1, lanes * batches + 1)
    )
    for row in rows:
        entry = next(entry for entry in given if entry["work_id"] == row["WorkId"])
        assert entry["numbers"] == sorted(entry["numbers"])
    # The race was one: inputs coalesced, and generations were queued behind claimed ones.
    assert lanes < len(rows) < lanes * batches


def race_of_all(database_url: str, lanes: int, batches: int, file: Path, folder: Path) -> list[dict]:
    shared = {"folder": str(folder)}
    admit = {"lanes": lanes, "batches": batches, "file": str(file), **shared}
    return race(
        f"{RACERS}:play",
        [{"part": "admit", **admit}, {"part": "work", **shared}, {"part": "work", **shared}],
        database_url,
    )


@pytest.mark.evidence("P-24", "P-03")
@pytest.mark.parametrize("point", ["handoff.before", "finish.before", "finish.after_commit"])
def test_worker__killed_around_the_handoff_loses_neither_the_end_nor_the_successor(database_url, tmp_path, point):
    file = tmp_path / "given"
    admission.activate(FLOW)

    def receive(*numbers: int) -> None:
        for number in numbers:
            body = json.loads(webhooks.deal(1, event=admission.PROJECTED))
            admission.receive(json.dumps({**body, "n": number, "file": str(file)}).encode())
        materialize_ready()

    receive(1, 2)
    (active,) = admission.generations()
    claimed = manage(WORK, database_url, failpoint="claim.after_commit", folder=tmp_path)
    assert claimed.wait() == -signal.SIGKILL, claimed.output
    receive(3, 4)
    expire_lease(active["WorkId"])
    assert admission.ranges() == [(1, 2, True), (3, 4, False)]

    killed = manage(WORK, database_url, failpoint=point, folder=tmp_path)
    assert killed.wait() == -signal.SIGKILL, killed.output
    assert killed.fired() == point
    first, second = admission.generations()
    if point == "finish.after_commit":
        assert (first["State"], second["ProjectionActiveKey"]) == ("succeeded", second["ProjectionKey"])
    else:
        assert (first["State"], first["ProjectionActiveKey"]) == ("processing", first["ProjectionKey"])
        assert second["ProjectionActiveKey"] is None
        expire_lease(first["WorkId"])
    assert find_keyless_heads() == ()

    last = manage(WORK, database_url)
    assert last.wait() == 0, last.output
    assert [row["State"] for row in admission.generations()] == ["succeeded", "succeeded"]
    assert admission.unowned_inputs() == {}
    given = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(entry["work_id"], tuple(entry["numbers"])) for entry in given} == {
        (first["WorkId"], (1, 2)),
        (second["WorkId"], (3, 4)),
    }
    assert item_row(second["WorkId"])["Attempt"] == 1
    assert query("SELECT 1 FROM _System_ConnectorWorkItem WHERE ProjectionActiveKey IS NOT NULL") == []
