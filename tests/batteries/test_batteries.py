"""Each battery in its shortest form, and with its guard taken away: then it must break, and say what broke."""

from __future__ import annotations

import json

import pytest

from batteries.__main__ import BROKEN, OWN_SERVER
from batteries.figures import RESULTS
from tests.support.processes import start_python

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
HOLDS = 0
#: Battery -> what its mutant must break, among other things.
MUTANTS = {
    "r1": "nothing was lost",
    "r1-replay": "right after the kill a replay is stored whole or not at all",
    "r2": "each row has one winner",
    "r3": "no stale write was accepted",
    "r4": "what was answered with 200 is stored",
    "r4-replay": "every caller was told of the child that its request made",
    "r5": "every 200 is stored",
    "r6": "every history is linearizable",
    "r6-replay": "every history is linearizable",
    "r10": "an error that is raised once reaches no caller",
}


def last_line(name: str, *, mutant: bool, engine: str) -> dict[str, object]:
    """Return the newest stored figures of a battery's shortest form on this database."""
    lines = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    found = [line for line in lines if (line["mutant"], line["engine"], line["form"]) == (mutant, engine, "shortest")]
    return found[-1]


def attack(name: str, request: pytest.FixtureRequest, engine: str, *arguments: str) -> tuple[int, str]:
    """Run a battery on this worker's database, or on the server that it starts for itself."""
    url = request.getfixturevalue("database_url")
    where = ["--engine", engine] if name in OWN_SERVER else ["--database-url", url]
    started = start_python(["-m", "batteries", name, "--form", "shortest", *where, *arguments], url)
    return started.wait(380), started.output


@pytest.mark.parametrize("name", MUTANTS)
def test_battery__holds(name: str, request: pytest.FixtureRequest, engine: str):
    code, output = attack(name, request, engine)
    assert code == HOLDS, output
    line = last_line(name, mutant=False, engine=engine)
    assert line["goals"]
    assert line["holds"] is True


@pytest.mark.parametrize("name", MUTANTS)
def test_battery__breaks_without_its_guard(name: str, request: pytest.FixtureRequest, engine: str):
    code, output = attack(name, request, engine, "--mutant")
    assert code == BROKEN, output
    assert f"BROKEN  {MUTANTS[name]}" in output
    assert last_line(name, mutant=True, engine=engine)["holds"] is False
