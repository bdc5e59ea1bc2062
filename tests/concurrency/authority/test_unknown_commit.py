"""A COMMIT whose answer is lost: what was stored is found again, what was not is done again, never twice."""

from __future__ import annotations

import threading

import pytest
from django.db import OperationalError, connections

from integration.authority import service
from integration.authority.values import Refused, Replayed
from tests.support.authority import BORIS, MARIA, World, audit_entries, rows_of

pytestmark = pytest.mark.django_db(transaction=True)
ITEMS = "_System_ConnectorWorkItem"
LOST = OperationalError(2013, "Lost connection to server during query")


def lose_the_first_answer(monkeypatch: pytest.MonkeyPatch, *, is_stored: bool, meanwhile=None) -> list[bool]:
    """Let the first COMMIT reach the server or not, and lose its answer either way."""
    wrapper = connections["default"]
    real = type(wrapper)._commit
    lost: list[bool] = []

    def commit(self):
        if lost:
            return real(self)
        lost.append(True)
        if is_stored:
            real(self)
        else:
            self.connection.rollback()
        if meanwhile is not None:
            monkeypatch.setattr(type(wrapper), "_commit", real)
            self.close()
            meanwhile()
        raise LOST

    monkeypatch.setattr(type(wrapper), "_commit", commit)
    return lost


@pytest.mark.parametrize("is_stored", [True, False])
def test_replay__settles_a_commit_whose_answer_was_lost(monkeypatch: pytest.MonkeyPatch, is_stored: bool):
    world = World()
    ref = world.work()
    lost = lose_the_first_answer(monkeypatch, is_stored=is_stored)
    done = service.replay(ref, actor=MARIA, reason="x")
    assert lost == [True]
    assert isinstance(done, Replayed)
    (child,) = rows_of(ITEMS, "ReplayOfWorkId = %s", ref.id)
    assert (child["WorkId"], child["EventId"]) == (done.child_work_id, done.child_event_id)
    (original,) = rows_of(ITEMS, "WorkId = %s", ref.id)
    assert original["ReplayedAt"] == done.replayed_at.replace(tzinfo=None)
    assert (child["LaneOrdinal"], done.lane_ordinal) == (1000, 1000)
    assert [entry["outcome"] for entry in audit_entries()] == ["done"]


def test_replay__that_was_not_stored_and_was_overtaken_then_has_lost(monkeypatch: pytest.MonkeyPatch):
    world = World()
    ref = world.work()
    others: list[object] = []

    def act() -> None:
        others.append(service.replay(ref, actor=BORIS, reason="y"))
        connections.close_all()

    def overtake() -> None:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join(60)

    lose_the_first_answer(monkeypatch, is_stored=False, meanwhile=overtake)
    answer = service.replay(ref, actor=MARIA, reason="x")
    assert isinstance(others[0], Replayed)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.winner.actor_name) == ("lost_race", "boris")
    assert len(rows_of(ITEMS)) == 2
