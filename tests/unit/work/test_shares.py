"""Whose a candidate is, when several processes claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from integration.work.items import Candidate
from integration.work.shares import ADOPTED_SECONDS, LEFT_SECONDS, SPARE_SECONDS, Shares, slot_of


@dataclass(frozen=True)
class Item:
    work_id: str

    @property
    def slot_key(self) -> str:
        return self.work_id


ITEMS = [cast(Candidate, Item(f"work-{number}")) for number in range(60)]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def claimer(clock: Clock, place: int, places: int) -> Shares:
    shares = Shares(clock=clock)
    shares.place(place, places)
    return shares


def of_slot(slot: int, places: int) -> list[Candidate]:
    return [one for one in ITEMS if slot_of(one, places) == slot]


@given(st.integers(1, 12))
def test_slots__of_all_claimers_are_every_slot_once(places):
    found = [claimer(Clock(), place, places).slots for place in range(places)]
    assert sorted(slot for slots in found for slot in slots.own) == list(range(places))
    assert {slots.count for slots in found} == {places}


def test_left_by_others__is_nobodys_at_first_then_the_next_ones_then_the_one_after():
    clock = Clock()
    one, two = claimer(clock, 1, 3), claimer(clock, 2, 3)
    theirs = of_slot(0, 3)
    assert one.left_by_others(ITEMS, has_own=False) == []
    assert two.left_by_others(ITEMS, has_own=False) == []
    assert one.has_pending

    clock.now += 1.01 * SPARE_SECONDS
    assert one.left_by_others(ITEMS, has_own=False) == theirs
    assert not set(two.left_by_others(ITEMS, has_own=False)) & set(theirs)
    clock.now += SPARE_SECONDS
    assert set(theirs) <= set(two.left_by_others(ITEMS, has_own=False))


def test_left_by_others__counts_from_when_an_item_was_met_without_a_gap():
    clock = Clock()
    shares = claimer(clock, 1, 2)
    theirs = of_slot(0, 2)
    shares.left_by_others(theirs[:1], has_own=False)
    clock.now += 2 * SPARE_SECONDS
    shares.left_by_others([], has_own=False)
    assert not shares.has_pending
    assert shares.left_by_others(theirs[:1], has_own=False) == []


def test_left_by_others__leaves_them_alone_while_there_is_work_of_ones_own_and_takes_over_what_nobody_serves():
    clock = Clock()
    shares = claimer(clock, 1, 2)
    assert shares.left_by_others(ITEMS, has_own=True) == []
    clock.now += 0.9 * LEFT_SECONDS
    assert not shares.is_due(has_own=True)
    assert shares.left_by_others(ITEMS, has_own=True) == []
    assert shares.slots.own == (1,)
    clock.now += 0.2 * LEFT_SECONDS
    assert shares.left_by_others(ITEMS, has_own=True) == []
    assert shares.slots.own == (1, 0)
    clock.now += 1.01 * ADOPTED_SECONDS
    assert shares.slots.own == (1,), "whoever came back has it again"


def test_place__that_is_new_forgets_what_the_old_one_saw():
    clock = Clock()
    shares = claimer(clock, 1, 2)
    shares.left_by_others(ITEMS, has_own=False)
    shares.place(2, 3)
    clock.now += 10 * SPARE_SECONDS
    assert shares.left_by_others(ITEMS, has_own=False) == []
    assert shares.slots.own == (2,)


def test_is_due__never_for_one_that_is_alone():
    assert not claimer(Clock(), 0, 1).is_due(has_own=False)
