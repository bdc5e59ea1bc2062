"""The history of an incarnation, told as it streams by in lane order: counts, and a few rows of each refusal.

What is kept are the projections of one lane. A projection is judged when its lane has ended, since only then is it
known whether all of its inputs have ordinals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from integration.cutover.projection.policy import History, Input, Owners, Reason, decide_alone, decide_indirect

#: Rows shown of one reason.
SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A row that refuses a cutover.

    Attributes:
        kind: `event` or `work_item`.
        id: Its id.
        event_kind: The event kind.
        ordinal: Its ordinal; 0 for none.
        state: The row's own state or status.
    """

    kind: str
    id: str
    event_kind: str
    ordinal: int
    state: str

    @classmethod
    def of_input(cls, found: Input) -> FoundRow:
        """Return an input as it is shown."""
        return cls(
            kind="event",
            id=found.event_id,
            event_kind=found.event_kind,
            ordinal=found.ordinal,
            state=found.status.value,
        )


@dataclass(slots=True)
class Rows:
    """Rows that share a fate: how many, and the first of them."""

    count: int = 0
    first: list[FoundRow] = field(default_factory=list)

    def add(self, row: FoundRow, *, shown: int = SHOWN) -> None:
        """Count a row, and keep it if it is among the first."""
        self.count += 1
        if len(self.first) < shown:
            self.first.append(row)

    def extend(self, other: Rows, *, shown: int = SHOWN) -> None:
        """Count the rows of another."""
        self.count += other.count
        self.first += other.first[: max(shown - len(self.first), 0)]


#: Within a lane: the route version, the work type, and the lane as it is spelled.
GroupKey = tuple[int, str, str]


@dataclass(slots=True)
class _Group:
    """One projection of the lane: what was seen of it, by the ordinal that its fate depends on."""

    owners: Owners | None = None
    has_zero: bool = False
    has_positive: bool = False
    waiting: dict[bool, Rows] = field(default_factory=dict)
    lowest: dict[bool, int] = field(default_factory=dict)


class Tally:
    """Judges inputs as they come by. Used by one thread."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.found: dict[Reason, Rows] = {}
        self.inputs = 0
        self.indirect = 0
        self._groups: dict[GroupKey, _Group] = {}

    def add(self, key: GroupKey, found: Input, owners: Owners | None) -> None:
        """Count an input.

        Args:
            key: Its projection, within the lane under way.
            found: The input.
            owners: What is retained of the projection's WorkItems; given with an indirect input.
        """
        self.inputs += 1
        group = self._groups.setdefault(key, _Group())
        group.has_positive |= found.ordinal > 0
        group.has_zero |= found.ordinal <= 0
        reason = decide_alone(found)
        if reason is not None:
            self.refuse(reason, FoundRow.of_input(found))
        elif found.is_indirect:
            self.indirect += 1
            group.owners = owners or Owners()
            # Of the same projection, all on one side of its boundary have one fate.
            is_beyond = found.ordinal > (group.owners.boundary or 0)
            group.lowest.setdefault(is_beyond, found.ordinal)
            group.waiting.setdefault(is_beyond, Rows()).add(FoundRow.of_input(found))

    def refuse(self, reason: Reason, row: FoundRow) -> None:
        """Count a row that refuses the cutover, whatever its projection."""
        self.found.setdefault(reason, Rows()).add(row)

    def end_lane(self) -> None:
        """Judge the projections of the lane under way, and forget them."""
        for group in self._groups.values():
            if group.owners is None:
                continue
            history = History(
                boundary=group.owners.boundary,
                is_mixed=(group.has_zero or group.owners.has_zero)
                and (group.has_positive or group.owners.has_positive),
            )
            for is_beyond, rows in group.waiting.items():
                reason = decide_indirect(group.lowest[is_beyond], history)
                if reason is not None:
                    self.found.setdefault(reason, Rows()).extend(rows)
        self._groups.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What refuses a cutover.

    Attributes:
        reason: Why.
        count: How many rows do; 0 where no row is at fault.
        rows: The first of them.
    """

    reason: Reason
    count: int = 0
    rows: tuple[FoundRow, ...] = ()


def findings_of(reasons: Iterable[Reason], rows: Mapping[Reason, Rows]) -> tuple[Finding, ...]:
    """Return what refuses, in the order in which it is asked."""
    found = {reason: Finding(reason=reason) for reason in reasons}
    found |= {
        reason: Finding(reason=reason, count=of_reason.count, rows=tuple(of_reason.first))
        for reason, of_reason in rows.items()
    }
    return tuple(found[reason] for reason in Reason if reason in found)
