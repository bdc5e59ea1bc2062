"""Depth, rates and lane pressure say what the rows say, whoever changed them, and cost no more than their caps."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from integration.states import NONTERMINAL_STATES, TERMINAL_STATES
from integration.storage.sql import pressure as sql
from integration.storage.statements import Statement
from integration.work.families import FAMILIES
from integration.work.pressure import Caps, read_pressure
from tests.support.integration_work import admit_integration
from tests.support.processes import race
from tests.support.work import Pack, change, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-13")]

STATEMENTS = [
    getattr(port, member)
    for port in (sql.CONNECTOR, sql.INTEGRATION)
    for member in ("read_depth", "read_ended", "read_lanes")
]
ENDED = (sql.CONNECTOR.read_ended, sql.INTEGRATION.read_ended)
PARAMS = {"cap": 100, "short_seconds": 60, "long_seconds": 300}
INDEXES = {"IX_WorkItem_Claim", "IX_WorkItem_Dead", "IX_IntegrationWork_Claim", "IX_IntegrationWork_Dead"}


def end(table: str, work_ids: list[str], state: str, *, seconds_ago: int) -> None:
    change(
        f"UPDATE {table} SET State = %s, Attempt = 1, TerminalAt = UTC_TIMESTAMP(6) - INTERVAL %s SECOND"
        " WHERE WorkId IN %s",
        state,
        seconds_ago,
        tuple(work_ids),
    )


def counts(family: str = "connector") -> dict[str, Any]:
    """Return what is not 0 of a family's figures; the age of the oldest is left out."""
    found = read_pressure()[family]
    return {
        "depth": {str(state): count for state, count in found.depth.items() if count},
        "short": {str(state): count for state, count in found.ended_short.items() if count},
        "long": {str(state): count for state, count in found.ended_long.items() if count},
        "lanes": (found.in_lanes, found.behind_heads),
    }


def figures_of_this_process() -> dict[str, Any]:
    """Return every family's figures as JSON values, but for those that grow by the clock alone."""
    return {
        family: {name: value for name, value in asdict(found).items() if name != "oldest_due_seconds"}
        for family, found in read_pressure().items()
    }


def test_pressure__of_an_empty_installation_is_zero_in_every_state_of_every_family():
    found = read_pressure()
    assert list(found) == list(FAMILIES)
    for figures in found.values():
        assert set(figures.depth) == NONTERMINAL_STATES
        assert set(figures.ended_short) == set(figures.ended_long) == TERMINAL_STATES
        assert {*figures.depth.values(), *figures.ended_long.values(), figures.oldest_due_seconds} == {0}


def test_pressure__follows_rows_that_were_changed_behind_the_programs_back():
    work = "_System_ConnectorWorkItem"
    ids = Pack().admit(6, SourceLane="deal:1") + Pack(name="other").admit(3)
    assert counts() == {"depth": {"pending": 9}, "short": {}, "long": {}, "lanes": (6, 5)}

    end(work, ids[:2], "succeeded", seconds_ago=10)
    end(work, ids[2:3], "dead", seconds_ago=120)
    assert counts() == {
        "depth": {"pending": 6},
        "short": {"succeeded": 2},
        "long": {"succeeded": 2, "dead": 1},
        "lanes": (3, 2),
    }
    assert read_pressure()["connector"].ended_per_second["succeeded"] == 2 / 300

    change(f"UPDATE {work} SET SourceLane = NULL, State = 'retry' WHERE WorkId = %s", ids[3])
    change(f"UPDATE {work} SET TerminalAt = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE State = 'succeeded'")
    assert counts() == {"depth": {"pending": 5, "retry": 1}, "short": {}, "long": {"dead": 1}, "lanes": (2, 1)}

    change(f"DELETE FROM {work}")
    assert counts() == {"depth": {}, "short": {}, "long": {}, "lanes": (0, 0)}


def test_pressure__tells_the_families_of_one_table_apart():
    effects = admit_integration(4, SourceLane="order:1")
    admit_integration(2, family="token", State="retry")
    end("_System_IntegrationWorkItem", effects[:1], "skipped", seconds_ago=5)
    assert counts("effect") == {
        "depth": {"pending": 3},
        "short": {"skipped": 1},
        "long": {"skipped": 1},
        "lanes": (3, 2),
    }
    assert counts("token") == {"depth": {"retry": 2}, "short": {}, "long": {}, "lanes": (0, 0)}
    assert counts("connector")["depth"] == counts("reconcile")["depth"] == {}


def test_pressure__a_lane_of_another_incarnation_has_a_head_of_its_own():
    Pack().admit(2, SourceLane="deal:1")
    Pack(name="other").admit(3, SourceLane="deal:1")
    assert counts()["lanes"] == (5, 3)


def test_pressure__an_items_lane_is_held_by_whatever_has_not_ended():
    ids = Pack().admit(3, SourceLane="deal:1")
    change("UPDATE _System_ConnectorWorkItem SET State = 'blocked' WHERE WorkId = %s", ids[0])
    assert counts()["lanes"] == (3, 2)


def test_pressure__the_oldest_due_is_timed_by_the_databases_clock():
    ids = Pack().admit(2)
    set_due = "UPDATE _System_ConnectorWorkItem SET RunAfter = UTC_TIMESTAMP(6) + INTERVAL %s SECOND WHERE WorkId = %s"
    change(set_due, 600, ids[0])
    change(set_due, 600, ids[1])
    assert read_pressure()["connector"].oldest_due_seconds == 0
    change(set_due, -90, ids[1])
    assert 90 <= read_pressure()["connector"].oldest_due_seconds < 600


