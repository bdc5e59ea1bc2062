"""What the probe finds, at every vintage and while a column arrives."""

from __future__ import annotations

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper

from integration import checks, errors
from integration.storage import probe
from integration.storage.install import install_schema
from integration.storage.schema import Vintage

WORK_ITEM = "_System_ConnectorWorkItem"


def test_probe__names_the_engine(empty: BaseDatabaseWrapper, engine: str) -> None:
    server = probe.read_server(empty)
    assert engine == server.engine
    assert server.version >= probe.OLDEST[server.engine]


def test_probe__empty_database(empty: BaseDatabaseWrapper) -> None:
    found = probe.probe(empty)
    assert found.vintage is None
    assert (False, False, False) == (found.has_events, found.has_work_items, found.is_complete)
    assert WORK_ITEM in found.missing_tables


@pytest.mark.parametrize(
    ("vintage", "expected"),
    [
        (Vintage.EVENT_ONLY, (True, False, False, False, False)),
        (Vintage.LEGACY, (True, True, False, False, False)),
        (Vintage.ADDITIVE, (True, True, True, False, False)),
        (Vintage.CURRENT, (True, True, True, True, True)),
    ],
)
def test_probe__capabilities(
    empty: BaseDatabaseWrapper, vintage: Vintage, expected: tuple[bool, bool, bool, bool, bool]
) -> None:
    install_schema(empty, vintage)
    found = probe.probe(empty)
    assert vintage is found.vintage
    assert expected == (
        found.has_events,
        found.has_work_items,
        found.has_additive,
        found.has_ranges,
        found.has_rollback,
    )
    assert found.is_complete is (vintage is Vintage.CURRENT)


def test_probe__names_what_is_missing(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty, Vintage.ADDITIVE)
    found = probe.probe(empty)
    assert found.missing_tables == ()
    assert found.missing_columns == tuple(
        f"{WORK_ITEM}.{column}"
        for column in (
            "InputStartOrdinal",
            "LanePosition",
            "LegacyOutcomeReceiptDigest",
            "LegacyOutcomeReceiptVersion",
            "RollbackExecutionFenceId",
        )
    )
    assert found.missing_keys == (f"{WORK_ITEM}.IX_WorkItem_LanePosition", f"{WORK_ITEM}.IX_WorkItem_RollbackFence")


def test_probe__half_an_upgrade_is_no_capability(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty, Vintage.LEGACY)
    with empty.cursor() as cursor:
        cursor.execute(f"ALTER TABLE `{WORK_ITEM}` ADD COLUMN `TerminalAt` DATETIME(6) NULL")
    found = probe.probe(empty, fresh=True)
    assert (Vintage.LEGACY, False) == (found.vintage, found.has_additive)


def test_probe__sees_a_column_that_arrives(empty: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("integration.storage.probe.time.monotonic", lambda: now)
    install_schema(empty, Vintage.LEGACY)
    assert not probe.probe(empty).has_additive
    other = type(empty)(empty.settings_dict, "empty")
    with monkeypatch.context() as elsewhere:
        # Another process's change drops nothing here.
        elsewhere.setattr(probe, "forget", lambda _connection: None)
        install_schema(other)
    other.close()
    assert not probe.probe(empty).has_additive
    now += 1.1
    assert probe.probe(empty).has_additive


def test_probe__asks_once_for_all_connections_of_a_database(empty: BaseDatabaseWrapper) -> None:
    install_schema(empty)
    known = probe.probe(empty)
    other = type(empty)(empty.settings_dict, "empty")
    assert (probe.probe(other), other.connection) == (known, None)
    probe.forget(other)
    assert probe.probe(empty) is not known


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        ("10.11.6-MariaDB-0+deb12u1", (probe.Engine.MARIADB, (10, 11))),
        ("5.5.5-11.4.2-MariaDB", (probe.Engine.MARIADB, (11, 4))),
        ("8.0.11-TiDB-v8.4.0", (probe.Engine.TIDB, (8, 4))),
        ("8.0.11-TiDB-v8.4.0-this-is-a-placeholder", (probe.Engine.TIDB, (8, 4))),
        ("8.0.36", (probe.Engine.MYSQL, (8, 0))),
    ],
)
def test_banner__read(banner: str, expected: tuple[probe.Engine, tuple[int, int]]) -> None:
    server = probe.parse_banner(banner)
    assert expected == (server.engine, server.version)


@pytest.mark.parametrize("banner", ["10.6.12-MariaDB", "5.7.25-TiDB-v6.5.0", "5.7.44", "8.0.11-TiDB-None", ""])
def test_banner__refused(banner: str) -> None:
    with pytest.raises(errors.UnsupportedEngine):
        probe.parse_banner(banner)


def _ids(connection: BaseDatabaseWrapper) -> list[str | None]:
    return [message.id for message in checks.examine(connection)]


def test_checks__clean_on_the_programs_own_settings(empty: BaseDatabaseWrapper) -> None:
    assert _ids(empty) == ["integration.W008"]
    install_schema(empty)
    assert _ids(empty) == []


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "integration.E003"),
        ("SET time_zone = '+02:00'", "integration.E004"),
        ("SET sql_mode = ''", "integration.E005"),
        ("SET innodb_lock_wait_timeout = 50", "integration.E006"),
        ("SET NAMES latin1", "integration.E007"),
    ],
)
def test_checks__find_a_wrong_session(empty: BaseDatabaseWrapper, statement: str, expected: str) -> None:
    install_schema(empty)
    with empty.cursor() as cursor:
        cursor.execute(statement)
    assert _ids(empty) == [expected]


def test_checks__refuse_the_wrong_backend(empty: BaseDatabaseWrapper, engine: str) -> None:
    wrong = {"mariadb": "django_tidb", "tidb": "django.db.backends.mysql"}[engine]
    other = type(empty)({**empty.settings_dict, "ENGINE": wrong}, "empty")
    assert _ids(other) == ["integration.E002"]
    for _ in range(2):
        with pytest.raises(errors.WrongBackend):
            other.ensure_connection()
        assert other.connection is None, "a later statement must not find it open"


def test_checks__an_absent_database_is_an_error_with_a_hint(empty: BaseDatabaseWrapper) -> None:
    empty.settings_dict["NAME"] = "no_such_database"
    [message] = checks.examine(empty)
    assert message.id == "integration.E010"
    assert "LOCKHOUSE_DATABASE_URL" in str(message.hint)
