"""Answers that are kept: one claim on a key, the first answer again, and an end after a day."""

from __future__ import annotations

import pytest

from integration.callers import kept
from integration.callers.policy import KeyReused, RequestUnderWay
from integration.values import digest_text
from tests.support.authority import change, rows_of

pytestmark = pytest.mark.django_db

KEY, REQUEST, OTHER = digest_text("key"), digest_text("request"), digest_text("another request")
ANSWER = kept.Answer(status=201, body='{"child": "x"}')


def begun() -> kept.Claim:
    claim = kept.begin(KEY, REQUEST)
    assert isinstance(claim, kept.Claim)
    return claim


def test_begin__a_second_one_waits_for_the_first() -> None:
    begun()
    with pytest.raises(RequestUnderWay):
        kept.begin(KEY, REQUEST)


def test_begin__after_the_answer_gives_it_again() -> None:
    kept.keep(begun(), ANSWER)
    assert [ANSWER, ANSWER] == [kept.begin(KEY, REQUEST) for _ in range(2)]


def test_begin__of_another_request_is_refused_whatever_the_first_came_to() -> None:
    claim = begun()
    with pytest.raises(KeyReused):
        kept.begin(KEY, OTHER)
    kept.keep(claim, ANSWER)
    with pytest.raises(KeyReused):
        kept.begin(KEY, OTHER)


def test_let_go__frees_the_key() -> None:
    kept.let_go(begun())
    assert isinstance(kept.begin(KEY, OTHER), kept.Claim)


def test_begin__takes_over_what_a_killed_process_left() -> None:
    first = begun()
    change("UPDATE console_keptanswer SET under_way_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
    second = begun()
    assert first.claim != second.claim
    # The first one was not dead after all: it changes nothing any more.
    kept.let_go(first)
    kept.keep(first, kept.Answer(status=200, body="late"))
    kept.keep(second, ANSWER)
    assert ANSWER == kept.begin(KEY, REQUEST)
    kept.let_go(second)
    assert ANSWER == kept.begin(KEY, REQUEST)


def test_begin__sweeps_what_is_older_than_a_day() -> None:
    kept.keep(begun(), ANSWER)
    change("UPDATE console_keptanswer SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
    assert isinstance(kept.begin(KEY, OTHER), kept.Claim)
    assert [OTHER] == [row["request_digest"] for row in rows_of("console_keptanswer")]
