"""Exports: the rows of the list, whole or capped, and who took them with him."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest

from integration import errors
from integration.audit.listing import AuditFilters
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.authority import reads
from integration.authority.listing import DeadFilters
from integration.authority.values import VIEW_PERMISSION
from integration.exports import service
from integration.exports.policy import Format
from integration.values import Actor, plain
from tests.support.authority import World, audit_entries

pytestmark = pytest.mark.django_db(transaction=True)
ANA = Actor(user_id=7, name="ana", via="console", permissions=frozenset({VIEW_PERMISSION, "integration.view_audit"}))


def table(text: str) -> tuple[list[dict[str, str]], str]:
    """Return a CSV file's rows by column, and its last line."""
    lines = list(csv.reader(io.StringIO(text, newline="")))
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:-1]], lines[-1][0]


def dead(form: Format = Format.JSON, **over: Any) -> str:
    filters = DeadFilters(**over.pop("filters", {}))
    return "".join(service.export_dead(filters, actor=ANA, form=form, **over))


@pytest.fixture
def world() -> World:
    world = World()
    for minutes in range(7):
        world.work(TerminalAt=world.now - timedelta(minutes=minutes), SourceLane=f"=lane:{minutes}")
    world.legacy(TerminalAt=world.now - timedelta(minutes=3, seconds=30))
    return world


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a page have three rows; return what each page that is read asks for."""
    asked: list[int] = []
    list_dead = reads.list_dead

    def listed(filters: DeadFilters, cursor: str | None, limit: int, **options: Any) -> Any:
        asked.append(limit)
        return list_dead(filters, cursor, limit, **options)

    monkeypatch.setattr(service, "_PAGE", 3)
    monkeypatch.setattr(service.authority, "list_dead", listed)
    return asked


def test_dead__has_the_rows_of_the_list_in_its_order_and_shape(world: World, small_pages: list[int]) -> None:
    rows = reads.list_dead(DeadFilters(), None, 50).rows
    del small_pages[:]
    document = json.loads(dead())
    assert document["rows"] == [{**plain(row), "ref": str(row.ref)} for row in rows]
    assert (document["count"], document["is_capped"], small_pages) == (8, False, [3, 3, 3])
    oldest = json.loads(dead(oldest_first=True))
    assert oldest["rows"] == document["rows"][::-1]
    found, tail = table(dead(Format.CSV))
    assert [row["ref"] for row in found] == [str(row.ref) for row in rows]
    assert (found[0]["source_lane"], tail) == ("'=lane:0", "# 8 rows, all that matched")


def test_dead__stops_at_the_cap_and_says_so(world: World, small_pages: list[int], settings: Any) -> None:
    settings.LOCKHOUSE_EXPORT_ROWS = 5
    document = json.loads(dead())
    assert (document["count"], len(document["rows"]), document["is_capped"], document["cap"]) == (5, 5, True, 5)
    assert small_pages == [3, 2]
    _, tail = table(dead(Format.CSV))
    assert "more may match" in tail
    settings.LOCKHOUSE_EXPORT_ROWS = 8
    assert json.loads(dead())["is_capped"] is False


def test_dead__that_matches_next_to_nothing_ends_at_a_bound(
    world: World, small_pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_MOST_PAGES", 2)
    document = json.loads(dead())
    assert (document["count"], document["is_capped"]) == (6, True)
    assert "the search stopped at its bound" in document["end"]


def test_trail__tells_of_an_export_before_its_first_row_and_at_its_end(world: World) -> None:
    parts = service.export_dead(DeadFilters(namespace=world.namespace), actor=ANA, form=Format.CSV)
    (begun,) = audit_entries()
    assert (begun["action"], begun["outcome"], begun["actor_name"]) == ("dead_letter.export_begun", "done", "ana")
    facts = json.loads(begun["facts"])
    assert (facts["filter"], facts["format"]) == ({"namespace": world.namespace, "sort": "newest"}, "csv")
    "".join(parts)
    _, ended = audit_entries()
    assert (ended["action"], ended["ref_id"]) == ("dead_letter.exported", begun["ref_id"])
    assert {name: json.loads(ended["facts"])[name] for name in ("rows", "end")} == {"rows": 8, "end": "whole"}


def test_trail__tells_how_much_went_out_of_what_was_broken_off(world: World, small_pages: list[int]) -> None:
    parts = service.export_dead(DeadFilters(), actor=ANA, form=Format.JSON)
    for _ in range(3):
        next(parts)
    parts.close()  # type: ignore[attr-defined]
    _, ended = audit_entries()
    assert {name: json.loads(ended["facts"])[name] for name in ("rows", "end")} == {"rows": 6, "end": "interrupted"}


@pytest.mark.parametrize("export", [service.export_dead, service.export_audit])
def test_export__without_the_right_of_its_page_is_refused_and_reads_nothing(export: Any, world: World) -> None:
    filters = DeadFilters() if export is service.export_dead else AuditFilters()
    other = {VIEW_PERMISSION, "integration.view_audit"} - {
        VIEW_PERMISSION if export is service.export_dead else "integration.view_audit"
    }
    nobody = Actor(user_id=8, name="vera", permissions=frozenset(other))
    with pytest.raises(errors.NotAllowed):
        export(filters, actor=nobody, form=Format.CSV)
    assert audit_entries() == []


def test_audit__has_the_entries_that_match_and_not_its_own_end() -> None:
    for number in range(3):
        record_alone(
            AuditFact(
                action="work_item.replayed",
                outcome=AuditOutcome.DONE,
                actor=ANA,
                ref_kind="work_item",
                ref_id=f"r-{number}",
                reason="=cmd()",
                facts={"route_version": 12},
            )
        )
    filters = AuditFilters(action="work_item.replayed")
    document = json.loads("".join(service.export_audit(filters, actor=ANA, form=Format.JSON)))
    assert [row["ref_id"] for row in document["rows"]] == ["r-2", "r-1", "r-0"]
    assert document["rows"][0]["facts"] == {"route_version": 12}
    found, _ = table("".join(service.export_audit(filters, actor=ANA, form=Format.CSV)))
    assert (found[0]["reason"], found[0]["seq"]) == ("'=cmd()", "3")
