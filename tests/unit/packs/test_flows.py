from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from integration.errors import InvalidInput
from integration.packs import flows, stages
from integration.work.flows import FlowContext, FlowRejected, FlowSkip


def context(payload: dict[str, Any], attempt: int = 1) -> FlowContext:
    return FlowContext(
        work_id="w",
        event_id="e",
        org_id="o",
        namespace="demo",
        event_kind="deal.updated",
        payload=payload,
        attempt=attempt,
        max_attempts=3,
        occurred_at=None,
        received_at=datetime.now(UTC),
    )


@pytest.fixture(autouse=True)
def own_folder(settings, tmp_path):
    settings.LOCKHOUSE_VAR_DIR = tmp_path


def test_apply_deal__is_rejected_until_its_stage_is_allowed():
    deal = context({"deal": {"id": 1, "stage": "legal_review"}})
    with pytest.raises(FlowRejected):
        flows.apply_deal(deal)
    stages.change_stages(allow=frozenset({"legal_review"}))
    flows.apply_deal(deal)
    stages.change_stages(forbid=frozenset({"legal_review"}))
    with pytest.raises(FlowRejected):
        flows.apply_deal(deal)


@pytest.mark.parametrize("payload", [{}, {"deal": None}, {"deal": []}, {"deal": {}}, {"deal": {"stage": 3}}])
def test_apply_deal__without_a_stage_is_rejected(payload):
    with pytest.raises(FlowRejected):
        flows.apply_deal(context(payload))


def test_apply_deal__fails_as_many_attempts_as_the_deal_asks():
    payload = {"deal": {"id": 1, "stage": "won", "fail_first": 2}}
    for attempt in (1, 2):
        with pytest.raises(flows.TemporaryTrouble):
            flows.apply_deal(context(payload, attempt))
    flows.apply_deal(context(payload, 3))


def test_apply_deal__of_a_test_is_skipped():
    with pytest.raises(FlowSkip):
        flows.apply_deal(context({"deal": {"is_test": True, "stage": "won"}}))


def prospect(**over: Any) -> dict[str, Any]:
    data = {"type": "prospect", "id": 7, "attributes": {"updatedAt": "2026-01-01T00:00:00+00:00"}, **over}
    return {"data": data, "meta": {"eventName": "prospect.updated", "deliveredAt": "2026-01-01T00:00:00+00:00"}}


@pytest.mark.parametrize("over", [{}, {"id": "7"}, {"attributes": {}}])
def test_apply_prospect__accepts_the_published_shape(over):
    flows.apply_prospect(context(prospect(**over)))


def test_apply_prospect__accepts_a_destroyed_one_without_attributes():
    payload = {"data": {"type": "prospect", "id": 7}, "meta": {"eventName": "prospect.destroyed"}}
    flows.apply_prospect(context(payload))


@pytest.mark.parametrize("over", [{"type": "account"}, {"id": None}, {"id": True}, {"id": ""}, {"attributes": 1}])
def test_apply_prospect__rejects_another_shape(over):
    with pytest.raises(FlowRejected):
        flows.apply_prospect(context(prospect(**over)))


@pytest.mark.parametrize("stage", ["", "Legal", "a b", "a" * 60, "../x"])
def test_change_stages__refuses_what_is_no_stage(stage, tmp_path):
    with pytest.raises(InvalidInput):
        stages.change_stages(allow=frozenset({stage}))
    assert list(tmp_path.iterdir()) == []


def test_change_stages__leaves_no_draft_behind(tmp_path):
    stages.change_stages(allow=frozenset({"legal_review"}))
    assert [path.name for path in tmp_path.iterdir()] == [stages.FILE_NAME]


@pytest.mark.parametrize(
    ("contact", "accepted"),
    [
        ({"id": 7, "email": "elm@example.test", "city": "Celle"}, True),
        ({"id": 7, "city": "Celle"}, True),
        ({"id": 7, "email": None}, True),
        ({"id": 7, "email": "Elm"}, False),
        ({"id": 7, "email": 7}, False),
        ({"city": "Celle"}, False),
        ("Elm", False),
    ],
)
def test_apply_contact__takes_the_merged_contact(contact: Any, accepted: bool):
    if accepted:
        assert flows.apply_contact(context({"contact": contact})) is None
    else:
        with pytest.raises(FlowRejected):
            flows.apply_contact(context({"contact": contact}))
