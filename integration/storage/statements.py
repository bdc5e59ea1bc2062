"""What a statement is: a name, a constant text, the ranks it locks, what it returns.

Statements live in `storage/sql/<table>.py`. Their text never changes at run time; values are parameters
(`%(name)s`, and `IN %(names)s` with a tuple). A static test parses every one of them and holds its locks
against the ranks that it declares.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum, StrEnum
from typing import LiteralString

from integration.storage import sql


class LockRank(IntEnum):
    """The one order in which rows are locked; a transaction's ranks never fall."""

    NAMESPACE = 5
    PACK = 10
    ROUTE = 12
    PROCESS = 15
    RECEIPT = 18
    EVENT = 20
    WORK_ITEM = 30
    COMMAND = 40
    ATTEMPT = 50
    BINDING = 60
    GRANT = 70
    QUOTA = 80
    LEAF = 90


class Returns(StrEnum):
    """What a statement gives back."""

    ROW = "row"
    ROWS = "rows"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statement:
    """A named SQL statement.

    Attributes:
        name: The name of the constant that holds it.
        text: The SQL, constant.
        returns: One row, rows, or the number of matched rows.
        locks: The ranks whose rows it locks, in the order in which it locks them. A locked read names one.
        holds: The rank whose row the caller must hold already; such a statement takes no new lock.
        many: The statement is executed once with many parameter sets; VALUES may then hold no function.
    """

    name: str
    text: LiteralString
    returns: Returns
    locks: tuple[LockRank, ...] = ()
    holds: LockRank | None = None
    many: bool = False


def all_statements() -> Iterator[tuple[str, str, Statement]]:
    """Yield (module name, constant name, statement) for every statement of the program, each once.

    A module's statements are its constants, and the fields of a constant that holds a table's statements.
    """
    modules = [
        (module_info.name, importlib.import_module(f"{sql.__name__}.{module_info.name}"))
        for module_info in pkgutil.iter_modules(sql.__path__)
    ]
    seen: set[Statement] = set()
    for name, module in modules:
        for constant, value in sorted(vars(module).items()):
            if isinstance(value, Statement) and value not in seen:
                seen.add(value)
                yield name, constant, value
    for name, module in modules:
        for constant, value in sorted(vars(module).items()):
            if not constant.isupper() or isinstance(value, Statement) or not is_dataclass(value):
                continue
            for member in fields(value):
                statement = getattr(value, member.name)
                if isinstance(statement, Statement) and statement not in seen:
                    seen.add(statement)
                    yield name, statement.name, statement
