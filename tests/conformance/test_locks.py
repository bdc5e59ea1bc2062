"""What the two databases lock, how long they wait, and what an error leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from tests.support.sessions import Session

Connect = Callable[..., Session]

LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
NOWAIT_REFUSED = {"mariadb": 1205, "tidb": 3572}


def lock_of(items: str, item: int) -> str:
    return f"SELECT Id FROM {items} WHERE Id = {item} FOR UPDATE"


def test_skip_locked__locks_on_mariadb_and_not_on_tidb(connect: Connect, items: str, engine: str) -> None:
    holder, skipper, third = connect(), connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    skipper.begin()
    got = skipper.rows(f"SELECT Id FROM {items} ORDER BY Id LIMIT 1 FOR UPDATE SKIP LOCKED")
    assert {"mariadb": [(2,)], "tidb": [(1,)]}[engine] == got
    holder.rollback()
    third.begin()
    held = third.refused(lock_of(items, got[0][0]) + " NOWAIT")
    assert {"mariadb": NOWAIT_REFUSED["mariadb"], "tidb": 0}[engine] == held


def test_nowait__error_number(connect: Connect, items: str, engine: str) -> None:
    holder, other = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    other.begin()
    assert NOWAIT_REFUSED[engine] == other.refused(lock_of(items, 1) + " NOWAIT")
    assert other.refused(lock_of(items, 2) + " NOWAIT") == 0


def test_lock_wait__ends_with_1205(connect: Connect, items: str) -> None:
    holder, waiter = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    waiter.begin()
    assert LOCK_WAIT_TIMEOUT == waiter.refused(lock_of(items, 1))
    holder.rollback()
    waiter.rollback()
    waiter.begin()
    assert waiter.refused(lock_of(items, 1)) == 0


def test_lock_wait_timeout__leaves_half_a_transaction_alive(connect: Connect, items: str) -> None:
    holder, waiter = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    waiter.begin()
    waiter.run(f"INSERT INTO {items} VALUES (99, 0)")
    assert LOCK_WAIT_TIMEOUT == waiter.refused(f"UPDATE {items} SET Value = 1 WHERE Id = 1")
    waiter.commit()
    assert holder.rows(f"SELECT Id FROM {items} WHERE Id = 99") == [(99,)]


def _cross(connect: Connect, items: str, second_order: tuple[int, int]) -> list[int]:
    """Let two sessions lock two rows each, their first ones together; return the error numbers."""
    met = threading.Barrier(2, timeout=60)
    numbers: list[int] = []

    def run(order: tuple[int, int], *, meets: bool) -> None:
        session = connect(lock_wait_seconds=15)
        session.begin()
        number = session.refused(lock_of(items, order[0]))
        if meets:
            met.wait()
        numbers.append(number or session.refused(lock_of(items, order[1])))
        session.rollback()

    meets = second_order[0] != 1
    threads = [threading.Thread(target=run, args=(order,), kwargs={"meets": meets}) for order in ((1, 2), second_order)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    return sorted(numbers)


def test_deadlock__one_is_undone_with_1213(connect: Connect, items: str) -> None:
    assert _cross(connect, items, (2, 1)) == [0, DEADLOCK]


def test_deadlock__none_when_both_take_one_order(connect: Connect, items: str) -> None:
    assert _cross(connect, items, (1, 2)) == [0, 0]


def test_deadlock__undoes_the_whole_transaction(connect: Connect, items: str) -> None:
    met = threading.Barrier(2, timeout=60)
    outcome: dict[int, int] = {}

    def run(first: int, second: int) -> None:
        session = connect(lock_wait_seconds=15)
        session.begin()
        session.run(f"UPDATE {items} SET Value = 7 WHERE Id = {first}")
        met.wait()
        outcome[first] = session.refused(f"UPDATE {items} SET Value = 7 WHERE Id = {second}")
        # Were the first write still part of the victim's transaction, this would store it.
        session.commit()

    threads = [threading.Thread(target=run, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert sorted(outcome.values()) == [0, DEADLOCK]
    assert connect().rows(f"SELECT Id, Value FROM {items} ORDER BY Id") == [(1, 7), (2, 7), (3, 0)]


def test_share_locks__do_not_port(connect: Connect, items: str, engine: str) -> None:
    session = connect()
    session.begin()
    expected = {"mariadb": (1064, 0), "tidb": (1235, 1235)}[engine]
    read = f"SELECT Id FROM {items} WHERE Id = 1 "
    assert expected == (session.refused(read + "FOR SHARE"), session.refused(read + "LOCK IN SHARE MODE"))


def test_autocommit_for_update__waits_on_mariadb_and_not_on_tidb(connect: Connect, items: str, engine: str) -> None:
    holder, other = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    assert {"mariadb": LOCK_WAIT_TIMEOUT, "tidb": 0}[engine] == other.refused(lock_of(items, 1))
    assert {"mariadb": NOWAIT_REFUSED["mariadb"], "tidb": 0}[engine] == other.refused(lock_of(items, 1) + " NOWAIT")


def test_autocommit_update__outwaits_the_lock_timeout_on_tidb(connect: Connect, items: str, engine: str) -> None:
    """Autocommit is optimistic there: it meets the lock at its commit and backs off for more than a minute (9004)."""
    holder = connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    outcome: list[int] = []

    def run() -> None:
        outcome.append(connect(lock_wait_seconds=1).refused(f"UPDATE {items} SET Value = 1 WHERE Id = 1"))

    waiter = threading.Thread(target=run)
    waiter.start()
    # On TiDB it still waits long after its timeout; on MariaDB it ends, sooner or later on a busy machine.
    waiter.join(timeout={"mariadb": 60, "tidb": 4}[engine])
    assert {"mariadb": [LOCK_WAIT_TIMEOUT], "tidb": []}[engine] == outcome
    holder.commit()
    waiter.join(timeout=120)
    assert {"mariadb": [LOCK_WAIT_TIMEOUT], "tidb": [0]}[engine] == outcome


def test_update_in_a_transaction__keeps_the_lock_timeout(connect: Connect, items: str) -> None:
    holder, other = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    other.begin()
    assert LOCK_WAIT_TIMEOUT == other.refused(f"UPDATE {items} SET Value = 1 WHERE Id = 1")


def test_autocommit_update__does_not_wait_where_its_guard_does_not_hold(connect: Connect, items: str) -> None:
    holder, other = connect(), connect()
    holder.begin()
    holder.rows(lock_of(items, 1))
    assert other.run(f"UPDATE {items} SET Value = 1 WHERE Id = 2 AND Value = 9") == 0


def test_range_lock__does_not_stop_an_insert(connect: Connect, items: str) -> None:
    reader, writer = connect(), connect()
    reader.begin()
    assert reader.rows(f"SELECT Id FROM {items} WHERE Id BETWEEN 3 AND 90 FOR UPDATE") == [(3,)]
    assert reader.rows(f"SELECT Id FROM {items} WHERE Id = 77 FOR UPDATE") == []
    assert writer.refused(f"INSERT INTO {items} VALUES (50, 0), (77, 0)") == 0


def test_ddl__commits_what_is_open(connect: Connect, items: str) -> None:
    session = connect()
    session.begin()
    session.run(f"INSERT INTO {items} VALUES (200, 0)")
    session.run(f"CREATE TABLE {items}Other (Id INT)")
    session.rollback()
    assert connect().rows(f"SELECT Id FROM {items} WHERE Id = 200") == [(200,)]


@pytest.mark.django_db(transaction=True)
def test_the_programs_connection__reads_what_others_commit(connect: Connect, items: str, scratch: str) -> None:
    other = connect()
    with connection.cursor() as cursor:
        cursor.execute("SET autocommit = 0")
        try:
            cursor.execute(f"SELECT Value FROM `{scratch}`.{items} WHERE Id = 1")
            before = cursor.fetchone()
            other.run(f"UPDATE {items} SET Value = 5 WHERE Id = 1")
            cursor.execute(f"SELECT Value FROM `{scratch}`.{items} WHERE Id = 1")
            assert ((0,), (5,)) == (before, cursor.fetchone())
        finally:
            cursor.execute("ROLLBACK")
            cursor.execute("SET autocommit = 1")


@pytest.mark.django_db(transaction=True)
def test_the_programs_connection__counts_matched_rows(items: str, scratch: str) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute(f"UPDATE `{scratch}`.{items} SET Value = Value WHERE Id IN (1, 2)") == 2
        assert cursor.execute(f"UPDATE `{scratch}`.{items} SET Value = 1 WHERE Id = 1 AND Value = 9") == 0
