"""The model: what is right, in lists of Python. It knows no database, no lock and no statement."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.model.pack import KINDS, Input

TERMINAL = frozenset({"succeeded", "skipped", "dead", "cancelled"})
#: A place of a generation or an Event: the number of the incarnation and the ordinal.
Place = tuple[int, int]


@dataclass(slots=True)
class Fact:
    """An admitted input, or a replay's Event."""

    kind: str
    lane: str | None
    status: str = "pending"
    owner: str = "event"
    replay_of: Place | None = None


@dataclass(slots=True)
class Item:
    """A generation. Its epoch is its attempt: nothing else than a claim raises either."""

    pack: int
    kind: str
    lane: str | None
    target: str
    start: int
    end: int
    max_attempts: int
    is_active: bool
    parent: Place | None = None
    work_id: str = ""
    state: str = "pending"
    attempt: int = 0
    failures: int = 0
    is_due: bool = True
    is_expired: bool = False
    is_cancel_requested: bool = False
    is_replayed: bool = False
    #: How the last attempt ended, as the next claim will write it.
    last: str | None = None
    closed: list[str | None] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return self.pack, self.end

    @property
    def is_projection(self) -> bool:
        return KINDS[self.kind].is_projection

    @property
    def is_live(self) -> bool:
        return self.state not in TERMINAL

    @property
    def key(self) -> tuple[int, str, str | None]:
        return self.pack, self.kind, self.lane

    @property
    def is_last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts

    @property
    def waits_for(self) -> str | None:
        wanted = KINDS[self.kind].waits_for
        return None if wanted is None or self.lane == self.target else wanted


@dataclass(slots=True)
class Receipt:
    """A stored delivery."""

    delivery_id: str
    inputs: tuple[Input, ...]
    is_materialized: bool = False


