"""Cursors of the dead-letter list: a place and a direction, signed so that nobody makes one up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from django.core.signing import BadSignature, Signer

from integration import errors

_SIGNER: Final = "authority.dead"
_LONGEST: Final = 200
LONG_AGO: Final = datetime(1000, 1, 1, tzinfo=UTC)
FAR_AHEAD: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A row's place in the list: its terminal time and its id. Later places come first on a page."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a page begins, and whether it goes to older or to newer rows; the place itself is left out."""

    place: Place
    is_older: bool

    def encode(self) -> str:
        """Return the opaque text of the cursor."""
        direction = "o" if self.is_older else "n"
        return Signer(salt=_SIGNER).sign(f"{direction}~{self.place.at.isoformat()}~{self.place.id}")

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what `encode` returned.

        Raises:
            InvalidInput: It is not one of this installation's cursors.
        """
        try:
            direction, at, identity = Signer(salt=_SIGNER).unsign(text[:_LONGEST]).split("~")
            place = Place(at=datetime.fromisoformat(at), id=identity)
        except (BadSignature, ValueError):
            message = "This page's cursor is not valid: open the list from its first page."
            raise errors.InvalidInput(message, field="cursor") from None
        return cls(place=place, is_older=direction == "o")


#: Where the rows stand whose writer left no terminal time: after all others, by id.
UNDATED: Final = datetime(1000, 1, 1, tzinfo=UTC) - timedelta(days=1)
#: Before the first of them.
FIRST_UNDATED: Final = Place(at=UNDATED, id="~")
#: Before the first row.
START: Final = Cursor(place=Place(at=FAR_AHEAD, id=""), is_older=True)
