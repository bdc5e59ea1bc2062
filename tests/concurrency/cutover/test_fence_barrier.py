"""Arming returns when everything that began before has ended: shown with real processes, and with the barrier away."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections

from console.models import User
from integration.cutover.fences import reads, service
from integration.ingress.service import materialize_ready
from tests.concurrency.cutover import fence_racers as racers
from tests.concurrency.cutover.fence_racers import DELIA, admitted
from tests.support import meetings, webhooks
from tests.support.admission import receive
from tests.support.authority import World, audit_entries, change
from tests.support.processes import Command, manage, race, start_python, web_server
from tests.support.sessions import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
RACERS = racers.__name__
NAMESPACES = "_System_ConnectorNamespace"


def play(database_url: str, *parts: tuple[str, dict[str, Any]]) -> list[Any]:
    """Run one function in each process, all at once."""
    return race(f"{RACERS}:play", [{"part": part, "options": options} for part, options in parts], database_url)


def begun(kind: str, folder: Path, until: str) -> tuple[str, str, dict[str, Any]]:
    """Make something to admit or to replay; return its namespace and the process that does it."""
    if kind == "admit":
        webhooks.activate()
        receive(webhooks.deal())
        return "demo", "admit", {"folder": str(folder), "until": until}
    world = World()
    ref = {"replay": world.work, "replay_event_only": world.legacy}[kind]()
    return world.namespace, "replay", {"folder": str(folder), "until": until, "ref": str(ref)}


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("kind", ["admit", "replay", "replay_event_only"])
def test_arm__returns_after_what_began_before_has_ended(database_url: str, tmp_path: Path, kind: str):
    namespace, part, options = begun(kind, tmp_path, "waited_for")
    before = admitted()
    done, at_return = play(database_url, (part, options), ("arm", {"folder": str(tmp_path), "namespace": namespace}))
    assert done in {1, "replayed"}
    assert at_return == admitted() != before


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("kind", ["admit", "replay"])
def test_arm__without_the_barrier_returns_before_what_began_before_commits(
    database_url: str, tmp_path: Path, kind: str
):
    namespace, part, options = begun(kind, tmp_path, "armed")
    before = admitted()
    arming = {"folder": str(tmp_path), "namespace": namespace, "barrier": False}
    done, at_return = play(database_url, (part, options), ("arm", arming))
    assert done in {1, "replayed"}
    assert at_return == before
    assert admitted() != before


@pytest.mark.evidence("C-14")
@pytest.mark.parametrize("is_stale", [False, True])
def test_admission__that_reads_the_fences_before_its_lock_would_pass_one_that_is_armed(
    database_url: str, tmp_path: Path, is_stale: bool
):
    """The other half of the barrier: what comes to the row later must look only then."""
    webhooks.activate()
    receive(webhooks.deal())
    folder = str(tmp_path)
    late = ("admit_late", {"folder": folder, "is_stale": is_stale})
    done, at_return = play(database_url, late, ("arm", {"folder": folder, "namespace": "demo"}))
    assert at_return == [0, 0]
    assert (done, admitted()) == ((1, [1, 1]) if is_stale else (0, [0, 0]))


def make_dead() -> list[str]:
    """Admit some work and let it die; return the WorkIds."""
    for number in range(12):
        receive(webhooks.deal(100 + number))
    assert materialize_ready() == 12
    change("UPDATE _System_ConnectorEvent SET ExecutionOwner = 'work_item'")
    change("UPDATE _System_ConnectorWorkItem SET State = 'dead', Attempt = 3, TerminalAt = UTC_TIMESTAMP(6)")
    return [f"work_item:{row['WorkId']}" for row in webhooks.rows("WorkItem")]


@pytest.mark.evidence("C-14")
def test_fence__amid_deliveries_admissions_and_replays_loses_nothing_that_was_acknowledged(
    database_url: str, tmp_path: Path
):
    webhooks.activate()
    refs = make_dead()
    folder = str(tmp_path)
    with web_server(database_url) as (_, base):
        at_return, acknowledged, materialized, outcomes = play(
            database_url,
            ("arm_in_the_middle", {"folder": folder, "sides": ["posting", "materializing", "replaying"]}),
            ("post_all", {"folder": folder, "base": base, "count": 30}),
            ("materialize_all", {"folder": folder}),
            ("replay_all", {"folder": folder, "refs": refs}),
        )
    assert at_return == admitted()
    assert acknowledged == 30
    assert set(outcomes[:6]) <= {"replayed", "admission_fenced"}
    assert outcomes[6:] == ["admission_fenced"] * 6
    (waiting,) = reads.read_status().waiting
    assert waiting.backlog.count == 30 - materialized >= 15
    assert waiting.replays_refused == outcomes.count("admission_fenced")
    (fence,) = reads.list_armed()
    service.lift_fence(fence.fence_id, actor=DELIA)
    assert materialize_ready() == waiting.backlog.count
    events = [row for row in webhooks.rows("Event", "LaneOrdinal") if row["ReplayOfEventId"] is None]
    receipts = webhooks.rows("IngressReceipt", "ReceivedAt, ReceiptId")
    assert [row["ReceiptId"] for row in events] == [row["ReceiptId"] for row in receipts]
    assert len(receipts) == 12 + 30


def delivery_owner() -> str:
    user = User.objects.create_user("delia")
    user.groups.set(Group.objects.filter(name="Admin"))
    return "delia"


def arming(database_url: str, **options: Any) -> Command:
    arguments = ["admission_fence", "arm", "demo", "--as", "delia", "--reason", "cutover", "--json"]
    return manage(arguments, database_url, **options)


@contextlib.contextmanager
def admitting(database_url: str, folder: Path) -> Any:
    """Run an admission that stops before its commit until somebody waits for its pack's row."""
    options = {"part": "admit", "options": {"folder": str(folder), "until": "waited_for"}}
    command = start_python(["-m", "tests.support.processes", f"{RACERS}:play", json.dumps(options)], database_url)
    try:
        assert command.process.stdin is not None
        command.process.stdin.write("go\n")
        command.process.stdin.flush()
        meetings.await_lock(folder)
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.communicate()


