"""A connection that ends at any step of a replay: none of it is stored, and asked again it makes one child."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connections

from batteries import hook
from batteries.replayed import KINDS, Kind, Original
from integration import errors
from integration.authority import service
from integration.authority.values import Refused, Replayed
from integration.storage import db
from integration.storage.schema import Vintage
from tests.support import cleaning
from tests.support.authority import MARIA, audit_entries

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
#: What is locked and written at each step of the contract; a replay without a WorkItem has fewer.
FEWEST_STEPS = 8
Step = Callable[[str], None]


@contextmanager
def stepped(before: Step, after: Step) -> Iterator[None]:
    """Call something before and after each statement of a transaction."""

    def send(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not context["connection"].in_atomic_block:
            return execute(sql, params, many, context)
        before(sql)
        found = execute(sql, params, many, context)
        after(sql)
        return found

    with connections["default"].execute_wrapper(send):
        yield


class Cut:
    """Ends the connection before or after a transaction's statement of a number."""

    def __init__(self, number: int, *, is_after: bool) -> None:
        self._left = number
        self._is_after = is_after

    def before(self, sql: str) -> None:
        """End it, so that the server never hears of the statement."""
        if not self._is_after and self._left == 0:
            # The driver itself then says that it is gone.
            connections["default"].connection.close()

    def after(self, sql: str) -> None:
        """End it, so that the answer is lost."""
        self._left -= 1
        if self._is_after and self._left == -1:
            connections["default"].connection.close()
            raise OperationalError(2013, "Lost connection to server during query")


def ask(original: Original) -> Replayed | Refused:
    return service.replay(original.ref, actor=MARIA, reason="cut")


def steps_of(kind: Kind) -> int:
    """Count the statements of a replay's transaction."""
    sent: list[str] = []
    with stepped(sent.append, lambda sql: None):
        assert isinstance(ask(Original.make(kind)), Replayed)
    cleaning.empty_database()
    return len(sent)


current = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.vintage is Vintage.CURRENT], ids=lambda kind: kind.name
)


@current
def test_replay__cut_at_any_step_leaves_nothing_and_is_made_when_asked_again(
    monkeypatch: pytest.MonkeyPatch, kind: Kind
):
    count = steps_of(kind)
    assert count >= FEWEST_STEPS
    # One row for all: whatever a cut leaves of it is found at once.
    original = Original.make(kind)
    # The door would begin anew by itself.
    monkeypatch.setattr(db, "MAX_TRIES", 1)
    for number in range(count):
        for is_after in (False, True):
            cut = Cut(number, is_after=is_after)
            with stepped(cut.before, cut.after), pytest.raises(errors.DatabaseUnavailable):
                ask(original)
        assert original.faults() == (False, []), f"step {number}"
    assert audit_entries() == []
    assert isinstance(ask(original), Replayed)
    assert original.faults() == (True, [])


def test_replay__cut_at_its_first_or_last_step_begins_anew_by_itself_and_makes_one_child():
    kind = KINDS[0]
    for number in (0, steps_of(kind) - 1):
        original, cut = Original.make(kind), Cut(number, is_after=True)
        with stepped(cut.before, cut.after):
            assert isinstance(ask(original), Replayed)
        assert original.faults() == (True, []), f"step {number}"
        cleaning.empty_database()


def test_replay__of_which_each_write_is_durable_at_once_is_found_half_done(monkeypatch: pytest.MonkeyPatch):
    """The negative control."""
    kind = KINDS[0]
    torn = 0
    for number in range(steps_of(kind)):
        original, cut = Original.make(kind), Cut(number, is_after=False)

        def store(sql: str, cut: Cut = cut) -> None:
            if hook.is_write(sql):
                connections["default"].connection.commit()
            cut.after(sql)

        with monkeypatch.context() as once, stepped(cut.before, store):
            once.setattr(db, "MAX_TRIES", 1)
            with pytest.raises(errors.DatabaseUnavailable):
                ask(original)
        torn += original.faults() not in ((False, []), (True, []))
        cleaning.empty_database()
    assert torn > 0
