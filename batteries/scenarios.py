"""What the kill matrix runs: a piece of the program's work that can be prepared, run, and run again after a kill."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from batteries import books, kernel
from batteries.books import Row
from batteries.database import Ground
from tests.support import cleaning


@dataclass
class Prepared:
    """What a scenario was given.

    Attributes:
        wanted: How each item must end, by WorkId.
        deliveries: What is delivered, or asked for.
        record: Where flows note their runs.
        acked: Where answers are noted.
    """

    wanted: dict[str, str]
    deliveries: list[str]
    record: Path
    acked: Path


class Scenario(ABC):
    """A piece of the program's work that can be prepared, run, and run again after a kill."""

    name = ""
    #: Kill at each time that a place is passed; a run with threads passes later times in any order.
    is_repeatable = False
    #: What the shortest form does not leave out.
    telling = re.compile(r"after:(INSERT_EVENTS|FIRST_CLAIM|REAP_\w+)$|^handoff")
    #: Of the telling places, and of the others, so many at most in the shortest form.
    few = (20, 5)

    @contextlib.contextmanager
    def around(self, ground: Ground) -> Iterator[None]:
        """Wrap all runs of the scenario."""
        yield

    def empty(self) -> None:
        """Remove what an earlier run left."""
        cleaning.empty_database()

    @abstractmethod
    def prepare(self, folder: Path, seed: int) -> Prepared:
        """Put the rows in place."""

    @abstractmethod
    def act(self, prepared: Prepared, seed: int) -> None:
        """Do the work."""

    def recover(self, prepared: Prepared, seed: int) -> None:
        """Do what is done after the kill: the same again."""
        self.act(prepared, seed)

    def items(self) -> dict[str, Row]:
        """Return every WorkItem."""
        return books.items()

    def expire_leases(self) -> None:
        """Let the leases of who was killed be over."""
        books.expire_leases()

    def torn(self, prepared: Prepared, place: str) -> list[str]:
        """Return what the kill left half done, looked at before anything is started again."""
        return []

    @abstractmethod
    def lost(self, prepared: Prepared) -> list[str]:
        """Return what was put in and did not come out as it must."""

    def twice(self, prepared: Prepared, before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
        """Return what took effect twice: what had ended and moved again, and attempts that ran twice."""
        return books.moved_again(before, after) + books.ran_too_often(after, kernel.runs(prepared.record))

    def crooked(self, after: Mapping[str, Row]) -> list[str]:
        """Return what the tables contradict each other about."""
        return books.crooked(after, books.attempts())


def paths(folder: Path) -> tuple[Path, Path]:
    """Return fresh files for runs and answers."""
    for name in ("runs", "acked"):
        (folder / name).unlink(missing_ok=True)
    return folder / "runs", folder / "acked"
