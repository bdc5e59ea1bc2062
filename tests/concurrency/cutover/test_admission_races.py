"""Cutovers beside admissions and replays that are under way: what these add is bound by the receipt, or refuses it.

Real processes; in each control the cutover reads the rows that it should lock, and goes past them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.cutover.inbound.verify import verify
from tests.concurrency.cutover import inbound_racers
from tests.concurrency.cutover import rollback_racers as racers
from tests.support import admission, webhooks
from tests.support.authority import World
from tests.support.inbound import work_of
from tests.support.legacy import LegacyPack
from tests.support.processes import race
from tests.support.rollback import receipts_of, write_forward_receipt
from tests.support.work import change, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PLAY = f"{racers.__name__}:beside"
FORWARD = f"{inbound_racers.__name__}:meet_an_admission"
GUARDED = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])


def meet(
    database_url: str, folder: Path, pack_id: str, part: str, *, guarded: bool, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Run one of the two beside a rollback; return what each came to."""
    until = "waited_for" if guarded else "armed"
    sides = [
        {"part": part, "options": {"folder": str(folder), "until": until, **options}},
        {"part": "rollback", "options": {"folder": str(folder), "pack_id": pack_id, "guarded": guarded}},
    ]
    done, rolled_back = race(PLAY, sides, database_url)
    return done, rolled_back


def left_outside() -> list[str]:
    """Return the items that wait and that no rollback holds."""
    rows = query(
        "SELECT WorkId FROM _System_ConnectorWorkItem WHERE State = 'pending' AND RollbackExecutionFenceId IS NULL"
    )
    return [row["WorkId"] for row in rows]


@GUARDED
@pytest.mark.evidence("C-04", "C-10")
def test_rollback__beside_an_admission_holds_what_it_admits(database_url: str, tmp_path: Path, guarded: bool):
    pack_id = webhooks.activate()
    admission.receive(webhooks.deal())
    admitted, rolled_back = meet(database_url, tmp_path, pack_id, "admit", guarded=guarded)
    assert (admitted, rolled_back["is_new"]) == (1, True)
    assert (rolled_back["item_count"], len(left_outside())) == ((1, 0) if guarded else (0, 1))


@GUARDED
@pytest.mark.evidence("C-09")
def test_rollback__beside_an_admission_sees_the_range_that_it_adds(database_url: str, tmp_path: Path, guarded: bool):
    pack_id = admission.activate()
    admission.inputs(1)
    admitted, rolled_back = meet(database_url, tmp_path, pack_id, "admit", guarded=guarded)
    assert admitted == 1
    if guarded:
        assert rolled_back == {"refused": "ranges_admitted"}
    else:
        assert (rolled_back["is_new"], admission.ranges()) == (True, [(1, 1, True)])


@GUARDED
@pytest.mark.evidence("C-04", "C-10")
def test_rollback__beside_a_replay_holds_the_child_that_it_makes(database_url: str, tmp_path: Path, guarded: bool):
    world = World()
    write_forward_receipt(world.pack_id)
    ref = str(world.work())
    replayed, rolled_back = meet(database_url, tmp_path, world.pack_id, "replay", guarded=guarded, ref=ref)
    assert (replayed, rolled_back["is_new"]) == ("replayed", True)
    assert (rolled_back["item_count"], len(left_outside())) == ((1, 0) if guarded else (0, 1))


@GUARDED
@pytest.mark.evidence("C-01", "C-11")
def test_forward__beside_an_old_writer_gives_work_to_what_it_admits(database_url: str, tmp_path: Path, guarded: bool):
    pack = LegacyPack()
    pack.route()
    pack.mirror(*pack.events())
    shared = {"pack_id": pack.pack_id, "folder": str(tmp_path), "guarded": guarded}
    event_id, is_new = race(FORWARD, [{"part": "admit", **shared}, {"part": "forward", **shared}], database_url)
    assert is_new
    # What is nobody's is a gap: no executor may claim, and no worker has anything to.
    assert (len(work_of(event_id)), verify(pack.pack_id).holds) == ((1, True) if guarded else (0, False))


@GUARDED
@pytest.mark.evidence("C-01", "C-02")
def test_forward__beside_a_replay_binds_the_child_that_it_makes(database_url: str, tmp_path: Path, guarded: bool):
    world = World()
    change("DELETE FROM _System_ConnectorCutoverReceipt")
    world.work("pending", Attempt=0)
    shared = {"pack_id": world.pack_id, "folder": str(tmp_path), "guarded": guarded}
    sides = [{"part": "replay", "ref": str(world.legacy()), **shared}, {"part": "forward", **shared}]
    assert race(FORWARD, sides, database_url) == ["replayed", True]
    (receipt,) = receipts_of(world.pack_id)
    bound = json.loads(receipt["Proof"])["coverage"]["owned_by_event"]
    waiting = query("SELECT EventId FROM _System_ConnectorEvent WHERE Status = 'pending' AND ExecutionOwner = 'event'")
    assert (bound, len(waiting)) == ((2, 2) if guarded else (1, 2))
    assert [len(work_of(row["EventId"])) for row in waiting] == [1, 1]
