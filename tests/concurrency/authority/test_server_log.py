"""The order of a replay's locks and what an end of a claim writes, read in the database server's own general log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from batteries.replayed import KINDS
from integration.storage.schema import Vintage
from tests.concurrency.authority.server_log import Sent, recorded
from tests.support.authority import World, change, rows_of
from tests.support.processes import Command, start_python
from tests.support.projections import Source, active_keys
from tests.support.work import Pack

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PACKS, EVENTS, ITEMS = "_System_ConnectorPackInstall", "_System_ConnectorEvent", "_System_ConnectorWorkItem"
ENDS = ("complete", "skip", "retry", "bury", "release", "renew", "acknowledge_cancel")
#: Those after which a queued generation has the key.
HANDING_ON = frozenset(ENDS) - {"retry", "release", "renew"}


@contextlib.contextmanager
def racer(function: str, database_url: str, **kwargs: Any) -> Iterator[Command]:
    """Start a function of the racers in a process of its own; each line that it is sent lets it go on."""
    target = f"tests.concurrency.authority.racers:{function}"
    command = start_python(["-m", "tests.support.processes", target, json.dumps(kwargs)], database_url)
    try:
        hear(command, "ready")
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.communicate()


def hear(command: Command, line: str) -> None:
    assert command.process.stdout is not None
    found = command.process.stdout.readline()
    assert found == f"{line}\n", found + command.process.stdout.read()


def say_go(command: Command) -> None:
    assert command.process.stdin is not None
    command.process.stdin.write("go\n")
    command.process.stdin.flush()


def result_of(command: Command) -> Any:
    assert command.wait(600) == 0, command.output
    return json.loads(command.output.splitlines()[-1])


def replays_in(sent: list[Sent]) -> list[list[Sent]]:
    """Return what each replay's transaction locked and wrote: from its first lock to its entry in the trail."""
    found: list[list[Sent]] = [[]]
    for one in (one for one in sent if one.is_locking):
        found[-1].append(one)
        if one.table == "console_auditentry":
            found.append([])
    return [steps for steps in found if steps]


def first_touches(steps: list[Sent]) -> list[str]:
    """Return the tables whose stored rows a transaction locks, in the order of the first lock on each."""
    return list(dict.fromkeys(one.table for one in steps if one.verb != "INSERT"))


def make_one_of_each(namespace: str, execution: str) -> list[str]:
    world = World(namespace=namespace, execution=execution)
    kinds = [kind for kind in KINDS if (kind.execution, kind.vintage) == (execution, Vintage.CURRENT)]
    return [str(kind.make(world)) for kind in kinds]


@pytest.mark.evidence("A-25")
def test_replay__of_every_kind_locks_in_rank_order_by_the_servers_log(database_url: str, engine: str):
    refs = make_one_of_each("acme-sales", "per_event") + make_one_of_each("acme-leads", "source_projection")
    with racer("replay_each", database_url, refs=refs) as command, recorded(engine) as read:
        say_go(command)
        assert result_of(command) == ["replayed"] * len(refs)
        replays = replays_in(read())
    assert len(replays) == len(refs) == 7
    for ref, steps in zip(refs, replays, strict=True):
        locks = [one.table for one in steps if one.verb == "LOCK"]
        assert locks == [PACKS, EVENTS, ITEMS], ref
        assert first_touches(steps) == [PACKS, EVENTS, ITEMS], ref
        # Nothing is written before everything is locked, and the child only after the reservation.
        writes = [(one.verb, one.table) for one in steps if one.verb != "LOCK"]
        assert [one.verb for one in steps[:3]] == ["LOCK"] * 3, ref
        assert writes[-4:] == [
            ("UPDATE", PACKS),
            ("INSERT", EVENTS),
            ("INSERT", ITEMS),
            ("INSERT", "console_auditentry"),
        ], ref
        assert {verb for verb, _ in writes[:-4]} == {"UPDATE"}, ref
        assert {table for _, table in writes[:-4]} <= {EVENTS, ITEMS}, ref


def test_replay__that_locks_an_event_first_is_seen_in_the_servers_log(database_url: str, engine: str):
    """The negative control."""
    refs = [str(World().work())]
    with racer("replay_each", database_url, refs=refs, mutant="event_before_pack") as command, recorded(engine) as read:
        say_go(command)
        assert result_of(command) == ["replayed"]
        (steps,) = replays_in(read())
    assert first_touches(steps) == [EVENTS, PACKS, ITEMS]


def claimed_ends(is_projection: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Admit an item for each way to end it; return how each is to be ended, and what is queued behind each."""
    pack = Pack()
    if not is_projection:
        # A generation is never ended in a group.
        names = (*ENDS, "complete_many")
        return dict(zip(pack.admit(len(names)), names, strict=True)), {}
    ends, queued = {}, {}
    for number, name in enumerate(ENDS):
        source = Source(pack=pack, lane=f"contact:{number}")
        work_id = source.generation()
        ends[work_id], queued[work_id] = name, source.generation(active=False)
    return ends, queued


def end_all(
    database_url: str, engine: str, *, is_projection: bool, mutant: str = ""
) -> tuple[dict[str, str], dict[str, str], list[Sent]]:
    """End claims in another process; return what was to be done and what the server was sent meanwhile."""
    ends, queued = claimed_ends(is_projection)
    with racer("end_claims", database_url, ends=ends, mutant=mutant) as command:
        say_go(command)
        hear(command, "claimed")
        cancelled = [work_id for work_id, name in ends.items() if name == "acknowledge_cancel"]
        change(f"UPDATE {ITEMS} SET CancelRequestedAt = UTC_TIMESTAMP(6) WHERE WorkId = %s", *cancelled)
        with recorded(engine) as read:
            say_go(command)
            assert result_of(command) == dict.fromkeys(ends, True)
            return ends, queued, [one for one in read() if one.is_locking]


@pytest.mark.evidence("A-25")
@pytest.mark.parametrize("is_projection", [False, True], ids=["per_event", "projection"])
def test_end__writes_its_work_item_and_no_other_table_by_the_servers_log(
    database_url: str, engine: str, is_projection: bool
):
    ends, queued, sent = end_all(database_url, engine, is_projection=is_projection)
    assert {(one.verb, one.table) for one in sent} == {("UPDATE", ITEMS)}
    wanted = [
        work_id
        for ended, name in ends.items()
        for work_id in ([ended, queued[ended]] if is_projection and name in HANDING_ON else [ended])
    ]
    named = [[row["WorkId"] for row in rows_of(ITEMS) if row["WorkId"] in one.text] for one in sent]
    assert named == [[work_id] for work_id in wanted]
    if is_projection:
        keys = active_keys()
        assert {name for work_id, name in ends.items() if keys[queued[work_id]] is not None} == HANDING_ON


def test_end__that_writes_its_event_too_is_seen_in_the_servers_log(database_url: str, engine: str):
    """The negative control."""
    ends, _, sent = end_all(database_url, engine, is_projection=False, mutant="event_too")
    assert [one.table for one in sent].count(EVENTS) == len(ends)
