"""The transaction door against a real database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, connections
from django.test.utils import CaptureQueriesContext

from integration import errors
from integration.storage import db
from integration.storage.locks import LockedNamespace, lock_namespace, lock_pack
from integration.storage.statements import LockRank, Returns, Statement
from tests.concurrency.work.waits import until

INSERT_NAMESPACE = Statement(
    name="INSERT_NAMESPACE",
    text="INSERT INTO _System_ConnectorNamespace (Namespace, OrgId, CreatedAt) VALUES (%(ns)s, %(org)s, %(at)s)",
    returns=Returns.COUNT,
)
INSERT_NAMESPACES = Statement(
    name="INSERT_NAMESPACES",
    text="INSERT INTO _System_ConnectorNamespace (Namespace, OrgId, CreatedAt) VALUES (%(ns)s, %(org)s, %(at)s)",
    returns=Returns.COUNT,
    many=True,
)
READ_NAMESPACES = Statement(
    name="READ_NAMESPACES",
    text="SELECT Namespace, OrgId, CreatedAt FROM _System_ConnectorNamespace WHERE Namespace IN %(ns)s ORDER BY Namespace",
    returns=Returns.ROWS,
)
RENAME_ORG = Statement(
    name="RENAME_ORG",
    text="UPDATE _System_ConnectorNamespace SET OrgId = %(org)s WHERE Namespace = %(ns)s",
    returns=Returns.COUNT,
    locks=(LockRank.NAMESPACE,),
)
RENAME_HELD_ORG = Statement(
    name="RENAME_HELD_ORG",
    text=RENAME_ORG.text,
    returns=Returns.COUNT,
    holds=LockRank.NAMESPACE,
)
AT = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


def row(name: str, org: str = "org") -> dict[str, Any]:
    return {"ns": name, "org": org, "at": AT}


def insert(name: str, org: str = "org") -> None:
    db.run(lambda tx: tx.execute(INSERT_NAMESPACE, row(name, org)), name="test.insert")


def orgs(*names: str) -> list[str]:
    return [found["OrgId"] for found in db.read().fetch_all(READ_NAMESPACES, {"ns": names})]


@pytest.mark.django_db
def test_run__refuses_a_falling_rank():
    insert("a")

    def unit(tx: db.Tx) -> None:
        with pytest.raises(errors.PackNotFound):
            lock_pack(tx, "00000000-0000-7000-8000-000000000000")
        lock_namespace(tx, "a")

    with pytest.raises(errors.LockOrderViolation, match="LOCK_NAMESPACE locks NAMESPACE after PACK in test"):
        db.run(unit, name="test")


@pytest.mark.django_db
def test_run__refuses_a_second_locked_read_of_a_rank():
    insert("a")
    insert("b")

    def unit(tx: db.Tx) -> None:
        lock_namespace(tx, "b")
        lock_namespace(tx, "a")

    with pytest.raises(errors.LockOrderViolation):
        db.run(unit, name="test")


@pytest.mark.django_db
def test_run__keeps_the_sequence_of_locks_and_lets_the_holder_write():
    insert("a")

    def unit(tx: db.Tx) -> list[LockRank]:
        lock_namespace(tx, "a")
        assert tx.execute(RENAME_HELD_ORG, {"ns": "a", "org": "new"}) == 1
        return tx.lock_trace

    assert db.run(unit, name="test") == [LockRank.NAMESPACE]
    assert orgs("a") == ["new"]


@pytest.mark.django_db
def test_run__refuses_a_write_of_a_row_that_is_not_held():
    insert("a")
    with pytest.raises(errors.LockOrderViolation, match="does not hold"):
        db.run(lambda tx: tx.execute(RENAME_HELD_ORG, {"ns": "a", "org": "new"}), name="test")
    assert orgs("a") == ["org"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT Namespace FROM _System_ConnectorNamespace WHERE Namespace = 'a' FOR UPDATE",
        "UPDATE _System_ConnectorNamespace SET OrgId = 'x' WHERE Namespace = 'a'",
        "DELETE FROM _System_ConnectorNamespace WHERE Namespace = 'a'",
    ],
)
def test_run__refuses_locking_sql_that_has_no_name(sql: str):
    def unit(_tx: db.Tx) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    with pytest.raises(errors.LockOrderViolation, match="unnamed"):
        db.run(unit, name="test")


@pytest.mark.django_db
def test_run__refuses_to_nest():
    with pytest.raises(errors.TransactionNested):
        db.run(lambda _tx: insert("a"), name="test")


@pytest.mark.django_db
def test_token__is_useless_after_its_transaction():
    insert("a")
    token: LockedNamespace = db.run(lambda tx: lock_namespace(tx, "a"), name="test")
    with pytest.raises(errors.TransactionRequired):
        _ = token.tx


@pytest.mark.django_db
def test_reader__refuses_a_statement_that_locks():
    with pytest.raises(errors.TransactionRequired):
        db.read().fetch_one(RENAME_ORG, {"ns": "a", "org": "x"})


@pytest.mark.django_db
def test_values__go_in_and_come_back_as_aware_utc():
    elsewhere = AT.astimezone(timezone(timedelta(hours=-8)))
    db.run(lambda tx: tx.execute(INSERT_NAMESPACE, {"ns": "a", "org": "o", "at": elsewhere}), name="test")
    assert db.read().fetch_one(READ_NAMESPACES, {"ns": ("a",)}) == {"Namespace": "a", "OrgId": "o", "CreatedAt": AT}


@pytest.mark.django_db
def test_values__an_empty_list_is_refused_before_the_database_sees_it():
    with pytest.raises(ValueError, match="must not be empty"):
        db.read().fetch_all(READ_NAMESPACES, {"ns": ()})


@pytest.mark.django_db
def test_execute_many__stores_every_row_in_one_statement():
    with CaptureQueriesContext(connection) as captured:
        stored = db.run(lambda tx: tx.execute_many(INSERT_NAMESPACES, [row(f"n{n}") for n in range(20)]), name="test")
    assert stored == 20
    assert [query["sql"][:9] for query in captured.captured_queries if "INSERT" in query["sql"]] == ["20 times:"]


class Fault:
    """Fails the first statements that it is asked to, before or after the database ran them."""

    def __init__(self, number: int, times: int):
        self.number, self.times, self.seen = number, times, 0

    def __call__(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql is INSERT_NAMESPACE.text and self.seen < self.times:
            self.seen += 1
            raise OperationalError(self.number, "injected")
        return execute(sql, params, many, context)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [1213, 1020, 8002, 8022, 8028, 9007])
def test_run__reruns_whole_what_was_surely_not_stored(number: int):
    runs = []

    def unit(tx: db.Tx) -> None:
        runs.append(1)
        tx.execute_many(INSERT_NAMESPACES, [row("first")])
        tx.execute(INSERT_NAMESPACE, row("second"))

    with connection.execute_wrapper(Fault(number, times=2)):
        db.run(unit, name="test")
    assert len(runs) == 3
    assert orgs("first", "second") == ["org", "org"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("number", "error"), [(1213, errors.Deadlock), (1205, errors.LockTimeout)])
def test_run__gives_up_after_its_tries_and_stores_nothing(number: int, error: type[errors.Busy]):
    def unit(tx: db.Tx) -> None:
        tx.execute_many(INSERT_NAMESPACES, [row("first")])
        tx.execute(INSERT_NAMESPACE, row("second"))

    with connection.execute_wrapper(Fault(number, times=db.MAX_TRIES)), pytest.raises(error):
        db.run(unit, name="test")
    assert orgs("first", "second") == []


@pytest.fixture
def held(transactional_db: None) -> Iterator[str]:
    """Name a row that another connection holds; this one waits for a second at the most."""
    insert("held")
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        def unit(tx: db.Tx) -> None:
            lock_namespace(tx, "held")
            locked.set()
            assert done.wait(240)

        db.run(unit, name="test.hold")
        connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(60)
    with connection.cursor() as cursor:
        cursor.execute("SET innodb_lock_wait_timeout = 1")
    yield "held"
    done.set()
    thread.join()
    connection.close()


def test_execute_alone__waits_no_longer_than_the_session_says(held: str):
    with pytest.raises(errors.LockTimeout):
        db.execute_alone(RENAME_ORG, {"ns": held, "org": "new"})
    assert orgs(held) == ["org"]


@pytest.mark.django_db
def test_connection__takes_one_statement_at_a_time():
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1; SELECT 2")


def test_run__lock_wait_timeout_rolls_back_the_outermost_transaction(held: str):
    tries = []

    def unit(tx: db.Tx) -> None:
        tries.append(1)
        tx.execute(INSERT_NAMESPACE, row("written first"))
        lock_namespace(tx, held)

    with pytest.raises(errors.LockTimeout):
        db.run(unit, name="test")
    assert len(tries) == db.MAX_TRIES
    assert orgs("written first") == []


@pytest.fixture
def broken_commit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the next COMMIT fail towards the client, after (True) or before (False) the server stored it."""

    def arm(*, stored: bool) -> None:
        real, left = connection._commit, [1]

        def commit() -> None:
            if not left:
                return real()
            left.pop()
            if stored:
                real()
            raise OperationalError(2013, "Lost connection to server during query")

        monkeypatch.setattr(connection, "_commit", commit)

    return arm


