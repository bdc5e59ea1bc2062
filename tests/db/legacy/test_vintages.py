"""The Event executor on every schema: the database says what a WorkItem can hold, also when a column arrives."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.utils import load_backend

from integration.legacy import finish
from integration.storage.install import install_schema
from integration.storage.probe import capabilities
from integration.storage.schema import Vintage
from integration.work.execute import Verdict
from integration.work.finish import Ended
from tests.support.legacy import LegacyPack
from tests.support.projections import KIND
from tests.support.sessions import default_of_vintage
from tests.support.work import event_row, item_row, query


@pytest.fixture(params=list(Vintage))
def vintage(request: Any, django_db_modify_db_settings: None, django_db_blocker: Any) -> Iterator[Vintage]:
    """Make a database of a vintage the default one for a test."""
    with django_db_blocker.unblock(), default_of_vintage(request.param):
        yield request.param


def mirror_columns(work_id: str) -> tuple[Any, ...]:
    row = item_row(work_id)
    return row["State"], row.get("Outcome"), row.get("TerminalAt") is not None, row["ProjectionActiveKey"]


@pytest.mark.evidence("A-35")
@pytest.mark.parametrize(
    ("end", "status", "state"),
    [("well", "processed", "succeeded"), ("skip", "skipped", "skipped"), ("reject", "dead", "dead")],
)
def test_events__are_executed_and_mirrors_follow_them_on_every_vintage(vintage, end, status, state):
    pack = LegacyPack()
    pack.route()
    alone, mirrored = pack.events(2, payload={"end": end})
    has_items = vintage is not Vintage.EVENT_ONLY
    work_id = pack.mirror(mirrored) if has_items else None
    executor = pack.executor()
    assert executor.round() is True
    assert [event_row(event_id)["Status"] for event_id in (alone, mirrored)] == [status, status]
    if work_id is not None:
        has_outcome = vintage in {Vintage.ADDITIVE, Vintage.CURRENT}
        assert mirror_columns(work_id) == (state, state if has_outcome else None, has_outcome, None)
    assert executor.report().ended == {status: 2}


@pytest.mark.evidence("A-35")
def test_projections_event__is_given_its_own_payload_where_no_range_is_held(vintage, tmp_path):
    pack = LegacyPack(flow="tests.inputs")
    flow = {"name": "tests.inputs", "version": 1}
    reduce = {"by": "merge", "replay": "selected_only"}
    pack.route_id = pack.route(KIND, flow=flow, execution="source_projection", source_lane="contact.id", reduce=reduce)
    file = tmp_path / "given"
    ids = [
        pack.events(EventKind=KIND, SourceLane="contact:7", payload={"n": number, "file": str(file)})[0]
        for number in (1, 2)
    ]
    works = list(ids)
    if vintage is not Vintage.EVENT_ONLY:
        key = "k" * 64
        works = [
            pack.mirror(ids[0], SubjectKind="projection", ProjectionKey=key, ProjectionActiveKey=key),
            pack.mirror(ids[1], SubjectKind="projection", ProjectionKey=key),
        ]
    assert pack.executor().round() is True
    given = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(entry["work_id"], entry["ordinals"], entry["numbers"]) for entry in given] == [
        (works[0], [1], [1]),
        (works[1], [2], [2]),
    ]
    assert [entry["payload"] for entry in given] == [{"n": 1}, {"n": 2}]
    if vintage is not Vintage.EVENT_ONLY:
        assert [mirror_columns(work_id)[0] for work_id in works] == ["succeeded", "succeeded"]
        assert [mirror_columns(work_id)[3] for work_id in works] == [None, None]


@pytest.mark.evidence("A-35")
def test_mirror__that_arrives_with_its_table_while_an_event_is_executed_follows_it(vintage):
    pack = LegacyPack()
    pack.route()
    (event_id,) = pack.events()
    claimed = pack.claim(event_id)
    before = capabilities()
    # The executor's connection still remembers the older schema.
    install_schema(other_connection(), Vintage.CURRENT)
    work_id = pack.mirror(event_id)
    assert finish.conclude(claimed, Verdict(ended=Ended.COMPLETE)) == "processed"
    assert mirror_columns(work_id) == ("succeeded", "succeeded", True, None)
    assert before.vintage is vintage
    assert query("SELECT Status FROM _System_ConnectorEvent") == [{"Status": "processed"}]


def other_connection() -> Any:
    settings = copy.deepcopy(connections["default"].settings_dict)
    return load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "other")
