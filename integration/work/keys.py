"""Where a page of work stands in its list, and the rows that follow it: of everything, or of some namespaces alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

from integration.errors import InvalidInput
from integration.states import TERMINAL_STATES, WorkItemState
from integration.storage.db import Reader, Row
from integration.storage.sql import namespace_lists, operator_reads
from integration.storage.statements import Statement

_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LONG_AGO: Final = datetime(1970, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A row of a list that a page goes on from, and in which direction.

    Attributes:
        key: What the list is sorted by, as the cursor spells it; empty at the beginning.
        is_back: To the page before it.
    """

    key: tuple[str, ...] = ()
    is_back: bool = False

    @classmethod
    def parse(cls, cursor: str | None) -> Self:
        """Return where a page's cursor stands; the beginning without one.

        Raises:
            InvalidInput: It is not one of this list.
        """
        if cursor is None:
            return cls()
        # The columns are ASCII; MariaDB refuses to compare them with anything else.
        if cursor[:1] not in {"<", ">"} or len(cursor) > 200 or not cursor.isascii():
            message = "The page's cursor is not one of this list."
            raise InvalidInput(message)
        return cls(key=tuple(cursor[1:].split("~")), is_back=cursor[0] == "<")

    @property
    def moment(self) -> datetime:
        """The time that a list of one state is sorted by.

        Raises:
            InvalidInput: The cursor has none.
        """
        try:
            moment = datetime.fromisoformat(self.key[0])
            if moment.tzinfo is None or len(self.key) < 2:
                raise ValueError(self.key)  # noqa: TRY301 - one message for every fault of a cursor
            return moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            message = "The page's cursor is not one of this list."
            raise InvalidInput(message) from error


def key_of(state: WorkItemState | None, row: Row) -> str:
    """Return what a cursor says of a row of the list of one state, or of all."""
    if state is None:
        return str(row["WorkId"])
    if state in TERMINAL_STATES:
        return "~".join((row["TerminalAt"].isoformat(), row["WorkId"]))
    return "~".join((row["RunAfter"].isoformat(), row["QueueClass"], row["WorkId"]))


def find_everywhere(reader: Reader, state: WorkItemState | None, position: Position, limit: int) -> list[Row]:
    """Return the rows that follow a position, in the direction in which it looks.

    Args:
        reader: Where to read.
        state: Only this state; None for all.
        position: Where to go on.
        limit: Rows at most.
    """
    statement, params = _everywhere(state, position)
    return reader.fetch_all(statement, {**params, "limit": limit})


def find_in(reader: Reader, names: Collection[str], state: WorkItemState, position: Position, limit: int) -> list[Row]:
    """Return the rows of some namespaces that follow a position: an ended state by its end, a waiting one by its id.

    Args:
        reader: Where to read, one statement for each namespace.
        names: The namespaces.
        state: Only this state.
        position: Where to go on.
        limit: Rows at most.
    """
    is_ended = state in TERMINAL_STATES
    statement, params = _of_namespace(position, is_ended=is_ended)
    params |= {"state": str(state), "limit": limit}
    found = [row for name in names for row in reader.fetch_all(statement, {**params, "namespace": name})]
    found.sort(
        key=lambda row: (row["TerminalAt"], row["WorkId"]) if is_ended else (row["WorkId"],),
        reverse=is_ended is not position.is_back,
    )
    return found[:limit]


def _everywhere(state: WorkItemState | None, position: Position) -> tuple[Statement, dict[str, Any]]:
    sql, key, is_back = operator_reads, position.key, position.is_back
    if state is None:
        start = key[0] if key else _LAST_ID
        return (sql.LIST_WORK_BY_ID_NEWER if is_back else sql.LIST_WORK_BY_ID_OLDER), {"work_id": start}
    if state in TERMINAL_STATES:
        moment, work_id = (position.moment, key[-1]) if key else (_FAR, _LAST_ID)
        statement = sql.LIST_ENDED_WORK_NEWER if is_back else sql.LIST_ENDED_WORK_OLDER
        return statement, {"state": str(state), "moment": moment, "work_id": work_id}
    moment, queue, work_id = (position.moment, key[1], key[-1]) if key else (_LONG_AGO, "", _FIRST_ID)
    statement = sql.LIST_WAITING_WORK_SOONER if is_back else sql.LIST_WAITING_WORK_LATER
    return statement, {"state": str(state), "moment": moment, "queue_class": queue, "work_id": work_id}


def _of_namespace(position: Position, *, is_ended: bool) -> tuple[Statement, dict[str, Any]]:
    sql, key = namespace_lists, position.key
    if is_ended:
        moment, work_id = (position.moment, key[-1]) if key else (_FAR, _LAST_ID)
        statement = (
            sql.LIST_ENDED_WORK_OF_NAMESPACE_NEWER if position.is_back else sql.LIST_ENDED_WORK_OF_NAMESPACE_OLDER
        )
        return statement, {"moment": moment, "work_id": work_id}
    statement = (
        sql.LIST_WAITING_WORK_OF_NAMESPACE_SOONER if position.is_back else sql.LIST_WAITING_WORK_OF_NAMESPACE_LATER
    )
    return statement, {"work_id": key[-1] if key else _FIRST_ID}
