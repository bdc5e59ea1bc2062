"""`manage.py dlq` as processes of their own: the exit code a shell sees, and two operators who race."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Group

from console.models import User
from tests.support.authority import World, rows_of
from tests.support.processes import Command, free_port, manage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]


def replayer(name: str) -> None:
    User.objects.create_user(name).groups.set(Group.objects.filter(name="Replayer"))


def replay(name: str, ref: object, database_url: str) -> Command:
    return manage(["dlq", "replay", "--as", name, "--reason", "It works now", "--json", str(ref)], database_url)


def ended(command: Command) -> tuple[int, dict[str, Any]]:
    code = command.wait()
    return code, json.loads(command.output.splitlines()[-1])


def test_command__ends_with_the_code_that_a_shell_sees(database_url: str):
    replayer("rolf")
    world = World()
    good, ended_well = world.work(), world.work("succeeded")
    away = f"mysql://nobody:canary-password@127.0.0.1:{free_port()}/canary-database"
    started = {
        0: replay("rolf", good, database_url),
        1: replay("rolf", good, away),
        2: replay("rolf", "nonsense", database_url),
        3: replay("rolf", ended_well, database_url),
        4: replay("rolf", uuid.uuid4(), database_url),
        5: replay("nobody", good, database_url),
    }
    found = {expected: ended(command) for expected, command in started.items()}
    assert {expected: code for expected, (code, _) in found.items()} == {code: code for code in range(6)}
    names = {code: document.get("code") or document.get("error") for code, (_, document) in found.items() if code}
    assert names == {
        1: "database_unavailable",
        2: "invalid_input",
        3: "not_dead",
        4: "not_found",
        5: "permission_denied",
    }
    assert "canary" not in "".join(command.output for command in started.values())
    assert len(rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", good.id)) == 1


@pytest.mark.evidence("A-23")
def test_command__of_several_operators_at_once_has_one_winner_that_the_others_are_told(database_url: str):
    names = [f"operator-{number}" for number in range(4)]
    for name in names:
        replayer(name)
    ref = World().work()
    started = [replay(name, ref, database_url) for name in names]
    found = [ended(command) for command in started]
    (child,) = rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref.id)
    assert sorted(code for code, _ in found) == [0, 3, 3, 3]
    winner = names[[code for code, _ in found].index(0)]
    for code, document in found:
        if code == 0:
            assert (document["outcome"], document["child_work_id"]) == ("replayed", child["WorkId"])
        else:
            assert document["code"] in {"already_replayed", "lost_race"}
            assert (document["winner"]["actor_name"], document["winner"]["child_work_id"]) == (winner, child["WorkId"])
