"""What stands in the way of a forward cutover: each fact has its rule, and nothing else does."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from integration.cutover.inbound.policy import RULES, Facts, Remedy, find_obstacles

CLEAR = Facts(pack_status="active", is_attested=True, is_stopped=True)

#: Fact -> what it is when it stands in the way, the code, and who takes it away.
IN_THE_WAY = {
    "pack_status": ("retired", "pack_not_active", Remedy.OPERATOR),
    "missing_schema": (2, "schema_incomplete", Remedy.OPERATOR),
    "receipt_faults": (1, "receipts_broken", Remedy.OPERATOR),
    "unclosed_rollbacks": (1, "rollback_unfinished", Remedy.OPERATOR),
    "outcomes_awaited": (3, "legacy_outcome_awaited", Remedy.OPERATOR),
    "outcomes_unknown": (1, "legacy_outcome_unknown", Remedy.OPERATOR),
    "outcomes_unconfirmed": (1, "legacy_outcome_unconfirmed", Remedy.OPERATOR),
    "events_without_route": (4, "events_without_route", Remedy.OPERATOR),
    "events_without_range": (4, "events_without_range", Remedy.OPERATOR),
    "ambiguous_events": (1, "ambiguous_owner", Remedy.OPERATOR),
    "mirrors_left_behind": (1, "mirror_left_behind", Remedy.OPERATOR),
    "endless_claims": (1, "claim_without_end", Remedy.OPERATOR),
    "work_items_lost": (2, "work_items_lost", Remedy.OPERATOR),
    "is_attested": (False, "attestation_missing", Remedy.OPERATOR),
    "is_stopped": (False, "event_claims_open", Remedy.FORWARD),
    "executors": (1, "executors_running", Remedy.FORWARD),
    "workers": (1, "workers_running", Remedy.FORWARD),
    "events_to_materialize": (9, "events_without_work", Remedy.FORWARD),
    "events_processing": (1, "events_processing", Remedy.DRAIN),
    "event_claims": (1, "event_claims", Remedy.DRAIN),
    "work_items_processing": (1, "work_items_processing", Remedy.DRAIN),
}


def test_obstacles__of_a_pack_that_is_ready_are_none():
    assert find_obstacles(CLEAR) == ()


@pytest.mark.evidence("C-01")
@pytest.mark.parametrize("name", IN_THE_WAY)
def test_obstacle__is_found_by_its_one_fact(name: str):
    value, code, remedy = IN_THE_WAY[name]
    (found,) = find_obstacles(replace(CLEAR, **{name: value}))
    assert (found.code, found.remedy) == (code, remedy)
    assert found.count == (value if isinstance(value, int) and value is not False else 1)
    assert found.sentence.endswith(".")
    assert "{" not in found.sentence + found.next_step


def test_rules__look_at_every_fact():
    assert {item.name for item in fields(Facts) if not item.name.endswith("_id")} == set(IN_THE_WAY)
    assert [rule.code for rule in RULES] == [code for _, code, _ in IN_THE_WAY.values()]


def test_obstacles__are_told_all_and_those_of_a_person_first():
    found = find_obstacles(replace(CLEAR, **{name: value for name, (value, _, _) in IN_THE_WAY.items()}))
    assert len(found) == len(RULES)
    remedies = [obstacle.remedy for obstacle in found]
    assert remedies == sorted(remedies, key=[Remedy.OPERATOR, Remedy.FORWARD, Remedy.DRAIN].index)
