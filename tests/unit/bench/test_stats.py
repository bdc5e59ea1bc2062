"""The arithmetic that every benchmark's ratio stands on."""

from __future__ import annotations

import hashlib
import hmac
import time

import pytest

from bench import webhooks
from bench.harness import SECRET
from bench.pacing import pace
from bench.report import Report
from bench.stats import median, paired_ratio, percentile, slope
from tests.support.walking import Walk


def test_median_of_an_even_count_is_the_middle_of_the_two() -> None:
    assert median([4, 1, 3, 2]) == 2.5


@pytest.mark.parametrize(("share", "expected"), [(0, 1), (0.5, 50), (0.99, 99), (1, 100)])
def test_percentile_is_a_value_that_occurred(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.01), ([1.0], -0.1)])
def test_percentile_refuses_what_has_no_answer(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="a percentile needs"):
        percentile(values, share)


def test_ratio_is_taken_within_each_round() -> None:
    # The machine was three times slower in the second round: the sides still compare as 2 to 1.
    ratio = paired_ratio([200, 66, 210], [100, 33, 100])
    assert (ratio.median, ratio.low, ratio.high, ratio.rounds) == (2.0, 2.0, 2.1, 3)


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_ratio_refuses_rounds_that_do_not_pair(ours: list[float], theirs: list[float]) -> None:
    with pytest.raises(ValueError, match=r"rounds of one side|no measure"):
        paired_ratio(ours, theirs)


def test_a_report_compares_the_series_of_the_same_rounds() -> None:
    report = Report(bench="b0", engine="mariadb", quick=True)
    for ours, theirs in ((10, 5), (30, 10), (8, 4)):
        report.add("ours", ours)
        report.add("theirs", theirs)
    assert report.compare("ours / theirs", "ours", "theirs").median == 2.0


def test_the_webhooks_are_as_large_as_said_and_correctly_signed() -> None:
    content = webhooks.body(17)
    assert len(content) == webhooks.BODY_BYTES
    assert webhooks.sign(content) == hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()


def test_slope_is_the_rise_of_the_line_through_the_points() -> None:
    assert slope([(0, 5), (1, 7), (2, 9)]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="two different points"):
        slope([(3, 1), (3, 2)])


def test_a_paced_enqueuer_is_not_delayed_for_ever_by_one_that_was_late() -> None:
    begun = time.monotonic()
    called: list[float] = []

    def enqueue(_at: float) -> None:
        called.append(time.monotonic())
        if len(called) == 1:
            # Later than the next four are due.
            while time.monotonic() < begun + 0.05:
                pass

    pace(10, 0.01, enqueue)
    assert len(called) == 10
    # The last one came no earlier than planned.
    assert called[-1] - begun >= 0.09


def test_the_walk_gives_each_source_its_inputs_in_order() -> None:
    walk = Walk(sources=10, laps=2, width=3)
    given: dict[int, list[int]] = {}
    for inputs in walk.steps():
        assert len({source for source, _ in inputs}) == walk.width
        for source, number in inputs:
            given.setdefault(source, []).append(number)
    assert given == {source: [1, 2, 3, 4, 5, 6] for source in range(1, 11)}
    assert walk.count == 60
