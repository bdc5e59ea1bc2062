"""Dependencies: what waits for another kind of event is blocked before its first claim and given back when it came."""

from __future__ import annotations

import pytest

from integration.states import NONTERMINAL_STATES, TERMINAL_STATES, FailureClass
from integration.storage import db
from integration.storage.sql import work_items
from integration.work.blocking import Resolver
from integration.work.claim import claim_next, claim_some
from integration.work.finish import Ended, bury, complete, retry, skip
from tests.support.work import Pack, change, event_row, item_row, make_due, query

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("K-09")]
ACCOUNT = {"EventKind": "account.created", "SourceLane": "account:7"}
DEAL = {"SourceLane": "deal:1", "TargetLane": "account:7"}


@pytest.fixture
def waiting(pack: Pack) -> Pack:
    """A pack whose deals wait for their account."""
    pack.route(target_lane="account", waits_for="account.created")
    return pack


def admit_account(pack: Pack, **over) -> str:
    return pack.admit(**{**ACCOUNT, "RouteId": "a" * 36, **over})[0]


def test_claim__blocks_what_waits_and_says_for_what(waiting, queue, process):
    (deal,) = waiting.admit(**DEAL)
    before, event = item_row(deal), event_row(item_row(deal)["EventId"])

    assert claim_next(process, queue) is None

    after = item_row(deal)
    assert (after["State"], after["BlockedOn"]) == ("blocked", "account.created")
    assert {name for name in after if after[name] != before[name]} == {
        "State",
        "BlockedOn",
        "BlockedSince",
        "UpdatedAt",
    }
    assert event_row(after["EventId"]) == event
    assert claim_next(process, queue) is None


@pytest.mark.parametrize("end", [complete, skip])
def test_resolve__gives_back_once_the_dependency_has_ended_well(waiting, queue, process, take, end):
    (deal,) = waiting.admit(**DEAL)
    assert claim_next(process, queue) is None
    due = item_row(deal)["RunAfter"]
    assert Resolver().resolve() == 0
    account = admit_account(waiting)
    assert Resolver().resolve() == 0, "it is there and has not ended"
    end(take(account))

    assert Resolver().resolve() == 1

    row = item_row(deal)
    assert (row["State"], row["BlockedOn"], row["BlockedSince"], row["RunAfter"]) == ("pending", None, None, due)
    assert claim_next(process, queue).work_id == deal


def test_claim__of_what_waited_for_something_that_is_there_already_needs_no_resolver(waiting, queue, process, take):
    complete(take(admit_account(waiting)))
    (deal,) = waiting.admit(**DEAL)
    assert claim_next(process, queue).work_id == deal


@pytest.mark.parametrize("state", sorted(NONTERMINAL_STATES | TERMINAL_STATES - {"succeeded", "skipped"}))
def test_dependency__is_met_by_nothing_but_a_good_end(waiting, queue, process, state):
    account = admit_account(waiting)
    change("UPDATE _System_ConnectorWorkItem SET State = %s WHERE WorkId = %s", state, account)
    (deal,) = waiting.admit(**DEAL)
    while (taken := claim_next(process, queue)) is not None:
        assert taken.work_id == account
    assert item_row(deal)["State"] == "blocked"
    assert Resolver().resolve() == 0


@pytest.mark.parametrize(
    "other",
    [{"SourceLane": "account:8"}, {"EventKind": "account.changed"}, {"Namespace": "elsewhere"}, {"SourceLane": None}],
)
def test_dependency__is_not_met_by_another_lane_kind_or_namespace(waiting, queue, process, other):
    account = admit_account(waiting, **other)
    change("UPDATE _System_ConnectorWorkItem SET State = 'succeeded' WHERE WorkId = %s", account)
    (deal,) = waiting.admit(**DEAL)
    assert claim_next(process, queue) is None
    assert Resolver().resolve() == 0
    assert item_row(deal)["State"] == "blocked"


def test_blocked__holds_its_source_lane_and_no_other(waiting, queue, process):
    first, second = waiting.admit(2, **DEAL)
    free = waiting.admit(SourceLane="deal:2")[0]
    taken = [claim.work_id for claim in claim_some(process, queue, 8)]
    assert taken == [free]
    assert claim_next(process, queue) is None
    assert [item_row(work_id)["State"] for work_id in (first, second)] == ["blocked", "pending"]


def test_blocked__counts_as_unfinished(waiting, queue, process):
    waiting.admit(**DEAL)
    claim_next(process, queue)
    assert query("SELECT DISTINCT State FROM _System_ConnectorWorkItem") == [{"State": "blocked"}]
    assert db.read().fetch_one(work_items.FIND_UNFINISHED_WORK) is not None


def test_dependency__on_the_items_own_lane_never_waits(waiting, queue, process):
    (deal,) = waiting.admit(SourceLane="account:7", TargetLane="account:7")
    assert claim_next(process, queue).work_id == deal


def test_dependency__is_asked_for_before_the_first_claim_only(waiting, queue, process, take):
    (deal,) = waiting.admit(**DEAL)
    assert retry(take(deal), FailureClass.FLOW_ERROR, after_seconds=0) is Ended.RETRY
    make_due(deal)
    assert claim_next(process, queue).work_id == deal


def test_dependency__that_died_is_met_by_its_replay(waiting, queue, process, take):
    (deal,) = waiting.admit(**DEAL)
    assert claim_next(process, queue) is None
    bury(take(admit_account(waiting)), FailureClass.FLOW_REJECTED)
    assert Resolver().resolve() == 0
    complete(take(admit_account(waiting)))
    assert Resolver().resolve() == 1
    assert claim_next(process, queue).work_id == deal


def test_resolve__goes_round_page_by_page(waiting, queue, process, take):
    deals = [waiting.admit(SourceLane=f"deal:{n}", TargetLane=f"account:{n}")[0] for n in range(5)]
    assert claim_some(process, queue, 8) == []
    complete(take(admit_account(waiting, SourceLane="account:4")))
    resolver = Resolver()

    given_back = [resolver.resolve(limit=2) for _ in range(4)]

    assert sum(given_back) == 1
    assert item_row(deals[4])["State"] == "pending"
    assert [item_row(work_id)["State"] for work_id in deals[:4]] == ["blocked"] * 4
    complete(take(admit_account(waiting, SourceLane="account:0")))
    assert sum(resolver.resolve(limit=2) for _ in range(4)) == 1
    assert item_row(deals[0])["State"] == "pending"


def test_resolve__leaves_what_another_build_blocked(waiting):
    (deal,) = waiting.admit(SourceLane="deal:1")
    change("UPDATE _System_ConnectorWorkItem SET State = 'blocked', BlockedOn = 'something'")
    before = item_row(deal)
    assert Resolver().resolve() == 0
    assert item_row(deal) == before