@dataclass(slots=True)
class Shadow:
    """Everything that was admitted, and where it stands.

    Attributes:
        next_ordinals: Of each incarnation; the last one is active.
        items: Every generation.
        facts: Every Event.
        receipts: Every stored delivery, in order of arrival.
        seen: The inputs that became Events.
    """

    next_ordinals: list[int] = field(default_factory=lambda: [1])
    items: list[Item] = field(default_factory=list)
    facts: dict[Place, Fact] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def copy(self) -> Shadow:
        """Return a model of its own."""
        return pickle.loads(pickle.dumps(self))

    def by_work_id(self, work_id: str) -> Item:
        return next(item for item in self.items if item.work_id == work_id)

    def live(self) -> Iterator[Item]:
        return (item for item in self.items if item.is_live)

    def in_state(self, *states: str) -> list[Item]:
        return [item for item in self.items if item.state in states]

    # Admission

    def admit(self) -> None:
        """Materialize every delivery that waits, in order of arrival."""
        pack = len(self.next_ordinals) - 1
        groups: dict[tuple[str, str | None], list[tuple[int, Input]]] = {}
        for receipt in self.receipts:
            if receipt.is_materialized:
                continue
            receipt.is_materialized = True
            for found in receipt.inputs:
                if (found.kind, found.item) in self.seen:
                    continue
                self.seen.add((found.kind, found.item))
                ordinal = self._take_ordinal()
                self.facts[pack, ordinal] = Fact(found.kind, found.lane)
                if KINDS[found.kind].is_projection:
                    groups.setdefault((found.kind, found.lane), []).append((ordinal, found))
                else:
                    self._add(found.kind, found.lane, found.target, ordinal, ordinal)
        for (kind, lane), members in groups.items():
            self._cover(kind, lane, members[0][1].target, [ordinal for ordinal, _ in members])

    def _take_ordinal(self) -> int:
        self.next_ordinals[-1] += 1
        return self.next_ordinals[-1] - 1

    def _add(
        self, kind: str, lane: str | None, target: str, start: int, end: int, *, parent: Place | None = None
    ) -> Item:
        pack = len(self.next_ordinals) - 1
        key = (pack, kind, lane)
        is_active = KINDS[kind].is_projection and not any(item.key == key for item in self.live())
        item = Item(pack, kind, lane, target, start, end, KINDS[kind].attempts, is_active, parent)
        self.items.append(item)
        return item

    def _cover(self, kind: str, lane: str | None, target: str, ordinals: list[int]) -> None:
        """Only a generation that was never claimed grows; otherwise the inputs wait in one behind it.

        One that others were queued behind, be they over, does not grow either: it would run over their intervals.
        """
        pack, last = len(self.next_ordinals) - 1, ordinals[-1]
        newest = max((item for item in self.items if item.key == (pack, kind, lane)), key=lambda i: i.end, default=None)
        for ordinal in ordinals[:-1]:
            self.facts[pack, ordinal].status = "skipped"
        if newest is not None and newest.state == "pending" and newest.attempt == 0:
            self.facts[newest.place].status = "skipped"
            newest.end = last
        else:
            self._add(kind, lane, target, ordinals[0], last)

    def rotate(self) -> None:
        """Make a new, empty incarnation the active one."""
        self.next_ordinals.append(1)

    # Claims

    def is_head(self, item: Item) -> bool:
        """Whether nothing that is earlier in the source lane is still to run, and no dead item stops it."""
        if item.lane is None:
            return True
        for other in self.items:
            if other.lane != item.lane or (other.pack, other.start) >= (item.pack, item.start):
                continue
            if other.is_live or (other.state == "dead" and KINDS[other.kind].stops and not other.is_replayed):
                return False
        return True

    def is_target_free(self, item: Item) -> bool:
        return not any(other.target == item.target for other in self.in_state("processing"))

    def is_met(self, item: Item) -> bool:
        """Whether what an item waits for has ended well."""
        wanted = item.waits_for
        return wanted is None or any(
            other.kind == wanted and other.lane == item.target for other in self.in_state("succeeded", "skipped")
        )

    def may_be_claimed(self, item: Item) -> bool:
        """Whether a worker may claim an item, if what it waits for is met."""
        is_open = item.state == "retry" or (item.state == "pending" and (item.is_active or not item.is_projection))
        return is_open and item.is_due and self.is_head(item) and self.is_target_free(item)

    def claimable(self) -> list[Item]:
        """Return what a worker that looks finds."""
        return [i for i in self.items if self.may_be_claimed(i) and (i.state == "retry" or self.is_met(i))]

    def claim(self, item: Item) -> None:
        if item.state == "retry":
            item.closed.append(item.last)
        item.state, item.is_expired = "processing", False
        item.attempt += 1
        self.facts[item.place].owner = "work_item"

    # Ends

    def retry(self, item: Item, how: str, *, is_due: bool = True) -> None:
        item.state, item.is_due, item.last = "retry", is_due, how
        if how == "released":
            item.max_attempts += 1
        else:
            item.failures += 1

    def end(self, item: Item, state: str, *, is_failure: bool = False) -> None:
        """End a generation; what waits behind it gets its key."""
        item.state, item.is_active = state, False
        item.failures += is_failure
        if not item.is_projection:
            return
        newest = max((other for other in self.items if other.key == item.key), key=lambda other: other.end)
        if newest.state in {"pending", "blocked"} and newest.attempt == 0:
            newest.is_active = True

    def cancel(self, item: Item) -> str:
        """Cancel at once what waits, ask what runs; return what was done."""
        if item.state == "processing":
            item.is_cancel_requested = True
            return "requested"
        if item.attempt == 0:
            self.facts[item.place].status = "skipped"
        item.is_cancel_requested = True
        self.end(item, "cancelled")
        return "cancelled"

    def reap(self) -> list[tuple[str, Item]]:
        """Take back what expired; return the moves."""
        moves = []
        for item in self.in_state("processing"):
            if not item.is_expired:
                continue
            item.is_expired = False
            if item.is_last_attempt:
                moves.append(("reap_exhausted", item))
                self.end(item, "dead", is_failure=True)
            else:
                moves.append(("reap", item))
                self.retry(item, "lost")
        return moves

    def resolve(self) -> list[Item]:
        """Give back what waits for nothing any more."""
        free = [item for item in self.in_state("blocked") if self.is_met(item)]
        for item in free:
            item.state = "pending"
        return free

    # Replays

    def why_not_replayed(self, item: Item) -> str | None:
        """Return the code with which a replay is refused."""
        if item.state != "dead":
            return "not_dead"
        if item.is_replayed:
            return "already_replayed"
        if item.is_projection and any(o.kind == item.kind and o.lane == item.lane for o in self.live()):
            return "active_generation_in_scope"
        return None

    def replay(self, item: Item) -> None:
        ordinal = self._take_ordinal()
        item.is_replayed = True
        self.facts[len(self.next_ordinals) - 1, ordinal] = Fact(item.kind, item.lane, replay_of=item.place)
        self._add(item.kind, item.lane, item.target, ordinal, ordinal, parent=item.place)


def pick(items: Iterable[Item], number: int) -> Item:
    """Return one of several by a number that hypothesis drew."""
    found = list(items)
    return found[number % len(found)]
