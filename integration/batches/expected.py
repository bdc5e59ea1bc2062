"""What a bulk replay would come to now: the plan of a bounded sample of its rows, without locks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from integration.authority import service as authority
from integration.authority.values import Refused, Target
from integration.batches.selection import Selected, Selection
from integration.values import Actor

#: Rows whose plans are read, at most: each is some point reads, and a page waits for them.
SAMPLE_ROWS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRefusal:
    """A code with which rows of the sample would be refused, its words for one of them, and how many they are."""

    code: str
    sentence: str
    next_step: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where rows of the sample would go.

    Attributes:
        namespace: Their namespace; None of a row that is not there.
        event_kind: Their event kind; None of a row that is not there.
        target: The active incarnation and its live route, as far as there are any.
        died_under: The (incarnation, route version) pairs under which they died.
        count: How many they are.
    """

    namespace: str | None
    event_kind: str | None
    target: Target
    died_under: tuple[tuple[int | None, int | None], ...]
    count: int

    @property
    def is_changed(self) -> bool:
        """Whether any of them died under another incarnation or route version than it would go to."""
        now = (self.target.incarnation, self.target.route_version)
        return any(then != now for then in self.died_under)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the sample would come to.

    Attributes:
        sampled: Rows whose plans were read.
        total: Rows of the selection.
        passing: Rows of the sample that would be replayed.
        refusals: Those that would not, the most frequent code first.
        destinations: Where the sample would go, the most rows first.
    """

    sampled: int
    total: int
    passing: int
    refusals: tuple[ExpectedRefusal, ...]
    destinations: tuple[Destination, ...]


def expect(
    selection: Selection, actor: Actor, *, sample_rows: int = SAMPLE_ROWS, using: str = "default"
) -> Expectation:
    """Plan a sample of a selection, spread evenly over its order.

    Args:
        selection: The rows.
        actor: Whose replay it would be.
        sample_rows: Rows at most.
        using: The database alias.

    Returns:
        What each of them would come to by itself; rows of one source may still be in each other's way.

    Locks: none.
    """
    sample = _spread(selection.items, sample_rows)
    codes: Counter[str] = Counter()
    words: dict[str, Refused] = {}
    going: dict[tuple[str | None, str | None, Target], list[Selected]] = defaultdict(list)
    for item in sample:
        plan = authority.plan(item.ref, actor, using=using)
        if plan.refusal is not None:
            codes[plan.refusal.code] += 1
            words.setdefault(plan.refusal.code, plan.refusal)
        if plan.target is not None:
            going[item.namespace, item.event_kind, plan.target].append(item)
    destinations = [
        Destination(
            namespace=namespace,
            event_kind=event_kind,
            target=target,
            died_under=tuple(dict.fromkeys((item.incarnation, item.route_version) for item in items)),
            count=len(items),
        )
        for (namespace, event_kind, target), items in going.items()
    ]
    return Expectation(
        sampled=len(sample),
        total=len(selection.items),
        passing=len(sample) - codes.total(),
        refusals=tuple(
            ExpectedRefusal(code=code, sentence=words[code].sentence, next_step=words[code].next_step, count=count)
            for code, count in codes.most_common()
        ),
        destinations=tuple(sorted(destinations, key=lambda one: -one.count)),
    )


def _spread(items: tuple[Selected, ...], most: int) -> tuple[Selected, ...]:
    if len(items) <= most:
        return items
    return tuple(items[place * len(items) // most] for place in range(most))
