"""Installing each vintage and upgrading it in place."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from integration import errors
from integration.storage.install import install_schema
from integration.storage.schema import Vintage, declared_columns, declared_tables

WORK_ITEM = "_System_ConnectorWorkItem"
ADDITIVE_COLUMNS = (
    "Outcome",
    "FailureClass",
    "FailureSummary",
    "FailureCount",
    "FirstFailedAt",
    "LastFailedAt",
    "TerminalAt",
    "ReplayedAt",
    "ReplayOfWorkId",
)
CURRENT_COLUMNS = (
    "InputStartOrdinal",
    "RollbackExecutionFenceId",
    "LegacyOutcomeReceiptVersion",
    "LegacyOutcomeReceiptDigest",
    "LanePosition",
)


def snapshot(connection: BaseDatabaseWrapper) -> dict[str, list[tuple[Any, ...]]]:
    """Return every table, column and key as the database describes them."""
    queries = {
        "tables": "SELECT TABLE_NAME, ENGINE, TABLE_COLLATION FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1",
        "columns": "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, "
        "COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, 3",
        "keys": "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME FROM "
        "information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, 2, 4",
    }
    found = {}
    with connection.cursor() as cursor:
        for name, sql in queries.items():
            cursor.execute(sql)
            found[name] = [tuple(row) for row in cursor.fetchall()]
    return found


def columns_of(connection: BaseDatabaseWrapper, table: str) -> tuple[str, ...]:
    return tuple(row[1] for row in snapshot(connection)["columns"] if row[0] == table)


def test_declared__vintages_differ_in_the_work_item_alone() -> None:
    assert declared_columns(WORK_ITEM, vintage=Vintage.EVENT_ONLY) == ()
    base = declared_columns(WORK_ITEM, vintage=Vintage.LEGACY)
    assert base + ADDITIVE_COLUMNS == declared_columns(WORK_ITEM, vintage=Vintage.ADDITIVE)
    assert base + ADDITIVE_COLUMNS + CURRENT_COLUMNS == declared_columns(WORK_ITEM)
    for table in set(declared_tables()) - {WORK_ITEM}:
        assert declared_columns(table, vintage=Vintage.EVENT_ONLY) == declared_columns(table), table


def test_upgrade__step_by_step_ends_in_the_same_schema_as_a_fresh_install(empty: BaseDatabaseWrapper) -> None:
    reports = {}
    for vintage in Vintage:
        reports[vintage] = install_schema(empty, vintage)
        assert vintage is reports[vintage].vintage
        assert columns_of(empty, WORK_ITEM) == declared_columns(WORK_ITEM, vintage=vintage)
        before = snapshot(empty)
        again = install_schema(empty, vintage)
        assert ((), (), False) == (again.created, again.altered, again.changed)
        assert before == snapshot(empty)
    upgraded = snapshot(empty)
    assert set(declared_tables()) - {WORK_ITEM} == set(reports[Vintage.EVENT_ONLY].created)
    assert reports[Vintage.LEGACY].created == (WORK_ITEM,)
    assert {f"{WORK_ITEM}.{name}" for name in ADDITIVE_COLUMNS} <= set(reports[Vintage.ADDITIVE].altered)
    assert {f"{WORK_ITEM}.{name}" for name in CURRENT_COLUMNS} <= set(reports[Vintage.CURRENT].altered)

    name = empty.settings_dict["NAME"]
    with empty.cursor() as cursor:
        cursor.execute(f"DROP DATABASE `{name}`")
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    empty.close()
    fresh = install_schema(empty)
    assert set(fresh.created) == set(declared_tables())
    assert upgraded == snapshot(empty)


def test_upgrade__keeps_the_rows(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty, Vintage.EVENT_ONLY)
    with empty.cursor() as cursor:
        cursor.execute("INSERT INTO _System_ConnectorNamespace VALUES ('acme', 'org', UTC_TIMESTAMP(6))")
    install_schema(empty)
    with empty.cursor() as cursor:
        cursor.execute("SELECT Namespace FROM _System_ConnectorNamespace")
        assert cursor.fetchall() == (("acme",),)


def test_upgrade__finishes_one_that_was_cut_off(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty, Vintage.LEGACY)
    with empty.cursor() as cursor:
        cursor.execute(f"ALTER TABLE `{WORK_ITEM}` ADD COLUMN `FailureCount` INT NOT NULL DEFAULT 0")
    report = install_schema(empty, Vintage.ADDITIVE)
    assert f"{WORK_ITEM}.FailureCount" not in report.altered
    assert Vintage.ADDITIVE is report.vintage


def test_install__never_goes_back(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty)
    before = snapshot(empty)
    report = install_schema(empty, Vintage.EVENT_ONLY)
    assert (False, Vintage.CURRENT) == (report.changed, report.vintage)
    assert before == snapshot(empty)


def test_install__dry_run_changes_nothing(empty: BaseDatabaseWrapper) -> None:
    report = install_schema(empty, dry_run=True)
    assert set(report.created) == set(declared_tables())
    assert report.vintage is None
    assert snapshot(empty)["tables"] == []


def test_install__two_at_once(empty: BaseDatabaseWrapper) -> None:
    start = threading.Barrier(2, timeout=60)
    failures: list[BaseException] = []

    def run() -> None:
        own = type(empty)(empty.settings_dict, "empty")
        try:
            start.wait()
            install_schema(own)
        except BaseException as error:
            failures.append(error)
        finally:
            with contextlib.suppress(Exception):
                own.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
        assert not thread.is_alive()
    assert failures == []
    assert not install_schema(empty).changed


@pytest.mark.django_db
def test_install__refused_inside_a_transaction() -> None:
    with transaction.atomic(), pytest.raises(errors.SetupError, match="inside a transaction"):
        install_schema(connections["default"])


def test_install__refuses_an_unknown_vintage(empty: BaseDatabaseWrapper) -> None:
    with pytest.raises(errors.SetupError, match="event_only, legacy, additive, current"):
        install_schema(empty, "newest")


@pytest.mark.django_db(transaction=True)
def test_command__reports_as_json(engine: str) -> None:
    out = io.StringIO()
    call_command("install_schema", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert (engine, "current", [], [], False) == (
        report["engine"],
        report["vintage"],
        report["created"],
        report["altered"],
        report["changed"],
    )


def test_keys__every_nullable_unique_column_admits_many_nulls(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty)
    found = snapshot(empty)
    nullable = {(row[0], row[1]) for row in found["columns"] if row[4] == "YES"}
    unique_nullable = {
        row[4] for row in found["keys"] if row[0] == WORK_ITEM and not int(row[2]) and (row[0], row[4]) in nullable
    }
    assert unique_nullable == {"ProjectionActiveKey", "TargetLaneActiveKey", "ReplayOfWorkId"}


def test_columns__text_is_compared_byte_by_byte(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty)
    collations = {row[6] for row in snapshot(empty)["columns"] if row[6]}
    assert collations == {"ascii_bin", "utf8mb4_bin"}


def test_columns__state_holds_every_state(empty: BaseDatabaseWrapper) -> None:
    from integration.states import WorkItemState

    install_schema(empty)
    types = {(row[0], row[1]): row[3] for row in snapshot(empty)["columns"]}
    assert types[WORK_ITEM, "State"] == "varchar(32)"
    assert len(WorkItemState) == 11
    assert max(map(len, WorkItemState)) <= 32
