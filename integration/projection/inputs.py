"""The payload reader: a claimed generation's inputs, all of them, in ordinal order, one opened at a time.

It starts from the WorkId that was remembered at the claim. Which Events belong to the generation is what its row
says: the interval from `InputStartOrdinal` to `LaneOrdinal`, and the exact identity. No clock, status, delivery
sequence or retained history takes part. What is missing is an error; the selected payload never stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NoReturn, Self

from integration.errors import IntegrationError
from integration.projection.identity import ProjectionIdentity
from integration.storage import db
from integration.storage.db import Reader, Row
from integration.storage.sql import inputs as sql

#: Rows of one statement. A body is at most 4 MiB, which bounds what is held at once; one payload of them is open.
PAGE: Final = 32

#: Opens an Event's payload, given the row with its `EventId` and `Payload`.
Opener = Callable[[Row], Mapping[str, Any]]
#: Runs a read, again if need be; what it raises is the reading's error.
Fetch = Callable[[Callable[[], list[Row]]], list[Row]]


class MissingWhy(StrEnum):
    """What of a generation's membership is not there."""

    #: No row has the WorkId.
    GENERATION = "generation"
    #: The row has no interval, or one that is not one.
    INTERVAL = "interval"
    #: The row's columns spell another identity than its key.
    IDENTITY = "identity"
    #: No Event of the identity stands at the lower bound.
    FIRST_INPUT = "first_input"
    #: The selected Event does not stand at the upper bound, or is not of the identity.
    SELECTED_INPUT = "selected_input"


