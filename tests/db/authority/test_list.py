"""The dead-letter list: both owners in one order, filters, pages, counts, search."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integration import errors
from integration.authority import reads
from integration.authority.listing import DeadFilters, DeadPage
from integration.authority.values import OwnerKind, Ref
from integration.values import new_id
from tests.support.authority import World, change, rows_of

pytestmark = pytest.mark.django_db
ITEMS = "_System_ConnectorWorkItem"


def ids(page: DeadPage) -> list[str]:
    return [row.ref.id for row in page.rows]


def died(world: World, minutes: float) -> dict[str, Any]:
    return {"TerminalAt": world.now - timedelta(minutes=minutes)}


def listed(**filters: Any) -> list[str]:
    return ids(reads.list_dead(DeadFilters(**filters)))


@pytest.mark.evidence("A-01")
def test_list__holds_both_owners_rows_once_each():
    world = World()
    claimed = world.work(event={"Status": "dead", **died(world, 1)}, **died(world, 4))
    legacy = world.legacy(**died(world, 3))
    mirrored = world.work("dead", Attempt=0, event={"Status": "dead", **died(world, 2)}, **died(world, 2))
    world.work("succeeded")
    world.work("pending", Attempt=0)
    page = reads.list_dead(DeadFilters())
    mirror_event = rows_of(ITEMS, "WorkId = %s", mirrored.id)[0]["EventId"]
    assert [(row.ref.id, row.owner) for row in page.rows] == [
        (mirror_event, OwnerKind.EVENT),
        (legacy.id, OwnerKind.EVENT),
        (claimed.id, OwnerKind.WORK_ITEM),
    ]
    assert [row.work_id for row in page.rows] == [mirrored.id, None, claimed.id]
    assert len({row.event_id for row in page.rows}) == 3
    assert (page.rejected, reads.count_dead(DeadFilters()).count) == ((), 3)


def test_list__ignores_what_a_mirror_says_of_itself():
    world = World()
    world.work("dead", Attempt=0, event={"Status": "failed"})
    world.work("pending", Attempt=0, event={"Status": "dead", **died(world, 2)})
    (row,) = reads.list_dead(DeadFilters()).rows
    assert (row.owner, row.state) == (OwnerKind.EVENT, "dead")


def test_list__marks_what_a_legacy_outcome_ended_and_offers_no_action():
    world = World()
    for outcome in ("dead", "processed"):
        ref = world.work("reconciled_legacy_terminal", Attempt=0, event={"Status": outcome, **died(world, 1)})
        world.outcome(ref, outcome)
    page = reads.list_dead(DeadFilters())
    (row,) = page.rows
    assert (row.owner, row.note, row.is_actionable) == (OwnerKind.WORK_ITEM, "legacy_reconciled", False)


def test_list__of_nothing_is_one_empty_page():
    World()
    page = reads.list_dead(DeadFilters())
    assert page == DeadPage(rows=(), rejected=(), newer=None, older=None, searched_back_to=None)


@pytest.mark.parametrize("count", [1, 49, 50, 51, 101])
def test_pages__hold_every_row_once_in_order_both_ways(count: int):
    world = World()
    expected = []
    for number in range(count):
        # Pairs of one moment: the id breaks the tie.
        place = died(world, 5 + number // 2)
        ref = world.legacy(**place) if number % 3 == 0 else world.work(**place)
        expected.append((place["TerminalAt"], ref.id))
    expected = [identity for _, identity in sorted(expected, reverse=True)]
    page = reads.list_dead(DeadFilters())
    seen, pages = ids(page), [page]
    while page.older is not None:
        page = reads.list_dead(DeadFilters(), page.older)
        seen += ids(page)
        pages.append(page)
    assert seen == expected
    assert [len(page.rows) for page in pages] == [50] * (count // 50) + ([count % 50] if count % 50 else [])
    for before, after in zip(reversed(pages[:-1]), reversed(pages[1:]), strict=True):
        assert ids(reads.list_dead(DeadFilters(), after.newer)) == ids(before)
    assert pages[0].newer is None


@pytest.mark.parametrize("times", [{}, {"died_after": datetime(2020, 1, 1, tzinfo=UTC)}])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pages__with_the_oldest_first_are_the_same_list_turned_round(limit: int, times: dict[str, Any]):
    world = World()
    for number in range(7):
        world.legacy(**died(world, number)) if number % 3 == 0 else world.work(**died(world, number))
    for _ in range(2):
        world.work(TerminalAt=None)
    filters = DeadFilters(**times)
    newest = ids(reads.list_dead(filters))
    assert len(newest) == (7 if times else 9)
    pages, cursor = [], None
    while True:
        pages.append(reads.list_dead(filters, cursor, limit, oldest_first=True))
        cursor = pages[-1].newer
        if cursor is None:
            break
    assert [identity for page in pages for identity in ids(page)] == newest[::-1]
    assert pages[0].older is None
    for before, after in itertools.pairwise(pages):
        assert ids(reads.list_dead(filters, after.older, limit, oldest_first=True)) == ids(before)


def test_pages__stay_in_place_while_rows_die_and_others_go():
    world = World()
    refs = [world.work(**died(world, 10 + number)) for number in range(9)]
    first = reads.list_dead(DeadFilters(), limit=3)
    newcomers = [world.work(**died(world, 1)), world.legacy(**died(world, 2))]
    change(f"DELETE FROM {ITEMS} WHERE WorkId = %s", refs[2].id)
    second = reads.list_dead(DeadFilters(), first.older, 3)
    assert ids(second) == [ref.id for ref in refs[3:6]]
    third = reads.list_dead(DeadFilters(), second.older, 3)
    assert ids(third) == [ref.id for ref in refs[6:]]
    assert third.older is None
    back = reads.list_dead(DeadFilters(), second.newer, 3)
    assert ids(back) == [newcomers[1].id, refs[0].id, refs[1].id]
    top = reads.list_dead(DeadFilters(), back.newer, 3)
    assert ids(top) == [newcomers[0].id, newcomers[1].id, refs[0].id]
    assert top.newer is None


@pytest.mark.parametrize("cursor", ["", "x", "o~2026-01-01T00:00:00+00:00~a", "o~x~y:z", "ø" * 300])
def test_pages__refuse_a_cursor_that_was_made_up(cursor: str):
    with pytest.raises(errors.InvalidInput) as caught:
        reads.list_dead(DeadFilters(), cursor)
    assert caught.value.data_fields == {"field": "cursor"}


def test_pages__refuse_a_cursor_that_was_changed():
    world = World()
    for number in range(3):
        world.work(**died(world, number))
    older = reads.list_dead(DeadFilters(), limit=1).older
    with pytest.raises(errors.InvalidInput):
        reads.list_dead(DeadFilters(), older.replace("o~", "n~", 1))


@pytest.mark.parametrize("limit", [0, -1, 501])
def test_pages__refuse_a_size_out_of_bounds(limit: int):
    with pytest.raises(errors.InvalidInput):
        reads.list_dead(DeadFilters(), None, limit)


def test_filters__narrow_by_every_field():
    world = World()
    work = world.work(Attempt=4, SourceLane="prospect:a", event={"Provider": "hubspot", "SourceLane": "prospect:a"})
    legacy = world.legacy(RetryCount=9, Provider="salesloft", WorkType="workflow_action_apply")
    other = World(namespace="acme-support", pack_name="zendesk", kind="ticket.updated")
    third = other.work(ReplayedAt=other.now, ProjectionKey="a" * 64)
    everything = {work.id, legacy.id, third.id}
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, everything),
        ({"org": other.org_id}, {third.id}),
        ({"namespace": "acme-support"}, {third.id}),
        ({"namespace": "acme-sales"}, {work.id, legacy.id}),
        ({"namespace": "Acme-Sales"}, set()),
        ({"pack": "zendesk"}, {third.id}),
        ({"pack": world.pack_id}, {work.id, legacy.id}),
        ({"provider": "hubspot"}, {work.id}),
        ({"event_kind": "ticket.updated"}, {third.id}),
        ({"work_type": "workflow_action_apply"}, {legacy.id}),
        ({"owner": "work_item"}, {work.id, third.id}),
        ({"owner": "event"}, {legacy.id}),
        ({"execution_class": "source_projection"}, {third.id}),
        ({"execution_class": "per_event"}, {work.id, legacy.id}),
        ({"source_lane": "prospect:a"}, {work.id}),
        ({"min_attempts": 4}, {work.id, legacy.id}),
        ({"max_attempts": 4}, {work.id, third.id}),
        ({"min_attempts": 4, "max_attempts": 4}, {work.id}),
        ({"replayed": True}, {third.id}),
        ({"replayed": False}, {work.id, legacy.id}),
        ({"namespace": "acme-sales", "owner": "event", "min_attempts": 10}, set()),
        ({"source_lane": "'; DROP TABLE x; --"}, set()),
    ]
    for filters, expected in cases:
        assert set(listed(**filters)) == expected, filters
        assert reads.count_dead(DeadFilters(**filters)).count == len(expected), filters


def test_filters__take_the_time_of_death_from_its_start_to_before_its_end():
    world = World()
    early, middle, late = (world.work(**died(world, minutes)) for minutes in (30, 20, 10))
    legacy = world.legacy(**died(world, 20))
    start, end = world.now - timedelta(minutes=20), world.now - timedelta(minutes=10)
    assert set(listed(died_after=start, died_before=end)) == {middle.id, legacy.id}
    assert listed(died_before=start) == [early.id]
    assert listed(died_after=end) == [late.id]
    assert reads.count_dead(DeadFilters(died_after=start, died_before=end)).count == 2
    with pytest.raises(errors.InvalidInput):
        DeadFilters(died_after=start.replace(tzinfo=None))


@pytest.mark.parametrize("field", ["org", "pack", "work_type", "search", "namespace", "source_lane", "provider"])
@pytest.mark.parametrize("value", ["ü", "段", "🚀", "%", "_", "x" * 300, "a'b\\", "\x00"])
def test_filters__find_nothing_for_what_no_row_holds(field: str, value: str):
    World().work()
    if field in {"org", "work_type"} and not value.isascii():
        with pytest.raises(errors.InvalidInput):
            listed(**{field: value})
    else:
        assert listed(**{field: value}) == []


@pytest.mark.parametrize(
    "field", ["org", "namespace", "pack", "provider", "event_kind", "work_type", "source_lane", "search"]
)
def test_filters__refuse_half_a_character(field: str):
    with pytest.raises(errors.InvalidInput) as caught:
        DeadFilters(**{field: "a\udcff"})
    assert caught.value.data_fields == {"field": field}


def test_search__finds_by_work_id_event_id_and_idempotency_key():
    world = World()
    work, legacy, living = world.work(), world.legacy(), world.work("pending", Attempt=0)
    event_id = rows_of(ITEMS, "WorkId = %s", work.id)[0]["EventId"]
    for text in (work.id, work.id.upper(), f" {work.id} ", event_id, f"delivery-{event_id}", str(work)):
        assert listed(search=text) == [work.id], text
    assert listed(search=legacy.id) == [legacy.id]
    assert listed(search=f"delivery-{legacy.id}") == [legacy.id]
    assert listed(search=f"delivery-{legacy.id}", namespace="acme-sales") == [legacy.id]
    assert listed(search=f"delivery-{legacy.id}", namespace="other") == []
    assert listed(search=legacy.id, owner="work_item") == []
    assert listed(search=living.id) == []
    assert listed(search=new_id()) == []
    assert reads.count_dead(DeadFilters(search=work.id)).count == 1


def test_search__of_a_mirrors_work_id_finds_the_event_that_owns_it():
    world = World()
    mirror = world.work("pending", Attempt=0, event={"Status": "dead", **died(world, 2)})
    event_id = rows_of(ITEMS, "WorkId = %s", mirror.id)[0]["EventId"]
    (row,) = reads.list_dead(DeadFilters(search=mirror.id)).rows
    assert (row.ref, row.work_id) == (Ref.parse(f"event:{event_id}"), mirror.id)


def test_search__of_a_work_item_owned_event_does_not_show_the_event_too():
    world = World()
    ref = world.work(event={"Status": "dead", **died(world, 1)})
    event_id = rows_of(ITEMS, "WorkId = %s", ref.id)[0]["EventId"]
    assert listed(search=event_id) == [ref.id]


def test_count__stops_at_its_cap_and_says_so():
    world = World()
    for number in range(5):
        world.work(**died(world, number)) if number % 2 else world.legacy(**died(world, number))
    assert str(reads.count_dead(DeadFilters(), cap=4)) == "4+"
    assert str(reads.count_dead(DeadFilters(), cap=5)) == "5"
    assert str(reads.count_dead(DeadFilters(owner="event"), cap=3)) == "3"
    assert str(reads.count_dead(DeadFilters(owner="event"), cap=2)) == "2+"


def test_count__of_a_filter_says_among_how_many_it_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "NARROWED_WINDOW", 4)
    world = World()
    for number in range(6):
        world.work(SourceLane="needle" if number in {1, 5} else "hay", **died(world, number))
    world.legacy(SourceLane="needle", **died(world, 9))
    bound = reads.count_dead(DeadFilters(source_lane="needle"))
    assert (bound.count, bound.is_capped, bound.searched) == (2, True, 5)
    within = reads.count_dead(
        DeadFilters(source_lane="needle", died_before=world.now - timedelta(minutes=3, seconds=30))
    )
    assert (within.count, within.is_capped, within.searched) == (2, False, None)
    every = reads.count_dead(DeadFilters(), cap=10)
    assert (every.count, every.is_capped, every.searched) == (7, False, None)


def test_a_search_that_stops_at_its_bound_says_how_far_and_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "WINDOWS", (4, 6))
    world = World()
    needles, legacy = [], []
    for number in range(40):
        lane = "needle" if number in {3, 25, 39} else "hay"
        ref = world.work(SourceLane=lane, **died(world, number))
        if lane == "needle":
            needles.append(ref.id)
        if number % 10 == 0:
            legacy.append(world.legacy(SourceLane="needle", **died(world, number + 0.5)).id)
    place = {row["WorkId"]: row["TerminalAt"] for row in rows_of(ITEMS)}
    found, cursor, stops = [], None, 0
    for _ in range(60):
        page = reads.list_dead(DeadFilters(source_lane="needle"), cursor, 2)
        found += ids(page)
        stops += page.searched_back_to is not None
        assert len(page.rows) <= 2
        cursor = page.older
        if cursor is None:
            break
    assert cursor is None
    assert [identity for identity in found if identity in place] == needles
    assert [identity for identity in found if identity not in place] == legacy
    assert stops > 0
    backwards = reads.list_dead(DeadFilters(source_lane="needle"), page.newer, 2)
    assert set(ids(backwards)) <= set(found)


def test_a_list__does_not_select_what_operators_may_not_see():
    from integration.storage.sql import dead_counts, dead_letters, replay_facts
    from integration.storage.statements import Statement

    hidden = (
        "Payload,",
        "LeaseToken",
        "LeaseOwner",
        "ClaimToken",
        "ClaimedBy",
        "FailureClass",
        "FailureSummary",
        "LastError",
        "Body",
    )
    statements = [
        value
        for module in (dead_counts, dead_letters, replay_facts)
        for value in vars(module).values()
        if isinstance(value, Statement)
    ]
    assert len(statements) > 30
    for statement in statements:
        assert not [name for name in hidden if name in statement.text], statement.name


@pytest.mark.evidence("A-01")
@pytest.mark.parametrize("count", [1, 4, 9])
def test_list__ends_with_the_rows_whose_writer_left_no_terminal_time(count: int):
    world = World()
    dated = [world.work(**died(world, number)) for number in range(3)] + [world.legacy(**died(world, 9))]
    undated = []
    for number in range(count):
        made = world.legacy if number % 2 else world.work
        undated.append(made(TerminalAt=None).id)
    world.work(TerminalAt=None, event={"Status": "dead"}, Attempt=0)
    mirror_event = rows_of(ITEMS, "Attempt = 0")[0]["EventId"]
    expected = [ref.id for ref in dated] + sorted([*undated, mirror_event], reverse=True)

    assert listed() == expected
    assert reads.count_dead(DeadFilters()).count == len(expected)
    for limit in (1, 2, 3, 5):
        pages = [reads.list_dead(DeadFilters(), limit=limit)]
        while pages[-1].older is not None:
            pages.append(reads.list_dead(DeadFilters(), pages[-1].older, limit))
        assert [identity for page in pages for identity in ids(page)] == expected
        for before, after in itertools.pairwise(pages):
            assert ids(reads.list_dead(DeadFilters(), after.newer, limit)) == ids(before)
    assert listed(namespace=world.namespace) == expected
    assert set(listed(owner="event")) & set(undated) == set(undated[1::2])
    assert listed(search=undated[0]) == [undated[0]]
    assert listed(died_after=world.now - timedelta(days=9)) == [ref.id for ref in dated]
    assert reads.count_dead(DeadFilters(died_before=world.now)).count == 3
    assert reads.get_detail(Ref(id=undated[0])).row.terminal_at is None
