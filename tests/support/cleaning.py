"""Emptying a test database: Django neither creates nor cleans the tables of unmanaged models."""

from __future__ import annotations

from functools import cache
from typing import Final

from django.db import connections

KEPT: Final = frozenset({"django_migrations"})
# Rows that migrations and post_migrate made; what a test added to them is removed by its id.
REFERENCE: Final = (
    "django_content_type",
    "auth_permission",
    "auth_group",
    "auth_group_permissions",
)
_baseline: dict[str, int] = {}


@cache
def _tables(database: str) -> tuple[str, ...]:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
            [database],
        )
        return tuple(sorted(str(row[0]) for row in cursor.fetchall()))


def remember_reference_rows() -> None:
    """Note what the fresh database holds, so that cleaning gives it back."""
    with connections["default"].cursor() as cursor:
        for table in REFERENCE:
            cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM `{table}`")
            _baseline[table] = int(cursor.fetchone()[0])


def dirty_tables() -> list[str]:
    """Return the tables that hold rows, in one statement."""
    connection = connections["default"]
    tables = [
        table
        for table in _tables(str(connection.settings_dict["NAME"]))
        if table not in KEPT and table not in REFERENCE
    ]
    probes = [f"SELECT '{table}' FROM DUAL WHERE EXISTS (SELECT 1 FROM `{table}`)" for table in tables]
    probes += [
        f"SELECT '{table}' FROM DUAL WHERE EXISTS (SELECT 1 FROM `{table}` WHERE id > {_baseline.get(table, 0)})"
        for table in REFERENCE
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(probes))
        return [str(row[0]) for row in cursor.fetchall()]


def empty_database() -> None:
    """Delete every row that a committing test left; DELETE, since TRUNCATE is many times dearer."""
    dirty = dirty_tables()
    if not dirty:
        return
    with connections["default"].cursor() as cursor:
        cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
        try:
            for table in dirty:
                if table in REFERENCE:
                    cursor.execute(f"DELETE FROM `{table}` WHERE id > %s", [_baseline.get(table, 0)])
                else:
                    cursor.execute(f"DELETE FROM `{table}`")
        finally:
            cursor.execute("SET FOREIGN_KEY_CHECKS = 1")