class InputsMissing(IntegrationError):
    """A generation's inputs are not all there; what was found of them is not executed."""

    code = "inputs_missing"

    def __init__(self, why: MissingWhy, *, work_id: str) -> None:
        """Keep what is missing."""
        self.why = why
        super().__init__(work_id=work_id, why=why.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input of a generation.

    Attributes:
        payload: The normalized event, opened; not shown in `repr`.
        ordinal: Its place in the incarnation's order of admission, from 1; the order of the inputs.
        occurred_at: When it happened at the provider, aware UTC, if it said so; says nothing about the order.
        event_id: The Event.
    """

    payload: Mapping[str, Any] = field(repr=False)
    ordinal: int
    occurred_at: datetime | None
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What a generation's own row says of its inputs.

    Attributes:
        work_id: The generation.
        identity: What its inputs have in common.
        first: The immutable lower bound, inclusive.
        last: The upper bound, inclusive; immutable once the generation is claimed.
        selected_event_id: The Event at the upper bound.
    """

    work_id: str
    identity: ProjectionIdentity
    first: int
    last: int
    selected_event_id: str

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Return what a row of READ_GENERATION says.

        Raises:
            InputsMissing: The row has no valid interval, or its key is another identity's.
        """
        work_id, first, last = row["WorkId"], row["InputStartOrdinal"], row["LaneOrdinal"]
        if first is None or last is None or not 0 < first <= last:
            raise InputsMissing(MissingWhy.INTERVAL, work_id=work_id)
        if row["SourceLane"] is None:
            raise InputsMissing(MissingWhy.IDENTITY, work_id=work_id)
        identity = ProjectionIdentity.of_work_item(row)
        if identity.key() != row["ProjectionKey"]:
            raise InputsMissing(MissingWhy.IDENTITY, work_id=work_id)
        return cls(work_id=work_id, identity=identity, first=first, last=last, selected_event_id=row["EventId"])

    def lane_params(self) -> dict[str, Any]:
        """Return what finds the lane's Events in their index."""
        return {
            "pack_install_id": self.identity.pack_install_id,
            "event_kind": self.identity.event_kind,
            "source_lane": self.identity.source_lane,
        }

    def member_params(self) -> dict[str, Any]:
        """Return what finds the generation's own Events among them."""
        return {
            **self.lane_params(),
            "route_version": self.identity.route_version,
            "work_type": self.identity.work_type,
            "first": self.first,
            "last": self.last,
        }


class Inputs:
    """A generation's inputs; they can be iterated again, each time read anew.

    Attributes:
        generation: Whose they are.
        fault: The error that a reading raised; a caller that swallowed it has not had the inputs.
    """

    def __init__(
        self,
        generation: Generation,
        opener: Opener,
        *,
        page: int = PAGE,
        fetch: Fetch = lambda read: read(),
        using: str = "default",
    ) -> None:
        """Remember where the inputs are; nothing is read yet."""
        self.generation = generation
        self.fault: Exception | None = None
        self._opener = opener
        self._page = page
        self._fetch = fetch
        self._using = using

    def __iter__(self) -> Iterator[Input]:
        """Yield every input in ordinal order, at most one page of them sealed in memory and one open.

        Raises:
            InputsMissing: A member is not there; what was yielded before must not count.
            IntegrityError: As the opener raises it; a payload cannot be read.
        """
        try:
            yield from self._read()
        except Exception as error:
            self.fault = error
            raise

    def _read(self) -> Iterator[Input]:
        generation = self.generation
        last: Row | None = None
        for row in self._rows():
            if last is None and row["LaneOrdinal"] != generation.first:
                self._fail(MissingWhy.FIRST_INPUT)
            last = row
            yield Input(
                payload=self._opener(row),
                ordinal=row["LaneOrdinal"],
                occurred_at=row["OccurredAt"],
                event_id=row["EventId"],
            )
        if last is None:
            self._fail(MissingWhy.FIRST_INPUT)
        if not _is_selected(generation, last):
            self._fail(MissingWhy.SELECTED_INPUT)

    def check(self) -> None:
        """Read both bounds of the interval, without a payload.

        Raises:
            InputsMissing: An Event of the identity does not stand at a bound, or another than the selected one does.

        Rule: P-06.
        """
        generation = self.generation
        params = {**generation.lane_params(), "ordinals": (generation.first, generation.last)}
        rows = self._fetch(lambda: db.read(self._using).fetch_all(sql.LIST_BOUNDS, params))
        found = {
            row["LaneOrdinal"]: row
            for row in rows
            if (row["RouteVersion"], row["WorkType"])
            == (generation.identity.route_version, generation.identity.work_type)
        }
        if generation.first not in found:
            self._fail(MissingWhy.FIRST_INPUT)
        last = found.get(generation.last)
        if last is None or not _is_selected(generation, last):
            self._fail(MissingWhy.SELECTED_INPUT)

    def _rows(self) -> Iterator[Row]:
        params = {**self.generation.member_params(), "limit": self._page}
        while True:
            rows = self._fetch(lambda: db.read(self._using).fetch_all(sql.LIST_INPUTS, params))
            yield from rows
            if len(rows) < self._page:
                return
            params["first"] = rows[-1]["LaneOrdinal"] + 1

    def _fail(self, why: MissingWhy) -> NoReturn:
        raise InputsMissing(why, work_id=self.generation.work_id)


def open_inputs(
    work_id: str,
    opener: Opener,
    *,
    page: int = PAGE,
    fetch: Fetch = lambda read: read(),
    using: str = "default",
) -> Inputs:
    """Return the inputs of a claimed generation, its bounds checked.

    Args:
        work_id: The WorkId remembered at the claim.
        opener: Opens one payload.
        page: Rows of one statement.
        fetch: Runs each read; the caller may have patience with a database that is away.
        using: The database alias.

    Returns:
        The inputs; no payload is opened before they are iterated.

    Raises:
        InputsMissing: The generation, its interval or a bound of it is not there.

    Locks: none.
    Rule: P-05, P-06, P-11, P-20.
    """
    rows = fetch(lambda: db.read(using).fetch_all(sql.READ_GENERATION, {"work_id": work_id}))
    inputs = Inputs(_generation_of(rows, work_id), opener, page=page, fetch=fetch, using=using)
    inputs.check()
    return inputs


def read_generation(reader: Reader, work_id: str) -> Generation:
    """Read what a generation's row says of its inputs.

    Raises:
        InputsMissing: There is no such row, or it has no valid interval.
    """
    return _generation_of(reader.fetch_all(sql.READ_GENERATION, {"work_id": work_id}), work_id)


def _generation_of(rows: list[Row], work_id: str) -> Generation:
    if not rows:
        raise InputsMissing(MissingWhy.GENERATION, work_id=work_id)
    return Generation.from_row(rows[0])


def count_inputs(reader: Reader, generation: Generation, *, cap: int) -> int:
    """Return how many inputs a generation has, reading no more than a cap of them.

    Args:
        reader: Where to read.
        generation: Whose.
        cap: The greatest answer.
    """
    row = reader.fetch_one(sql.COUNT_INPUTS, {**generation.member_params(), "limit": cap})
    return 0 if row is None else int(row["Found"])


def _is_selected(generation: Generation, row: Row) -> bool:
    return bool(row["LaneOrdinal"] == generation.last and row["EventId"] == generation.selected_event_id)