def find(reader: db.Reader) -> str | None:
    found = reader.fetch_one(READ_NAMESPACES, {"ns": ("a",)})
    return None if found is None else f"settled {found['OrgId']}"


def write(tx: db.Tx) -> str:
    tx.execute(INSERT_NAMESPACE, row("a"))
    return "written"


@pytest.mark.django_db(transaction=True)
def test_run__unknown_commit_that_was_stored_is_settled_by_reading(broken_commit: Any):
    broken_commit(stored=True)
    assert db.run(write, name="test", settle=find) == "settled org"
    assert orgs("a") == ["org"]


@pytest.mark.django_db(transaction=True)
def test_run__unknown_commit_that_was_not_stored_is_run_again(broken_commit: Any):
    broken_commit(stored=False)
    assert db.run(write, name="test", settle=find) == "written"
    assert orgs("a") == ["org"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stored", [True, False])
def test_run__unknown_commit_is_never_rerun_blindly(broken_commit: Any, stored: bool):
    broken_commit(stored=stored)
    with pytest.raises(errors.CommitUnknown):
        db.run(write, name="test")
    assert orgs("a") == (["org"] if stored else [])


@pytest.mark.django_db(transaction=True)
def test_run__survives_a_connection_that_was_killed():
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        (victim,) = cursor.fetchone()
    killed = []

    def unit(tx: db.Tx) -> None:
        if not killed:
            killed.append(victim)
            kill(victim)
        tx.execute(INSERT_NAMESPACE, row("a"))

    db.run(unit, name="test")
    assert orgs("a") == ["org"]


def kill(connection_id: int) -> None:
    """End a connection, and return when the server has: TiDB must not meet its next write while it rolls back."""

    def from_another() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute(f"KILL {int(connection_id)}")
            seen = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s"
            until(lambda: not cursor.execute(seen, [connection_id]), "the connection ended")
        connections.close_all()

    thread = threading.Thread(target=from_another)
    thread.start()
    thread.join()


@pytest.mark.django_db
def test_execute_alone__counts_matched_rows_and_not_changed_ones():
    insert("a")
    assert db.execute_alone(RENAME_ORG, {"ns": "a", "org": "org"}) == 1
    assert db.execute_alone(RENAME_ORG, {"ns": "missing", "org": "org"}) == 0
