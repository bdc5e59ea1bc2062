"""What single statements do: keys, row counts, comparisons, plans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.sessions import Session

Connect = Callable[..., Session]

DUPLICATE = 1062
NOWAIT_REFUSED = {"mariadb": 1205, "tidb": 3572}


def test_unique_key__admits_many_nulls_and_one_value(connect: Connect, table: str) -> None:
    session = connect()
    session.run(f"CREATE TABLE {table} (Id INT PRIMARY KEY, ActiveKey CHAR(64) NULL, UNIQUE KEY (ActiveKey))")
    assert session.run(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL), (3, 'a')") == 3
    assert DUPLICATE == session.refused(f"INSERT INTO {table} VALUES (4, 'a')")
    assert DUPLICATE == session.refused(f"UPDATE {table} SET ActiveKey = 'a' WHERE Id = 1")


def test_unique_key__a_waiting_duplicate_learns_of_the_winner(connect: Connect, table: str) -> None:
    first, second = connect(), connect()
    first.run(f"CREATE TABLE {table} (Id INT PRIMARY KEY, ActiveKey CHAR(64) NULL, UNIQUE KEY (ActiveKey))")
    first.begin()
    first.run(f"INSERT INTO {table} VALUES (1, 'a')")
    second.begin()
    assert second.refused(f"INSERT INTO {table} VALUES (2, 'a')") == 1205
    first.commit()
    assert DUPLICATE == second.refused(f"INSERT INTO {table} VALUES (2, 'a')")


def test_ascii_bin__tells_case_apart_and_refuses_the_rest(connect: Connect, table: str) -> None:
    session = connect()
    ascii_key = "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin"
    session.run(f"CREATE TABLE {table} (Id INT PRIMARY KEY, Token {ascii_key}, UNIQUE KEY (Token))")
    assert session.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'A')") == 2
    assert session.rows(f"SELECT Id FROM {table} WHERE Token = 'A'") == [(2,)]
    assert session.refused(f"INSERT INTO {table} VALUES (3, %s)", ["\u00e9"]) == 1366
    assert session.refused(f"INSERT INTO {table} VALUES (3, %s)", ["x" * 37]) == 1406
    # An id that someone typed is parsed before it is compared: this is an error, not "no row".
    assert session.refused(f"SELECT Id FROM {table} WHERE Token = %s", ["\u00e9"]) == 1267


def test_utf8mb4_bin__tells_case_and_accents_apart(connect: Connect, table: str) -> None:
    session = connect()
    session.run(f"CREATE TABLE {table} (Name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY)")
    names = ["cafe", "Cafe", "caf\u00e9", "\U0001f512"]
    assert session.run(f"INSERT INTO {table} VALUES (%s), (%s), (%s), (%s)", names) == 4
    assert session.rows(f"SELECT COUNT(*) FROM {table} WHERE Name = %s", ["cafe"]) == [(1,)]


def test_datetime__keeps_microseconds(connect: Connect, table: str) -> None:
    session = connect()
    session.run(f"CREATE TABLE {table} (Id INT PRIMARY KEY, At DATETIME(6))")
    moment = datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC).replace(tzinfo=None)
    session.run(f"INSERT INTO {table} VALUES (1, %s), (2, UTC_TIMESTAMP(6))", [moment])
    assert session.rows(f"SELECT At FROM {table} WHERE Id = 1") == [(moment,)]
    assert session.rows(f"SELECT Id FROM {table} WHERE At = %s", [moment]) == [(1,)]
    assert session.rows("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), NOW(6))") == [(0,)]


def test_check_constraint__is_off_on_tidb(connect: Connect, table: str, engine: str) -> None:
    session = connect()
    session.run(f"CREATE TABLE {table} (Value INT, CHECK (Value > 0))")
    assert {"mariadb": 4025, "tidb": 0}[engine] == session.refused(f"INSERT INTO {table} VALUES (-1)")


def test_matched_rows__are_counted_not_changed_ones(connect: Connect, items: str) -> None:
    session = connect()
    assert session.run(f"UPDATE {items} SET Value = Value WHERE Id IN (1, 2)") == 2
    assert session.run(f"UPDATE {items} SET Value = 1 WHERE Id = 1 AND Value = 9") == 0


def test_two_table_update__matches_two_rows_and_locks_both(connect: Connect, table: str, engine: str) -> None:
    session, other = connect(), connect()
    session.run(f"CREATE TABLE {table}E (Id INT PRIMARY KEY, Owner VARCHAR(16))")
    session.run(f"CREATE TABLE {table}W (Id INT PRIMARY KEY, EventId INT, Attempt INT)")
    session.run(f"INSERT INTO {table}E VALUES (1, 'event')")
    session.run(f"INSERT INTO {table}W VALUES (1, 1, 0)")
    claim = (
        f"UPDATE {table}E e STRAIGHT_JOIN {table}W w ON w.EventId = e.Id SET e.Owner = 'work_item', "
        "w.Attempt = w.Attempt + 1 WHERE e.Id = 1 AND w.Id = 1 AND w.Attempt = 0 AND e.Owner = 'event'"
    )
    session.begin()
    assert session.run(claim) == 2
    other.begin()
    for locked in (f"{table}E", f"{table}W"):
        number = other.refused(f"SELECT Id FROM {locked} WHERE Id = 1 FOR UPDATE NOWAIT")
        assert NOWAIT_REFUSED[engine] == number, locked
    other.rollback()
    session.commit()
    assert session.run(claim) == 0


def test_executemany__is_one_statement_until_values_hold_a_function(connect: Connect, table: str) -> None:
    session = connect()
    session.run(f"CREATE TABLE {table} (Id INT PRIMARY KEY, At DATETIME(6))")
    moment = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    with contextlib.closing(session.connection.cursor()) as cursor:
        cursor.executemany(f"INSERT INTO {table} (Id, At) VALUES (%s, %s)", [(1, moment), (2, moment)])
        one = bytes(cursor._executed)
        cursor.executemany(f"INSERT INTO {table} (Id, At) VALUES (%s, UTC_TIMESTAMP(6))", [(3,), (4,)])
        last = bytes(cursor._executed)
    assert (b"(1," in one, b"(2," in one) == (True, True)
    assert (b"(3," in last, b"(4," in last) == (False, True)


def _dead_list(session: Session, table: str) -> None:
    text = "CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
    session.run(
        f"CREATE TABLE {table} (Id CHAR(36) {text} PRIMARY KEY, State VARCHAR(32) {text}, TerminalAt DATETIME(6) NULL, "
        "Other INT, KEY IX_Dead (State, TerminalAt, Id))"
    )
    start = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    rows = [(f"{i:036d}", "done" if i % 5 == 0 else "dead", start + timedelta(seconds=i // 3), i) for i in range(4000)]
    with contextlib.closing(session.connection.cursor()) as cursor:
        cursor.executemany(f"INSERT INTO {table} (Id, State, TerminalAt, Other) VALUES (%s, %s, %s, %s)", rows)
    session.run(f"ANALYZE TABLE {table}")


SPLIT = "TerminalAt <= %(at)s AND (TerminalAt < %(at)s OR (TerminalAt = %(at)s AND Id < %(id)s))"
TUPLE = "(TerminalAt, Id) < (%(at)s, %(id)s)"


def _page_plan(session: Session, table: str, predicate: str) -> list[tuple[Any, ...]]:
    params = {"at": "2026-01-01 00:10:00", "id": f"{1800:036d}"}
    with contextlib.closing(session.connection.cursor()) as cursor:
        cursor.execute(
            f"EXPLAIN SELECT Id, Other FROM {table} FORCE INDEX (IX_Dead) WHERE State = 'dead' AND {predicate} "
            "ORDER BY TerminalAt DESC, Id DESC LIMIT 50",
            params,
        )
        return list(cursor.fetchall())


def test_page_by_key__split_predicate_is_a_range(connect: Connect, table: str, engine: str) -> None:
    session = connect()
    _dead_list(session, table)
    plan = _page_plan(session, table, SPLIT)
    if engine == "mariadb":
        # State 32 + 2, TerminalAt 8 + 1, Id 36: the range ends inside the key, not at the state.
        assert [(row[3], row[5], row[6]) for row in plan] == [("range", "IX_Dead", "79")]
        assert "filesort" not in str(plan[0][9])
    else:
        scans = [row for row in plan if "IndexRangeScan" in row[0]]
        assert len(scans) == 1
        assert scans[0][4].count('"dead" 2026-01-01 00:10:00.000000') == 3
        assert "keep order:true, desc" in scans[0][4]


def test_page_by_key__row_constructor_reads_the_whole_state_on_mariadb(
    connect: Connect, table: str, engine: str
) -> None:
    session = connect()
    _dead_list(session, table)
    plan = _page_plan(session, table, TUPLE)
    if engine == "mariadb":
        assert [(row[3], row[6]) for row in plan] == [("ref", "34")]
    else:
        assert sum("IndexRangeScan" in row[0] for row in plan) == 1
