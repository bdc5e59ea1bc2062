from __future__ import annotations

from datetime import UTC, datetime

import pytest

from integration.errors import InvariantBroken
from integration.work import flows
from integration.work.flows import FlowContext, FlowUnknown, flow, get_flow


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(flows, "_registry", {})


def test_flow__is_found_by_name_and_version_however_the_version_is_written():
    @flow("tests.sync", 3)
    def sync(context: FlowContext) -> None:
        """Do nothing."""

    assert get_flow("tests.sync", "3") is sync
    assert get_flow("tests.sync", 3) is sync


@pytest.mark.parametrize(("name", "version"), [("tests.sync", 4), ("tests.other", 3)])
def test_get_flow__of_another_name_or_version_is_unknown(name, version):
    flow("tests.sync", 3)(print)
    with pytest.raises(FlowUnknown) as raised:
        get_flow(name, version)
    assert raised.value.data_fields == {"flow": name, "version": str(version)}


def test_flow__refuses_two_functions_of_one_name():
    def one(context: FlowContext) -> None:
        """Do one thing."""

    def two(context: FlowContext) -> None:
        """Do another."""

    flow("tests.sync", 1)(one)
    flow("tests.sync", 1)(one)
    with pytest.raises(InvariantBroken):
        flow("tests.sync", 1)(two)


@pytest.mark.evidence("K-11")
def test_flow_context__shows_no_payload():
    context = FlowContext(
        work_id="w",
        event_id="e",
        org_id="o",
        namespace="acme",
        event_kind="deal.changed",
        payload={"secret": "canary"},
        attempt=1,
        max_attempts=3,
        occurred_at=None,
        received_at=datetime.now(UTC),
    )
    assert "canary" not in repr(context)
