"""One key, one effect and one answer; one token, one pace: whichever process is asked, and all of them at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.models import AuditEntry, User
from console.permissions import REPLAY, VIEW
from integration.callers import tokens
from integration.values import Actor
from tests.support.authority import rows_of
from tests.support.batches import replayer
from tests.support.processes import race
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)
RACERS = "tests.concurrency.callers.racers"


def secret_of(actor: Actor) -> str:
    return tokens.issue(actor=actor, name="race", scopes=[VIEW, REPLAY], days=1).secret


def send(database_url: str, ref: str, reasons: list[str], **over: Any) -> list[dict[str, Any]]:
    secret = secret_of(replayer())
    calls = [{"secret": secret, "ref": ref, "key": "k", "reason": reason, **over} for reason in reasons]
    return race(f"{RACERS}:replay", calls, database_url)


def test_once__one_request_sent_by_three_processes_is_done_once_and_answered_alike(
    database_url: str,
) -> None:
    ref = Installation().work()
    answers = send(database_url, ref, ["Stage names are fixed"] * 3)
    done = [answer["body"] for answer in answers if answer["status"] == 201]
    waiting = [answer["body"]["code"] for answer in answers if answer["status"] != 201]
    assert done
    assert {"request_under_way"} >= set(waiting)
    assert all(answer == done[0] for answer in done)
    (child,) = rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref)
    assert done[0]["child_work_id"] == child["WorkId"]
    (entry,) = AuditEntry.objects.filter(action="work_item.replayed")
    assert ("done", "api") == (entry.outcome, entry.via)
    (row,) = rows_of("console_keptanswer")
    assert (201, done[0]) == (row["status"], json.loads(row["body"]))


def test_once__two_requests_with_one_key_are_not_taken_for_one(database_url: str) -> None:
    ref = Installation().work()
    answers = send(database_url, ref, ["One reason", "Another reason"])
    assert [201, 422] == sorted(answer["status"] for answer in answers)
    assert {"idempotency_key_reused"} == {answer["body"]["code"] for answer in answers if answer["status"] == 422}
    (entry,) = AuditEntry.objects.filter(action="work_item.replayed")
    told = [
        reason
        for reason, answer in zip(("One reason", "Another reason"), answers, strict=True)
        if answer["status"] == 201
    ]
    assert [entry.reason] == told


def test_once__without_the_kept_answers_the_other_request_is_told_that_it_was_done(
    database_url: str,
) -> None:
    """The negative control: both are answered as done, and one of the two reasons stands nowhere."""
    ref = Installation().work()
    answers = send(database_url, ref, ["One reason", "Another reason"], kept_answers=False)
    assert [200, 201] == sorted(answer["status"] for answer in answers)
    assert 1 == AuditEntry.objects.filter(action="work_item.replayed").count()


@pytest.mark.parametrize(("counted", "expected"), [(True, 7), (False, 30)])
def test_pace__holds_over_all_processes(database_url: str, *, counted: bool, expected: int) -> None:
    user = User.objects.create_user("ana")
    secret = secret_of(Actor(user_id=user.pk, name="ana", permissions=frozenset({VIEW, REPLAY})))
    calls = [{"secret": secret, "times": 10, "at_once": 7, "counted": counted}] * 3
    assert expected == sum(race(f"{RACERS}:ask", calls, database_url))
