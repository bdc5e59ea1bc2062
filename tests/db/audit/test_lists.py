"""The trail as a list: filters, both orders, pages there and back, bounds, and the indexes that it is read by."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from integration import errors
from integration.audit import reads
from integration.audit.listing import AuditFilters, AuditPage
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.storage.db import _adapt
from integration.storage.sql import audit_lists
from integration.storage.statements import Statement
from integration.values import Actor

pytestmark = pytest.mark.django_db(transaction=True)
STATEMENTS = [value for _, value in sorted(vars(audit_lists).items()) if isinstance(value, Statement)]
INDEX_OF = {
    "LIST_AUDIT_OF_NAMESPACE": "audit_namespace_at_id",
    "LIST_AUDIT_OF_REF": "audit_ref_at_id",
    "LIST_AUDIT_OF_ACTOR": "audit_actor_at_id",
    "LIST_AUDIT_OF_ACTION": "audit_action_at_id",
    "LIST_AUDIT_OF_OUTCOME": "audit_outcome_at_id",
    "LIST_AUDIT": "audit_at_id",
}


def tell(ref: str, name: str = "ana", action: str = "work_item.replayed", outcome: str = "done") -> None:
    record_alone(
        AuditFact(
            action=action,
            outcome=AuditOutcome(outcome),
            actor=Actor(user_id={"ana": 1, "boris": 2}[name], name=name, via="console"),
            ref_kind="work_item",
            ref_id=ref,
        )
    )


def refs(page: AuditPage) -> list[str]:
    return [entry.ref_id for entry in page.entries]


@pytest.fixture
def trail() -> list[str]:
    """Twenty-four entries, three kinds of everything among them; return their ids, newest first."""
    told = []
    for number, (name, action, outcome) in enumerate(
        itertools.product(
            ("ana", "boris"), ("work_item.replayed", "work_item.viewed"), ("done", "refused", "lost", "done")
        )
    ):
        tell(f"r-{number}", name, action, outcome)
        told.append(f"r-{number}")
    for _ in range(8):
        tell("r-0", "ana", "work_item.viewed")
        told.append("r-0")
    return told[::-1]


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 5, 24, 25])
def test_pages__meet_every_entry_once_there_and_back(trail: list[str], limit: int, oldest_first: bool) -> None:
    pages, cursor = [], None
    while True:
        page = reads.list_entries(AuditFilters(), cursor, limit, oldest_first=oldest_first)
        pages.append(page)
        cursor = page.newer if oldest_first else page.older
        if cursor is None:
            break
    expected = trail[::-1] if oldest_first else trail
    assert [ref for page in pages for ref in refs(page)] == expected
    assert (pages[0].older if oldest_first else pages[0].newer) is None
    for before, after in itertools.pairwise(pages):
        back = after.older if oldest_first else after.newer
        assert reads.list_entries(AuditFilters(), back, limit, oldest_first=oldest_first).entries == before.entries


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"actor": "ana"}, 16),
        ({"action": "work_item.viewed"}, 16),
        ({"outcome": "refused"}, 4),
        ({"ref": "r-0"}, 9),
        ({"actor": "boris", "outcome": "done"}, 4),
        ({"ref": "r-0", "action": "work_item.replayed"}, 1),
        ({"actor": "ana", "action": "work_item.viewed", "outcome": "lost"}, 1),
        ({"actor": "Ana"}, 0),
        ({"ref": "r-99"}, 0),
    ],
)
@pytest.mark.parametrize("limit", [2, 50])
def test_filters__match_what_they_name(trail: list[str], filters: dict[str, str], count: int, limit: int) -> None:
    found, cursor = [], None
    while True:
        page = reads.list_entries(AuditFilters(**filters), cursor, limit)
        found += page.entries
        cursor = page.older
        if cursor is None:
            break
    assert (len(found), len({entry.id for entry in found})) == (count, count)
    names = {"ref": "ref_id", "actor": "actor_name"}
    for entry in found:
        assert {name: getattr(entry, names.get(name, name)) for name in filters} == filters


def test_filters__of_time_are_from_and_before(trail: list[str]) -> None:
    entries = reads.list_entries(AuditFilters()).entries
    since, until = entries[10].at, entries[4].at
    found = reads.list_entries(AuditFilters(since=since, until=until)).entries
    assert [entry.id for entry in found] == [entry.id for entry in entries[5:11]]
    assert reads.list_entries(AuditFilters(since=entries[0].at + timedelta(seconds=1))).entries == ()


def test_search__by_two_filters_stops_at_its_bound_and_goes_on_from_there(
    trail: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_WINDOWS", (4,))
    filters, found, cursor, pages = AuditFilters(actor="ana", outcome="lost"), [], None, 0
    while True:
        page = reads.list_entries(filters, cursor, 3)
        found += refs(page)
        pages += 1
        assert (page.searched_to is None) == (page.older is None)
        cursor = page.older
        if cursor is None:
            break
    assert (found, pages) == (["r-6", "r-2"], 5)


@pytest.mark.parametrize("cursor", ["x", "", ">", "<nope", ">2026-01-01~x", ">2026-01-01T00:00:00+00:00~" + "x" * 37])
def test_cursor__that_is_none_of_the_list_is_refused(cursor: str) -> None:
    with pytest.raises(errors.InvalidInput):
        reads.list_entries(AuditFilters(), cursor)


@pytest.mark.parametrize("filters", [{"outcome": "perhaps"}, {"actor": "\ud800"}])
def test_filters__that_cannot_match_are_refused(filters: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput):
        AuditFilters(**filters)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_statement__reads_one_range_of_its_index_and_entries_by_key(
    statement: Statement, trail: list[str], engine: str
) -> None:
    (first,) = reads.list_entries(AuditFilters(), None, 1).entries
    values = {
        "namespace": "alpha",
        "ref": "r-0",
        "actor": "ana",
        "action": "work_item.viewed",
        "outcome": "done",
        "since": first.at - timedelta(days=1),
        "until": first.at + timedelta(days=1),
        "at": first.at,
        "id": first.id,
        "window": 200,
        "last": 199,
        "limit": 51,
        "ids": (first.id, "x"),
    }
    with connections["default"].cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement.text}", _adapt(values))
        names = [column[0] for column in cursor.description]
        plan = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    index = INDEX_OF.get(statement.name.rpartition("_")[0])
    if engine == "mariadb":
        tables = [row for row in plan if row["table"] and not str(row["table"]).startswith("<")]
        assert "ALL" not in {row["type"] for row in tables}, plan
        keys = [row for row in tables if row["table"] == "k"]
        for row in keys:
            assert (row["type"] in {"range", "ref"}, row["key"]) == (True, index), row
            assert "filesort" not in row["Extra"], row
        assert len(keys) == (2 if index else 0)
    else:
        access = [(row["id"].strip("├─└│ "), row["access object"]) for row in plan if row["access object"]]
        assert not [entry for entry in access if "FullScan" in entry[0]], plan
        # The other access is the look-up of what the index has found.
        keys = [where for operator, where in access if "table:k" in where and operator.startswith("Index")]
        assert len(keys) == (2 if index else 0), plan
        assert all(f"index:{index}" in where for where in keys), plan
        assert not [row for row in plan if row["id"].strip("├─└│ ").startswith("Sort") and "k.at" in str(row)], plan
