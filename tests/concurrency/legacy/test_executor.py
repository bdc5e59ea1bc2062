"""The executor as a process: beside a worker, killed anywhere, refused, stopped."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.authority import gate
from integration.authority.values import OwnerKind
from integration.legacy.executor import Executor, Options, Report
from integration.projection.sweep import find_keyless_heads
from tests.support.commands import run
from tests.support.legacy import LegacyPack, expire_claim, expire_scheduler_lease, make_event_due
from tests.support.processes import Command, manage
from tests.support.projections import KIND, Source
from tests.support.work import Pack, change, event_row, item_row, query

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
#: Seconds that a process may take to start and end on a machine that runs much besides.
_PATIENCE = 200.0
WORK = ["work", "--until-idle", "--concurrency", "2", "--roles", "claim,reap", "--poll-ms", "10", "--json"]


def execute(pack: Pack, *options: str) -> list[str]:
    return ["legacy_execute", "--pack-install-id", pack.pack_id, "--until-idle", "--json", *options]


def until_idle(pack: Pack) -> Report:
    """Run an executor in this process until nothing is left, without its keeper."""
    executor = Executor(Options(pack_install_id=pack.pack_id, until_idle=True, poll_seconds=0.01))
    executor.start()
    executor._loop()
    executor._say_stopped()
    return executor.report()


def document(command: Command) -> Any:
    assert command.wait(_PATIENCE) == 0, command.output
    return json.loads(command.output.splitlines()[-1])


def lost_one(event_id: str) -> None:
    """Let the claim and the scheduler lease of a killed executor run out."""
    expire_scheduler_lease()
    expire_claim(event_id)


@pytest.mark.evidence("A-35", "A-02", "A-05")
def test_worker_and_executor__on_two_packs_of_one_database_each_execute_their_own(database_url, tmp_path):
    record = tmp_path / "runs"
    old = LegacyPack(name="old", flow="tests.record")
    old.route("deal.old")
    old.route(flow={"name": "tests.record", "version": 1})
    alone = old.events(10, payload={"file": str(record)})
    mirrored = old.events(15, payload={"file": str(record)})
    mirrors = [old.mirror(event_id) for event_id in mirrored]
    new = Pack(name="new", namespace="acme-new", flow="tests.record")
    work_ids = new.admit(25, payload={"file": str(record)})

    executor, worker = manage(execute(old), database_url), manage(WORK, database_url)
    assert document(executor) == {"ended": {"processed": 25}, "held_back": {}, "reclaimed": 0}
    assert document(worker)["executed"] == 25

    assert Counter(record.read_text().split()) == Counter([*alone, *mirrors, *work_ids])
    assert {event_row(event_id)["Status"] for event_id in (*alone, *mirrored)} == {"processed"}
    assert {(item_row(work_id)["State"], item_row(work_id)["Attempt"]) for work_id in mirrors} == {("succeeded", 0)}
    assert {(item_row(work_id)["State"], item_row(work_id)["Attempt"]) for work_id in work_ids} == {("succeeded", 1)}
    kinds = query("SELECT Kind, PackInstallId FROM _System_ConnectorClaimProcess WHERE PackInstallId IS NOT NULL")
    assert {(row["Kind"], row["PackInstallId"]) for row in kinds} == {
        ("event_legacy", old.pack_id),
        ("work_item", new.pack_id),
    }
    assert {gate.owner_of(event_id).kind for event_id in mirrored} == {OwnerKind.EVENT}


#: Failpoint -> the Event's status that the killed executor leaves, its failures at the end, the runs of its flow.
KILLS = {
    "legacy_claim.before": ("pending", 0, 1),
    "legacy_claim.before_swap": ("pending", 0, 1),
    "legacy_claim.before_commit": ("pending", 0, 1),
    "legacy_claim.after_commit": ("processing", 1, 1),
    "legacy_end.before": ("processing", 1, 2),
    "legacy_end.after_event": ("processing", 1, 2),
    "handoff.before": ("processing", 1, 2),
    "legacy_end.after_mirror": ("processing", 1, 2),
    "legacy_end.before_commit": ("processing", 1, 2),
    "legacy_end.after_commit": ("processed", 0, 1),
}


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize("point", KILLS)
def test_executor__killed_between_any_two_statements_loses_nothing_and_ends_nothing_by_halves(
    database_url, tmp_path, point
):
    status, failures, runs = KILLS[point]
    record = tmp_path / "given"
    pack = LegacyPack()
    pack.route_id = pack.route(
        KIND, flow={"name": "tests.inputs", "version": 1}, execution="source_projection", source_lane="contact.id"
    )
    source = Source(pack=pack)
    events = [source.event({"n": number, "file": str(record)}) for number in (1, 2)]
    active = source.generation(events[:1])
    queued = source.generation(events[1:], active=False)
    event_id = events[0]["EventId"]

    killed = manage(execute(pack), database_url, failpoint=point, folder=tmp_path)
    assert killed.wait(_PATIENCE) == -signal.SIGKILL, killed.output
    assert killed.fired() == point

    assert event_row(event_id)["Status"] == status
    first, second = item_row(active), item_row(queued)
    if status == "processed":
        assert (first["State"], first["ProjectionActiveKey"]) == ("succeeded", None)
        assert second["ProjectionActiveKey"] == source.key
    else:
        assert (first["State"], first["ProjectionActiveKey"]) == ("pending", source.key)
        assert second["ProjectionActiveKey"] is None
    assert find_keyless_heads() == ()
    lost_one(event_id)

    assert until_idle(pack).reclaimed == failures
    assert [event_row(event["EventId"])["Status"] for event in events] == ["processed", "processed"]
    assert event_row(event_id)["RetryCount"] == failures
    rows = [item_row(work_id) for work_id in (active, queued)]
    assert [(row["State"], row["ProjectionActiveKey"], row["Attempt"]) for row in rows] == [("succeeded", None, 0)] * 2
    assert find_keyless_heads() == ()
    given = [json.loads(line)["work_id"] for line in record.read_text().splitlines()]
    assert Counter(given) == Counter({active: runs, queued: 1})


@pytest.mark.evidence("A-35")
def test_executor__killed_keeps_its_lease_and_its_event_until_they_run_out(database_url, tmp_path):
    pack = LegacyPack(flow="tests.noop")
    pack.route()
    (event_id,) = pack.events()
    killed = manage(execute(pack), database_url, failpoint="legacy_claim.after_commit", folder=tmp_path)
    assert killed.wait(_PATIENCE) == -signal.SIGKILL, killed.output
    executor = pack.executor()
    assert executor.round() is False, "the lease is the killed one's"
    expire_scheduler_lease()
    assert executor.round() is False, "the claim is the killed one's"
    assert event_row(event_id)["Status"] == "processing"
    expire_claim(event_id)
    assert executor.round() is True
    assert executor.report().reclaimed == 1
    assert event_row(event_id)["Status"] == "processed"


@pytest.mark.evidence("A-35")
def test_executor__whose_event_kills_it_buries_the_event_when_its_attempts_are_used_up(database_url, tmp_path):
    pack = LegacyPack(flow="tests.noop")
    pack.route(retry={"max_attempts": 2})
    (event_id,) = pack.events()
    work_id = pack.mirror(event_id)
    for _ in range(2):
        killed = manage(execute(pack), database_url, failpoint="legacy_end.before", folder=tmp_path)
        assert killed.wait(_PATIENCE) == -signal.SIGKILL, killed.output
        lost_one(event_id)
    assert until_idle(pack).reclaimed == 1
    row = event_row(event_id)
    assert (row["Status"], row["RetryCount"]) == ("dead", 2)
    assert item_row(work_id)["State"] == "dead"
    owner = gate.owner_of(event_id)
    assert (owner.kind, owner.why.rule) == (OwnerKind.EVENT, 2)


def test_executor__renews_its_lease_and_its_claim_while_a_flow_runs_longer_than_both(database_url, tmp_path):
    gate_file = tmp_path / "gate"
    pack = LegacyPack(flow="tests.hold")
    pack.route()
    (event_id,) = pack.events(payload={"file": str(gate_file)})
    command = manage(execute(pack, "--lease-seconds", "4"), database_url)
    await_file(gate_file.with_suffix(".started"))
    before = event_row(event_id)["ClaimedUntil"]
    lease_before = lease_until()
    await_change(lambda: event_row(event_id)["ClaimedUntil"] > before)
    await_change(lambda: lease_until() > lease_before)
    gate_file.touch()
    assert document(command)["ended"] == {"processed": 1}
    (lease,) = query("SELECT LeaseToken FROM _System_ConnectorSchedulerLease")
    assert lease["LeaseToken"] is None


def test_executor__stopped_by_a_signal_ends_its_event_first_and_says_so(database_url, tmp_path):
    gate_file = tmp_path / "gate"
    pack = LegacyPack(flow="tests.hold")
    pack.route()
    first, second = pack.events(2, payload={"file": str(gate_file)})
    command = manage(["legacy_execute", "--pack-install-id", pack.pack_id, "--json"], database_url)
    await_file(gate_file.with_suffix(".started"))
    command.process.send_signal(signal.SIGTERM)
    gate_file.touch()
    assert document(command)["ended"] == {"processed": 1}
    assert [event_row(event_id)["Status"] for event_id in (first, second)] == ["processed", "pending"]
    (process,) = query("SELECT StoppedAt FROM _System_ConnectorClaimProcess")
    assert process["StoppedAt"] is not None


@pytest.mark.evidence("A-35")
def test_executor__that_is_evicted_or_overtaken_by_a_cutover_claims_no_more(database_url, tmp_path):
    gate_file = tmp_path / "gate"
    pack = LegacyPack(flow="tests.hold")
    pack.route()
    first, second = pack.events(2, payload={"file": str(gate_file)})
    command = manage(execute(pack), database_url)
    await_file(gate_file.with_suffix(".started"))
    change("UPDATE _System_ConnectorClaimProcess SET EvictedAt = UTC_TIMESTAMP(6)")
    pack.cut_over("forward")
    gate_file.touch()
    assert command.wait(_PATIENCE) == 3, command.output
    assert json.loads(command.output.splitlines()[-1])["error"] == "claim_fenced"
    assert [event_row(event_id)["Status"] for event_id in (first, second)] == ["processed", "pending"]


# The command


def test_command__refuses_what_it_may_not_execute():
    pack = LegacyPack()
    pack.cut_over("forward")
    refused = run("legacy_execute", "--pack-install-id", pack.pack_id, "--until-idle", "--json")
    assert (refused.code, refused.document["error"]) == (3, "claim_fenced")
    assert run("legacy_execute", "--pack-install-id", pack.pack_id, "--until-idle").code == 3
    assert run("legacy_execute", "--pack-install-id", pack.route_id, "--until-idle").code == 4
    assert run("legacy_execute", "--pack-install-id", "caf\u00e9", "--until-idle").code == 2
    assert run("legacy_execute", "--pack-install-id", pack.pack_id, "--lease-seconds", "0").code == 2
    assert run("legacy_execute").code == 2


def test_command__says_what_it_did_and_what_it_held_back(database_url):
    pack = LegacyPack()
    pack.route(retry={"max_attempts": 2, "base_seconds": 0.01, "cap_seconds": 0.02})
    pack.events(payload={"end": "fail"})
    pack.events(2)
    (held,) = pack.events()
    pack.mirror(held, State="cancelled")
    command = manage(["legacy_execute", "--pack-install-id", pack.pack_id, "--until-idle"], database_url)
    assert command.wait(_PATIENCE) == 0, command.output
    assert "executed 1 dead, 1 failed, 2 processed; took back 0" in command.output
    assert "held back: 1 (mirror_conflict)" in command.output
    assert "canary" not in command.output


def test_executor__waits_for_a_failed_event_and_ends_when_nothing_is_left():
    pack = LegacyPack()
    pack.route(retry={"max_attempts": 3, "base_seconds": 0.01, "cap_seconds": 0.02})
    (event_id,) = pack.events(payload={"end": "fail"}, Status="failed", RetryCount=1)
    make_event_due(event_id)
    assert until_idle(pack).ended == {"dead": 1, "failed": 1}
    assert event_row(event_id)["RetryCount"] == 3


def lease_until() -> Any:
    (row,) = query("SELECT LeaseUntil FROM _System_ConnectorSchedulerLease")
    return row["LeaseUntil"]


def await_file(path: Path) -> None:
    await_change(path.exists)


def await_change(is_so: Any) -> None:
    deadline = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
