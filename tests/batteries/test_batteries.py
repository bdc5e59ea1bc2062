"""Each battery in its shortest form, and with its guard taken away: then it must break, and say what broke."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batteries.__main__ import BROKEN, OWN_SERVER
from tests.support.processes import start_python

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]
HOLDS = 0
#: Battery -> what its mutant must break, among other things.
MUTANTS = {
    "r1": "nothing was lost",
    "r1-replay": "right after the kill a replay is stored whole or not at all",
    "r1-cutover": "right after the kill a step is stored whole or not at all",
    "r2": "each row has one winner",
    "r3": "no stale write was accepted",
    "r4": "what was answered with 200 is stored",
    "r4-replay": "every caller was told of the child that its request made",
    "r4-cutover": "whoever wrote a receipt was told so, and of that one",
    "r5": "every 200 is stored",
    "r6": "every history is linearizable",
    "r6-replay": "every history is linearizable",
    "r10": "an error that is raised once reaches no caller",
}


def attack(
    name: str, request: pytest.FixtureRequest, engine: str, folder: Path, *arguments: str
) -> tuple[int, str, dict[str, object]]:
    """Run a battery on this worker's database, or on the server that it starts for itself.

    Returns:
        Its exit code, what it said, and the figures that it stored.
    """
    url = request.getfixturevalue("database_url")
    where = ["--engine", engine] if name in OWN_SERVER else ["--database-url", url]
    started = start_python(
        ["-m", "batteries", name, "--form", "shortest", *where, *arguments], url, LOCKHOUSE_BATTERY_RESULTS=str(folder)
    )
    code = started.wait(1500)
    stored = folder / f"{name}.jsonl"
    assert stored.exists(), started.output
    (line,) = map(json.loads, stored.read_text().splitlines())
    assert (line["engine"], line["form"]) == (engine, "shortest")
    return code, started.output, line


@pytest.mark.parametrize("name", MUTANTS)
def test_battery__holds(name: str, request: pytest.FixtureRequest, engine: str, tmp_path: Path):
    code, output, line = attack(name, request, engine, tmp_path)
    assert code == HOLDS, output
    assert line["goals"]
    assert (line["mutant"], line["holds"]) == (False, True)


@pytest.mark.parametrize("name", MUTANTS)
def test_battery__breaks_without_its_guard(name: str, request: pytest.FixtureRequest, engine: str, tmp_path: Path):
    code, output, line = attack(name, request, engine, tmp_path, "--mutant")
    assert code == BROKEN, output
    assert f"BROKEN  {MUTANTS[name]}" in output
    assert (line["mutant"], line["holds"]) == (True, False)
