"""The waits of a claimer that finds nothing."""

from __future__ import annotations

import pytest

from integration.work.pauses import Pauses


@pytest.mark.parametrize("longest", [0.001, 0.05, 0.5])
def test_pauses__grow_from_when_work_was_found_and_never_pass_the_longest(longest):
    pauses = Pauses(longest)
    assert pauses.next() == longest, "an idle worker has nothing to hurry for"
    pauses.begin_anew()
    waits = [pauses.next() for _ in range(20)]
    assert waits == sorted(waits)
    assert 0 < waits[0] <= waits[-1] == longest


def test_pauses__are_short_soon_after_work():
    pauses = Pauses(0.05)
    pauses.begin_anew()
    assert sum(pauses.next() for _ in range(3)) < 0.02
