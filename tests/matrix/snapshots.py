"""What every system table holds, row by row, and what changed from one moment to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from django.db import connections

Row: TypeAlias = dict[str, Any]
#: Table -> primary key -> row.
Snapshot: TypeAlias = dict[str, dict[tuple[Any, ...], Row]]

AUDIT: Final = "console_auditentry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row that is not what it was.

    Attributes:
        table: Its table.
        before: The row, or None if it is new.
        after: The row, or None if it is gone.
    """

    table: str
    before: Row | None
    after: Row | None

    @property
    def namespace(self) -> str | None:
        """Whose row it is; None where the table does not say."""
        row = self.after or self.before or {}
        found = row.get("Namespace")
        return None if found is None else str(found)

    def columns(self) -> dict[str, tuple[Any, Any]]:
        """Return the columns of a changed row, each with what it held and holds."""
        before, after = self.before or {}, self.after or {}
        return {name: (before.get(name), after[name]) for name in after if before.get(name) != after[name]}


@cache
def tables(database: str) -> dict[str, tuple[str, ...]]:
    """Return every system table of the connection's database, with the columns of its primary key."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
            " WHERE TABLE_SCHEMA = %s AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_NAME, SEQ_IN_INDEX",
            [database],
        )
        found: dict[str, tuple[str, ...]] = {}
        for table, column in cursor.fetchall():
            if table.lower().startswith("_system_"):
                found[table] = (*found.get(table, ()), column)
        return found


def take() -> Snapshot:
    """Read every row of every system table."""
    connection = connections["default"]
    found: Snapshot = {}
    with connection.cursor() as cursor:
        for table, keys in tables(str(connection.settings_dict["NAME"])).items():
            cursor.execute(f"SELECT * FROM `{table}`")
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            found[table] = {tuple(row[key] for key in keys): row for row in rows}
    return found


def changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """Yield every row that appeared, vanished or holds another value."""
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table, {}), after.get(table, {})
        for key in sorted(old.keys() | new.keys(), key=repr):
            if old.get(key) != new.get(key):
                yield Change(table=table, before=old.get(key), after=new.get(key))


def count_audited() -> dict[str, int]:
    """Return how many entries the console's trail has, by outcome."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SELECT outcome, COUNT(*) FROM `{AUDIT}` GROUP BY outcome")
        return {str(outcome): int(count) for outcome, count in cursor.fetchall()}
