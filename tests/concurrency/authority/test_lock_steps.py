"""A replay of every kind takes the pack, then the Events, then the WorkItems: the database says what it waits for."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from integration.values import new_id
from tests.concurrency.authority.test_pack_first import replaying, table_ids, waiting_trx
from tests.support.authority import World, change, rows_of
from tests.support.processes import Command
from tests.support.sessions import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PACKS, EVENTS, ITEMS = "_System_ConnectorPackInstall", "_System_ConnectorEvent", "_System_ConnectorWorkItem"
KEYS = {PACKS: "PackInstallId", EVENTS: "EventId", ITEMS: "WorkId"}
BUSY = 1205
DEAD_EVENT = {"Status": "dead", "ExecutionOwner": "event", "TerminalAt": "2026-01-01"}


def per_event(world: World) -> str:
    return world.work().id


def mirror(world: World) -> str:
    return world.work("pending", Attempt=0, event=DEAD_EVENT).id


def event_only(world: World) -> str:
    return world.legacy().id


def projection(world: World) -> str:
    """A projection that meets an unended Event and an unended generation of its scope: it locks them all."""
    ref = world.generation("dead", SourceLane="prospect:7")
    world.generation("processing", SourceLane="prospect:7")
    world.event(SourceLane="prospect:7", ExecutionOwner="event")
    return ref.id


def projection_mirror(world: World) -> str:
    return world.generation("retry", Attempt=0, event=DEAD_EVENT).id


KINDS: dict[str, tuple[Any, str, str]] = {
    "per_event": (per_event, "per_event", "replayed"),
    "mirror": (mirror, "per_event", "replayed"),
    "event_only": (event_only, "per_event", "replayed"),
    "projection": (projection, "source_projection", "active_generation_in_scope"),
    "projection_mirror": (projection_mirror, "source_projection", "replayed"),
}


class Step:
    """One table's rows, held by a session of the test."""

    def __init__(self, table: str, database: str) -> None:
        self.table = table
        self.ids = [row[KEYS[table]] for row in rows_of(table)]
        self.session = Session(database)
        self.session.begin()
        for identity in self.ids:
            self.session.rows(f"SELECT 1 FROM {table} WHERE {KEYS[table]} = %s FOR UPDATE", [identity])


def waits_at(session: Session, engine: str) -> str | None:
    """Return the table at which a transaction waits for a lock, as the database tells it; None when none does."""
    found = waiting_trx(session, engine)
    if len(found) != 1:
        return None
    (trx,) = found
    if engine == "mariadb":
        table, _, query = trx
        (name,) = [name for name in KEYS if name in table]
        assert (name in query, "FOR UPDATE" in query) == (True, True)
        return name
    # A transaction between two statements shows the one or the other: only a locked read tells.
    text = str(trx[0]).lower()
    return next((name for name in KEYS if name.lower() in text and "for update" in text), None)


def await_wait(session: Session, engine: str, command: Command, table: str) -> None:
    deadline = time.monotonic() + 240
    while (found := waits_at(session, engine)) != table:
        assert command.process.poll() is None, command.process.communicate()[0]
        assert time.monotonic() < deadline, f"nobody waited at {table}, but at {found}"
        # InnoDB keeps these tables for as long as they are read within 0.1 s of each other.
        time.sleep(0.2)


def touched(session: Session) -> set[str]:
    """Return the tables that the waiting transaction has read or locked, by TiDB's own list."""
    known = table_ids(session)
    rows = session.rows(
        "SELECT RELATED_TABLE_IDS FROM information_schema.TIDB_TRX WHERE State = 'LockWaiting' AND DB = DATABASE()"
    )
    return {known[identity] for (related,) in rows for identity in str(related).split(",") if identity in known}


def await_held(session: Session, table: str, ids: list[str]) -> None:
    """Wait until another transaction holds a row; a replay whose wait ran out begins again and takes it anew."""
    deadline = time.monotonic() + 240
    while True:
        session.begin()
        refused = session.refused(f"SELECT 1 FROM {table} WHERE {KEYS[table]} = %s FOR UPDATE", [ids[0]])
        session.rollback()
        if refused == BUSY:
            return
        assert time.monotonic() < deadline, f"nobody held {table}"


@contextlib.contextmanager
def holding(*tables: str) -> Iterator[list[Step]]:
    database = str(connections["default"].settings_dict["NAME"])
    steps = [Step(table, database) for table in tables if rows_of(table)]
    try:
        yield steps
    finally:
        for step in steps:
            step.session.close()


@pytest.mark.evidence("A-24", "A-25")
@pytest.mark.parametrize("kind", list(KINDS))
def test_replay__waits_for_pack_event_and_work_item_in_this_order(database_url: str, engine: str, kind: str):
    make, execution, expected = KINDS[kind]
    identity = make(World(execution=execution))
    probe = Session(str(connections["default"].settings_dict["NAME"]))
    with holding(PACKS, EVENTS, ITEMS) as steps, replaying(database_url, identity) as command:
        assert [step.table for step in steps] == ([PACKS, EVENTS] if kind == "event_only" else [PACKS, EVENTS, ITEMS])
        passed: list[Step] = []
        for step in steps:
            await_wait(probe, engine, command, step.table)
            if engine == "tidb" and step.table == PACKS:
                # Later on it has read, without a lock, what it will lock.
                assert touched(probe) == {PACKS}
            for done in passed:
                await_held(probe, done.table, done.ids)
            step.session.rollback()
            passed.append(step)
        assert command.wait() == 0, command.output
    probe.close()
    assert json.loads(command.output.splitlines()[-1])["outcome"] == expected


@pytest.mark.evidence("A-24")
def test_replay__into_a_newer_incarnation_waits_for_the_older_ones_row_too(database_url: str, engine: str):
    world = World()
    identity = world.work().id
    change(f"UPDATE {PACKS} SET Status = 'retired', ActiveKey = NULL")
    change("UPDATE _System_ConnectorRoute SET Status = 'swept', LiveKey = NULL")
    pack_id = new_id()
    world.pack(pack_id, incarnation=2)
    world.route(new_id(), pack_id, version=2)
    database = str(connections["default"].settings_dict["NAME"])
    for older_or_newer in (world.pack_id, pack_id):
        holder, probe = Session(database), Session(database)
        holder.begin()
        holder.rows(f"SELECT 1 FROM {PACKS} WHERE PackInstallId = %s FOR UPDATE", [older_or_newer])
        with replaying(database_url, identity) as command:
            await_wait(probe, engine, command, PACKS)
            holder.rollback()
            assert command.wait() == 0, command.output
        holder.close()
        probe.close()
        change(f"UPDATE {ITEMS} SET State = 'dead', Attempt = 1, TerminalAt = UTC_TIMESTAMP(6) WHERE Attempt = 0")
        identity = rows_of(ITEMS, "ReplayOfWorkId = %s", identity)[0]["WorkId"]
