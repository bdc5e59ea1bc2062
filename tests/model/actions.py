"""What a step may do, and what is drawn for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tests.model.pack import KINDS, Input
from tests.model.shadow import TERMINAL

NUMBER = st.integers(0, 2**12)
#: What waits or runs first: an example shrinks towards it.
ORDER = ["pending", "retry", "blocked", "processing", *sorted(TERMINAL)]
#: Most steps go well: what goes wrong ends what a step could show.
TROUBLE = st.sampled_from(["none"] * 5 + ["point", "statement", "answer"])
_LIKELY: Final = ("deal.created", "quote.sent", *KINDS)
MOST_INPUT: Final = len(_LIKELY) * 3 * 16 * 60 - 1


def input_of(number: int) -> Input:
    """Return one of all inputs; sixteen items a kind, so that many are repeated."""
    number, kind = divmod(number, len(_LIKELY))
    number, deal = divmod(number, 3)
    minute, item = divmod(number, 16)
    return Input(_LIKELY[kind], deal + 1, str(item), minute)


INPUT = st.integers(0, MOST_INPUT).map(input_of)
HOW = st.sampled_from(["complete", "complete", "skip", "retry", "retry", "bury", "release", "acknowledge_cancel"])

Method = Callable[..., None]
#: What every step draws, whatever it does: what is drawn must not depend on what the database did before.
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "choice": st.integers(0, 2**16 - 1),
    "number": NUMBER,
    "trouble": TROUBLE,
    "flag": st.booleans(),
    "worker": st.integers(0, 1),
    "limit": st.sampled_from([1, 2, 8]),
    "how": HOW,
    "state": st.sampled_from(ORDER),
    "wrong": st.sampled_from(["token", "epoch", "next epoch"]),
    "deliveries": st.lists(st.lists(INPUT, min_size=1, max_size=3), min_size=1, max_size=3),
}


@dataclass(frozen=True, slots=True)
class Action:
    """What a step may do.

    Attributes:
        name: The method.
        weight: How often it is chosen beside the others.
        when: Whether the machine can do it now.
        arguments: Which of the drawn values it takes.
    """

    name: str
    weight: int
    when: Callable[[Any], object]
    arguments: tuple[str, ...]


ACTIONS: Final[list[Action]] = []


def action(weight: int, *, when: Callable[[Any], object] = lambda _: True) -> Callable[[Method], Method]:
    """Make a method an action.

    Hypothesis would turn whole rules off in half of its examples, which leaves most of them with nothing admitted
    or nothing claimed; here every step chooses from all that is possible.
    """

    def note_it(method: Method) -> Method:
        arguments = tuple(name for name in inspect.signature(method).parameters if name != "self")
        ACTIONS.append(Action(method.__name__, weight, when, arguments))
        return method

    return note_it