@pytest.mark.evidence("C-14")
def test_kill__between_the_fence_and_the_barrier_leaves_it_armed_and_the_next_arming_waits(
    database_url: str, tmp_path: Path
):
    delivery_owner()
    webhooks.activate()
    receive(webhooks.deal())
    with admitting(database_url, tmp_path) as admission:
        killed = arming(database_url, failpoint="fence.before_barrier", folder=tmp_path)
        assert (killed.wait(), killed.fired()) == (-signal.SIGKILL, "fence.before_barrier")
        (fence,) = reads.list_armed()
        assert [entry["ref_id"] for entry in audit_entries() if entry["action"] == "admission_fence.armed"] == [
            fence.fence_id
        ]
        assert admitted() == [0, 0], "what began before is still under way"
        again = arming(database_url)
        assert again.wait() == 0, again.output
        assert admitted() == [1, 1]
        assert admission.wait() == 0, admission.output
    answer = json.loads(again.output.splitlines()[-1])
    assert (answer["fence"]["fence_id"], answer["is_new"]) == (fence.fence_id, False)
    receive(webhooks.deal(2))
    assert (materialize_ready(), admitted()) == (0, [1, 1])


def test_lift__waits_for_whoever_holds_the_namespace_since_he_relies_on_the_fence(database_url: str, tmp_path: Path):
    delivery_owner()
    webhooks.activate()
    fence = service.arm_fence("demo", "*", reason="cutover", actor=DELIA).fence
    with contextlib.closing(Session(str(connections["default"].settings_dict["NAME"]))) as cutover:
        cutover.begin()
        assert cutover.rows(f"SELECT 1 FROM {NAMESPACES} WHERE Namespace = 'demo' FOR UPDATE")
        lifting = manage(["admission_fence", "lift", fence.fence_id, "--as", "delia"], database_url)
        meetings.hold_until_waited_for(tmp_path, NAMESPACES)
        assert reads.get_fence(fence.fence_id).state == "armed"
        cutover.commit()
    assert lifting.wait() == 0, lifting.output
    assert reads.get_fence(fence.fence_id).state == "lifted"
