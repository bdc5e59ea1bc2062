"""Lanes under many processes: a source lane in order and one at a time, a target lane one at a time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from integration.values import new_id
from tests.support.processes import race, until_met
from tests.support.work import Pack, query

pytestmark = pytest.mark.django_db(transaction=True)
RACERS = "tests.concurrency.work.racers"
LANES, EACH, PROCESSES = 6, 20, 4


def work(file: Path, database_url: str, *, without: str = "") -> list[tuple[str, str, int]]:
    """Run the items in several processes; return what their flows wrote: start or end, lane, number."""
    race(f"{RACERS}:work_until_idle", [{"without": without}] * PROCESSES, database_url)
    lines = [line.split() for line in file.read_text().splitlines()]
    rows = query("SELECT State, Attempt, OwnershipEpoch FROM _System_ConnectorWorkItem")
    assert {(row["State"], row["Attempt"], row["OwnershipEpoch"]) for row in rows} == {("succeeded", 1, 1)}
    assert len(lines) == 2 * LANES * EACH
    return [(what, lane, int(number)) for what, lane, number in lines]


def overlaps(spans: list[tuple[str, str, int]]) -> list[str]:
    """Return the lanes in which one began before another had ended."""
    running: dict[str, int] = defaultdict(int)
    found = []
    for what, lane, _ in spans:
        running[lane] += 1 if what == "start" else -1
        if running[lane] > 1:
            found.append(lane)
    return found


def disorders(spans: list[tuple[str, str, int]]) -> list[str]:
    """Return the lanes whose items did not begin in order."""
    begun: dict[str, list[int]] = defaultdict(list)
    for what, lane, number in spans:
        if what == "start":
            begun[lane].append(number)
    return [lane for lane, numbers in begun.items() if numbers != sorted(numbers)]


def admit(file: Path, kind: str) -> None:
    file.unlink(missing_ok=True)
    pack = Pack(flow="tests.span", namespace=f"acme-{new_id()[:8]}")
    for number in range(EACH):
        for lane in range(LANES):
            pack.admit(payload={"file": str(file), "lane": f"lane-{lane}", "n": number}, **{kind: f"lane-{lane}"})


@pytest.mark.evidence("K-06")
def test_source_lane__is_worked_in_order_and_one_at_a_time(database_url, tmp_path):
    admit(tmp_path / "spans", "SourceLane")
    spans = work(tmp_path / "spans", database_url)
    assert (disorders(spans), overlaps(spans)) == ([], [])


def test_source_lane__without_the_look_at_its_head_is_worked_in_disorder(database_url, tmp_path):
    def once() -> list[str]:
        admit(tmp_path / "spans", "SourceLane")
        spans = work(tmp_path / "spans", database_url, without="source_lanes")
        return disorders(spans) + overlaps(spans)

    assert until_met(once, bool)


@pytest.mark.evidence("K-07")
def test_target_lane__is_worked_one_at_a_time(database_url, tmp_path):
    admit(tmp_path / "spans", "TargetLane")
    assert overlaps(work(tmp_path / "spans", database_url)) == []


@pytest.mark.evidence("K-07")
def test_target_lane__is_kept_by_the_unique_key_alone(database_url, tmp_path):
    """What is read before the claim spares a lost try; the database decides."""
    admit(tmp_path / "spans", "TargetLane")
    assert overlaps(work(tmp_path / "spans", database_url, without="busy_look")) == []


def test_target_lane__without_its_key_is_worked_several_at_a_time(database_url, tmp_path):
    def once() -> list[str]:
        admit(tmp_path / "spans", "TargetLane")
        return overlaps(work(tmp_path / "spans", database_url, without="target_lanes"))

    assert until_met(once, bool)