def test_pressure__stops_at_its_caps_and_says_so_and_the_rate_still_holds():
    ids = Pack().admit(20, SourceLane="deal:1")
    end("_System_ConnectorWorkItem", ids[:10], "succeeded", seconds_ago=200)
    found = read_pressure(Caps(covered=5, looked_up=4))["connector"]
    assert (found.depth["pending"], found.ended_long["succeeded"], found.in_lanes, found.behind_heads) == (5, 5, 4, 3)
    assert found.capped == {"depth": True, "ended": True, "lanes": True}
    # Five ends in the 200 seconds that they took, not in the 300 that were asked about.
    assert 5 / 290 < found.ended_per_second["succeeded"] <= 5 / 200
    assert read_pressure()["connector"].capped == {"depth": False, "ended": False, "lanes": False}


@pytest.mark.django_db(transaction=True)
def test_pressure__a_fresh_process_says_what_the_running_one_says(database_url):
    ids = Pack().admit(8, SourceLane="deal:1")
    admit_integration(3, family="reconcile", SourceLane="order:1")
    read_pressure()
    end("_System_ConnectorWorkItem", ids[:3], "succeeded", seconds_ago=100)
    change("UPDATE _System_ConnectorWorkItem SET State = 'blocked' WHERE WorkId = %s", ids[5])
    target = f"{__name__}:figures_of_this_process"
    mine = figures_of_this_process()
    assert race(target, [{}, {}], database_url) == [mine, mine]
    assert mine["connector"]["depth"] == {
        **dict.fromkeys(map(str, NONTERMINAL_STATES), 0),
        "pending": 4,
        "blocked": 1,
    }


def test_pressure__is_kept_in_no_table():
    """A reading writes nothing: no table holds a figure that could differ from the rows."""
    Pack().admit(2)
    sent: list[str] = []

    def note(execute, text, values, many, context):
        sent.append(text.split(None, 1)[0].strip("( ").upper())
        return execute(text, values, many, context)

    with connections["default"].execute_wrapper(note):
        read_pressure()
    assert set(sent) == {"SELECT"}
    assert len(sent) <= 9


def test_metrics__shows_the_pressure_of_every_family():
    ids = Pack().admit(3, SourceLane="deal:1")
    end("_System_ConnectorWorkItem", ids[:1], "dead", seconds_ago=10)
    admit_integration(2, family="token")
    text = Client().get("/metrics").content.decode()
    for line in (
        'lockhouse_queue_depth{family="connector",state="pending"} 2.0',
        'lockhouse_queue_depth{family="token",state="pending"} 2.0',
        'lockhouse_queue_ended{family="connector",seconds="60",state="dead"} 1.0',
        'lockhouse_lane_items{family="connector"} 2.0',
        'lockhouse_lane_waiting{family="connector"} 1.0',
        'lockhouse_queue_capped{family="effect",figure="depth"} 0.0',
    ):
        assert line in text
    change("UPDATE _System_ConnectorWorkItem SET State = 'retry' WHERE WorkId = %s", ids[1])
    text = Client().get("/metrics").content.decode()
    assert 'lockhouse_queue_depth{family="connector",state="pending"} 1.0' in text
    assert 'lockhouse_queue_depth{family="connector",state="retry"} 1.0' in text


def explain(statement: Statement) -> list[dict[str, Any]]:
    return query("EXPLAIN " + statement.text % PARAMS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_statement__reads_ranges_of_its_index_in_order_and_no_table(statement: Statement, engine: str):
    Pack().admit(1500, SourceLane="deal:1")
    change("UPDATE _System_ConnectorWorkItem SET State = 'succeeded', TerminalAt = UTC_TIMESTAMP(6) LIMIT 1000")
    admit_integration(900)
    change("UPDATE _System_IntegrationWorkItem SET State = 'dead', TerminalAt = UTC_TIMESTAMP(6) LIMIT 500")
    branches = statement.text.count("LIMIT %(cap)s")
    plan = explain(statement)
    if engine == "tidb":
        reads = [step for step in plan if "Scan" in str(step["id"])]
        names = [
            str(step["id"]).strip("│├└─ ").rpartition("_")[0] for step in reads if "index:" in step["access object"]
        ]
        assert names == ["IndexRangeScan"] * branches, plan
        assert not [step for step in plan if "FullScan" in str(step["id"])], plan
        ordered = [step for step in reads if "keep order:true" in str(step["operator info"])]
        assert len(ordered) == branches, plan
        if statement in ENDED:
            bounded = [step for step in reads if re.search(r'range:\["\w+" \d{4}-', str(step["operator info"]))]
            assert len(bounded) == branches, plan
    else:
        reads = [step for step in plan if step["table"] and not str(step["table"]).startswith(("<union", "<derived"))]
        assert len(reads) == branches, plan
        assert {step["type"] for step in reads} <= {"ref", "range"}, plan
        assert {step["key"] for step in reads} <= INDEXES, plan
        if statement in ENDED:
            # The state alone would be 34 bytes, and the whole history: the range reaches the terminal time.
            assert {(step["type"], int(step["key_len"])) for step in reads} == {("range", 34 + 9)}, plan
        assert not [step for step in reads if "filesort" in (step["Extra"] or "")], plan
