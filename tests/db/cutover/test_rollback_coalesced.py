"""Inputs that builds without ranges coalesced: nothing gives them to the Event executor, and a receipt covers them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.cutover.inbound import rollback
from integration.cutover.inbound.rollback_policy import RollbackRefused
from integration.cutover.inbound.verify import verify
from integration.cutover.projection.patience import Patience
from integration.cutover.projection.service import cut_over
from integration.legacy.executor import Executor, Options
from tests.support.authority import system_rows
from tests.support.old_projections import OldPack
from tests.support.rollback import OWNER, write_forward_receipt
from tests.support.work import change

pytestmark = pytest.mark.django_db


@pytest.fixture
def pack() -> OldPack:
    """A pack of which one WorkItem executed five inputs, two of them still pending and one failed."""
    pack = OldPack()
    write_forward_receipt(pack.pack_id)
    pack.lane().coalesced(5)
    cut_over(pack.settle(), actor=OWNER, patience=Patience(timeout=timedelta(seconds=30)))
    return pack


def roll_back(pack: OldPack) -> str:
    """Try to roll it back; return the code of what stands in the way."""
    with pytest.raises(RollbackRefused) as refused:
        rollback.roll_back(
            pack.pack_id, actor=OWNER, reason="x", attestation="none runs", approved_builds=["tests"], chunk=1
        )
    return refused.value.finding.code.value


def coverage(pack: OldPack) -> bool:
    """Return whether the pack's coverage is what its receipt proved."""
    (found,) = [one.agrees for one in verify(pack.pack_id).agreements if one.name == "coverage"]
    return found


@pytest.mark.evidence("C-04")
def test_rollback__of_inputs_that_an_ended_generation_took_is_refused_and_changes_nothing(pack):
    before = system_rows()
    assert roll_back(pack) == "input_without_item"
    assert system_rows() == before


def test_rollback__of_an_input_whose_route_is_gone_is_refused(pack):
    change("UPDATE _System_ConnectorEvent SET RouteId = EventId")
    assert roll_back(pack) == "input_without_item"


def test_rollback__that_does_not_look_at_them_has_them_executed_again(pack, monkeypatch):
    """The negative control."""
    monkeypatch.setattr("integration.cutover.inbound.rollback_proof.decide_inputs", lambda row: None)
    rollback.roll_back(pack.pack_id, actor=OWNER, reason="x", attestation="none runs", approved_builds=["tests"])
    executor = Executor(Options(pack_install_id=pack.pack_id, build_version="tests"))
    executor.start()
    while executor.round():
        pass
    executor._say_stopped()
    assert sum(executor.report().ended.values()) == 3


@pytest.mark.evidence("P-15", "C-01")
def test_verify__holds_what_a_projection_cutover_accepted_for_covered(pack):
    assert coverage(pack)


def test_verify__holds_nothing_for_covered_that_came_after_the_cutoff_or_without_one(pack):
    pack.lane().indirect()
    assert not coverage(pack)
    change("DELETE FROM _System_ConnectorEvent WHERE LaneOrdinal > 5")
    assert coverage(pack)
    change("DELETE FROM _System_ConnectorProjectionProtocol")
    assert not coverage(pack)


def test_verify__holds_inputs_without_an_ordinal_for_older_than_the_cutoff(pack):
    change("UPDATE _System_ConnectorEvent SET LaneOrdinal = NULL")
    assert coverage(pack)
