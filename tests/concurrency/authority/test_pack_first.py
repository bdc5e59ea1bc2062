"""A replay waits at the pack's row and holds nothing below it then: asked of the database itself."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from tests.support.authority import World, rows_of
from tests.support.processes import Command, start_python
from tests.support.sessions import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PACKS, EVENTS, ITEMS = "_System_ConnectorPackInstall", "_System_ConnectorEvent", "_System_ConnectorWorkItem"
BUSY = 1205


@contextlib.contextmanager
def replaying(database_url: str, work_id: str, mutant: str = "") -> Iterator[Command]:
    """Start a replay in a process of its own."""
    kwargs = {"work_id": work_id, "name": "maria", "user_id": 11, "mutant": mutant}
    target = "tests.concurrency.authority.racers:replay"
    command = start_python(["-m", "tests.support.processes", target, json.dumps(kwargs)], database_url)
    try:
        assert command.process.stdout is not None
        assert command.process.stdin is not None
        assert command.process.stdout.readline() == "ready\n"
        command.process.stdin.write("go\n")
        command.process.stdin.flush()
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.communicate()


def waiting_trx(session: Session, engine: str) -> list[tuple[Any, ...]]:
    """Return what the server says of this database's transactions that wait for a lock, and of what they touched."""
    if engine == "mariadb":
        return session.rows(
            "SELECT l.LOCK_TABLE, t.TRX_TABLES_LOCKED, t.TRX_QUERY FROM information_schema.INNODB_LOCK_WAITS w"
            " JOIN information_schema.INNODB_TRX t ON t.TRX_ID = w.REQUESTING_TRX_ID"
            " JOIN information_schema.INNODB_LOCKS l ON l.LOCK_ID = w.REQUESTED_LOCK_ID"
            " WHERE l.LOCK_TABLE LIKE CONCAT('`', DATABASE(), '`.%')"
        )
    return session.rows(
        "SELECT CURRENT_SQL_DIGEST_TEXT, ALL_SQL_DIGESTS, RELATED_TABLE_IDS FROM information_schema.TIDB_TRX"
        " WHERE State = 'LockWaiting' AND DB = DATABASE()"
    )


def await_waiting(session: Session, engine: str, command: Command) -> tuple[Any, ...]:
    """Return the one waiting transaction once the database shows it."""
    deadline = time.monotonic() + 240
    while not (found := waiting_trx(session, engine)):
        assert command.process.poll() is None, command.process.communicate()[0]
        assert time.monotonic() < deadline, "nobody waited for the pack's row"
        # InnoDB keeps these tables for as long as they are read within 0.1 s of each other.
        time.sleep(0.2)
    (trx,) = found
    return trx


def table_ids(session: Session) -> dict[str, str]:
    rows = session.rows(
        "SELECT TABLE_NAME, TIDB_TABLE_ID FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
    )
    return {str(identity): name for name, identity in rows}


@pytest.fixture
def sessions() -> Iterator[tuple[Session, Session]]:
    name = str(connections["default"].settings_dict["NAME"])
    pair = (Session(name), Session(name))
    yield pair
    for session in pair:
        session.connection.close()


@pytest.mark.evidence("A-24")
def test_replay__waits_at_the_pack_before_any_event_or_work_item(database_url: str, engine: str, sessions):
    world = World()
    ref = world.work()
    holder, probe = sessions
    holder.run("BEGIN")
    assert holder.rows(f"SELECT Status FROM {PACKS} WHERE PackInstallId = %s FOR UPDATE", [world.pack_id])
    with replaying(database_url, ref.id) as command:
        trx = await_waiting(probe, engine, command)
        if engine == "mariadb":
            table, tables_locked, query = trx
            assert (PACKS in table, tables_locked) == (True, 1)
            assert (PACKS in query, EVENTS in query, ITEMS in query) == (True, False, False)
        else:
            text, digests, related = trx
            assert PACKS.lower() in text.lower()
            assert "for update" in text.lower()
            known = table_ids(probe)
            assert {known[identity].lower() for identity in str(related).split(",") if identity} == {PACKS.lower()}
            assert "_system_connectorworkitem" not in json.dumps(digests).lower()
        # Nobody holds what lies below: another session takes both rows at once and lets them go.
        probe.run("BEGIN")
        assert probe.rows(f"SELECT 1 FROM {EVENTS} WHERE EventId <> '' FOR UPDATE")
        assert probe.rows(f"SELECT 1 FROM {ITEMS} WHERE WorkId = %s FOR UPDATE", [ref.id])
        probe.run("ROLLBACK")
        holder.run("COMMIT")
        assert command.wait() == 0, command.output
    assert json.loads(command.output.splitlines()[-1])["outcome"] == "replayed"
    assert len(rows_of(ITEMS)) == 2


def test_replay__that_locks_the_event_first_is_caught_by_the_same_probe(database_url: str, engine: str, sessions):
    world = World()
    ref = world.work()
    holder, probe = sessions
    holder.run("BEGIN")
    assert holder.rows(f"SELECT Status FROM {PACKS} WHERE PackInstallId = %s FOR UPDATE", [world.pack_id])
    with replaying(database_url, ref.id, "event_before_pack") as command:
        await_waiting(probe, engine, command)
        probe.run("BEGIN")
        assert probe.refused(f"SELECT 1 FROM {EVENTS} WHERE EventId <> '' FOR UPDATE") == BUSY
        probe.run("ROLLBACK")
        holder.run("COMMIT")
        assert command.wait() == 0, command.output
