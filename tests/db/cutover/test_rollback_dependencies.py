"""What waits for another kind of Event (`waits_for`) over a rollback: not executed before it, and met by it."""

from __future__ import annotations

from typing import Any

import pytest

from integration.cutover.inbound.service import move_forward
from integration.work.blocking import Dependency
from integration.work.candidates import CandidateQueue
from integration.work.claim import claim_some
from integration.work.process import register_process
from tests.support.authority import system_rows
from tests.support.bridge import BridgedPack
from tests.support.rollback import OWNER, deliver_end
from tests.support.work import change, item_row

pytestmark = [pytest.mark.django_db, pytest.mark.evidence("C-04", "K-09")]
KIND, LANE = "account.created", "account:7"


class DealsPack(BridgedPack):
    """A pack whose deals wait for their account."""

    def route(self, kind: str | None = None, **rule: Any) -> str:
        """Insert a route; the first one waits."""
        if kind is None:
            rule = {"target_lane": "account", "waits_for": KIND, **rule}
        return str(super().route(kind, **rule))

    def account(self, **over: Any) -> str:
        """Admit what the deals wait for; return its WorkId."""
        route_id = self.route(KIND, source_lane="account")
        (work_id,) = self.waiting(EventKind=KIND, RouteId=route_id, SourceLane=LANE, **over)
        change(
            "UPDATE _System_ConnectorEvent SET EventKind = %s, RouteId = %s WHERE EventId = %s",
            KIND,
            route_id,
            item_row(work_id)["EventId"],
        )
        return work_id

    def deal(self, **over: Any) -> str:
        """Admit a deal; return its WorkId."""
        return self.waiting(**{"SourceLane": "deal:1", "TargetLane": LANE, **over})[0]


def is_met(pack: DealsPack) -> bool:
    return Dependency(namespace=pack.namespace, event_kind=KIND, lane=LANE).is_met()


def test_rollback__of_an_item_whose_dependency_has_not_ended_is_refused_and_changes_nothing():
    pack = DealsPack()
    pack.deal()
    pack.account()
    before = system_rows()
    assert pack.refusal() == "blocked_item"
    assert system_rows() == before


@pytest.mark.parametrize("over", [{"TargetLane": None}, {"SourceLane": LANE}], ids=["no lane", "its own lane"])
def test_rollback__of_an_item_that_waits_for_nothing_is_done(over):
    pack = DealsPack()
    pack.deal(**over)
    assert pack.roll_back().item_count == 1


def test_rollback__of_an_item_whose_dependency_has_ended_well_is_done():
    pack = DealsPack()
    pack.account(State="succeeded")
    pack.deal()
    assert pack.roll_back().item_count == 1


@pytest.mark.evidence("C-06")
@pytest.mark.parametrize(("end", "met"), [("processed", True), ("skipped", True), ("dead", False)])
def test_dependency__that_the_event_executor_ended_is_met_as_it_ended(end, met):
    pack = DealsPack()
    account = pack.account()
    pack.roll_back()
    deliver_end(account, end)
    assert pack.reconcile().is_closed

    assert item_row(account)["State"] == "reconciled_legacy_terminal"
    assert is_met(pack) is met
    move_forward(pack.pack_id, actor=OWNER, reason="x", attestation="none runs", timeout_seconds=1)
    deal = pack.deal()
    process = register_process(roles=frozenset({"claim"}), concurrency=1, build_version="tests")
    assert [claim.work_id for claim in claim_some(process, CandidateQueue(process), 5)] == ([deal] if met else [])
    assert item_row(deal)["State"] == ("processing" if met else "blocked")
