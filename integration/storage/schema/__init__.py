"""The declared schema: the steps of the `.sql` files beside this module, in the order of their vintages.

A file starts with `-- vintage: NAME`. A statement creates one table, or adds one column or one key to one
table, so that a step that was interrupted is finished by what is missing and no step is run twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

TABLE_PREFIX: Final = "_System_"

_HEADER: Final = re.compile(r"^-- vintage: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)
_CREATE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS `(\w+)` \(\n(.*)\n\) ", re.DOTALL)
_ADD_COLUMN: Final = re.compile(r"ALTER TABLE `(\w+)` ADD COLUMN `(\w+)` ")
_ADD_KEY: Final = re.compile(r"ALTER TABLE `(\w+)` ADD (?:UNIQUE )?KEY `(\w+)` ")
_COLUMN_LINE: Final = re.compile(r"^\s*`(\w+)` ", re.MULTILINE)
_KEY_LINE: Final = re.compile(r"^\s*(?:UNIQUE )?KEY `(\w+)` ", re.MULTILINE)


class Vintage(StrEnum):
    """A state of the schema that other programs may have left behind, oldest first."""

    EVENT_ONLY = "event_only"
    LEGACY = "legacy"
    ADDITIVE = "additive"
    CURRENT = "current"

    @property
    def age(self) -> int:
        """Return the position in the order of upgrades, 0 for the oldest."""
        return list(Vintage).index(self)


class Change(StrEnum):
    """What a step brings."""

    TABLE = "table"
    COLUMN = "column"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement of the schema.

    Attributes:
        vintage: The vintage that the step belongs to.
        change: Whether it brings a table, a column or a key.
        table: The table it creates or alters.
        name: The table, column or key that it brings.
        sql: The statement, constant text.
        columns: The columns it brings.
        keys: The secondary keys it brings.
    """

    vintage: Vintage
    change: Change
    table: str
    name: str
    sql: str
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return `Table` or `Table.Name`, as reports show it."""
        return self.table if self.change is Change.TABLE else f"{self.table}.{self.name}"


def _parse(vintage: Vintage, text: str) -> Step:
    if created := _CREATE.match(text):
        table, body = created.groups()
        return Step(
            vintage=vintage,
            change=Change.TABLE,
            table=table,
            name=table,
            sql=text,
            columns=tuple(_COLUMN_LINE.findall(body)),
            keys=tuple(_KEY_LINE.findall(body)),
        )
    if column := _ADD_COLUMN.match(text):
        table, name = column.groups()
        return Step(
            vintage=vintage,
            change=Change.COLUMN,
            table=table,
            name=name,
            sql=text,
            columns=(name,),
        )
    if key := _ADD_KEY.match(text):
        table, name = key.groups()
        return Step(
            vintage=vintage,
            change=Change.KEY,
            table=table,
            name=name,
            sql=text,
            keys=(name,),
        )
    message = f"a schema statement is neither a table, a column nor a key: {text[:60]!r}"
    raise ValueError(message)


@cache
def declared_steps() -> tuple[Step, ...]:
    """Return every step, oldest vintage first; within one in the order of file names and statements.

    Returns:
        The steps of all vintages. A table's step precedes those that alter it.

    Raises:
        ValueError: A file has no vintage or holds a statement of another kind.
    """
    steps: list[Step] = []
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        header = _HEADER.match(text)
        if header is None:
            message = f"{path.name} does not start with its vintage"
            raise ValueError(message)
        vintage = Vintage(header.group(1))
        statements = _COMMENT.sub("", text).split(";")
        steps += [_parse(vintage, re.sub(r"\n{2,}", "\n", s).strip()) for s in statements if s.strip()]
    return tuple(sorted(steps, key=lambda step: step.vintage.age))


def declared_tables() -> tuple[str, ...]:
    """Return the names of all system tables, sorted."""
    return tuple(sorted(step.table for step in declared_steps() if step.change is Change.TABLE))


def declared_columns(table: str, *, vintage: Vintage = Vintage.CURRENT) -> tuple[str, ...]:
    """Return the columns that a table has at a vintage, in the order in which they arrive."""
    return tuple(
        column
        for step in declared_steps()
        if step.table == table and step.vintage.age <= vintage.age
        for column in step.columns
    )
