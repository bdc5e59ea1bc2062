"""Cancelling one work item from its page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from console.models import AuditEntry
from tests.support.rows import Installation
from tests.support.work import Pack, item_row

# Committed, as in service: the service opens transactions of its own.
pytestmark = pytest.mark.django_db(transaction=True)


def _send(client: Client, work_id: str, reason: str = "The account was closed") -> object:
    client.handler.enforce_csrf_checks = False
    return client.post(f"/work/{work_id}/cancel", {"reason": reason})


@pytest.mark.parametrize(
    ("state", "ends"), [("pending", True), ("retry", True), ("blocked", True), ("processing", False)]
)
def test_cancel__ends_what_waits_and_asks_what_runs(state: str, ends: bool, replayer: Client) -> None:
    (work_id,) = Pack().admit(State=state, Attempt=1 if state in {"retry", "processing"} else 0)
    assert f'href="/work/{work_id}/cancel"' in replayer.get(f"/work/{work_id}/").content.decode()
    asked = replayer.get(f"/work/{work_id}/cancel").content.decode()
    assert ("it ends at once" in asked, "is asked to stop" in asked) == (ends, not ends)
    answer = _send(replayer, work_id)
    assert (302, f"/work/{work_id}/") == (answer.status_code, answer["Location"])
    row = item_row(work_id)
    assert row["State"] == ("cancelled" if ends else "processing")
    assert row["CancelRequestedBy"] == "rolf"
    entry = AuditEntry.objects.get(action="work_item.cancelled")
    assert ("done", "rolf", "The account was closed", work_id) == (
        entry.outcome,
        entry.actor_name,
        entry.reason,
        entry.ref_id,
    )


def test_cancel__of_what_ended_meanwhile_is_a_conflict_that_changes_nothing(
    replayer: Client, installation: Installation
) -> None:
    work_id = installation.work("succeeded", Attempt=1)
    assert "/cancel" not in replayer.get(f"/work/{work_id}/").content.decode()
    before = item_row(work_id)
    answer = _send(replayer, work_id)
    text = answer.content.decode()
    assert (409, "already_ended" in text, "Nothing was changed" in text) == (answer.status_code, True, True)
    assert re.search(r"<button[^>]+disabled>Cancel it", text)
    assert before == item_row(work_id)
    assert "refused" == AuditEntry.objects.get(action="work_item.cancelled").outcome


def test_cancel__needs_a_reason_and_keeps_what_was_typed(replayer: Client, installation: Installation) -> None:
    work_id = installation.work("pending")
    for reason in ("", "   ", "x" * 501):
        answer = _send(replayer, work_id, reason)
        assert 422 == answer.status_code
        assert 'aria-invalid="true"' in answer.content.decode()
    assert reason in answer.content.decode()
    assert "pending" == item_row(work_id)["State"]


def test_cancel__is_shown_and_refused_to_those_who_may_only_view(viewer: Client, installation: Installation) -> None:
    work_id = installation.work("pending")
    text = viewer.get(f"/work/{work_id}/").content.decode()
    assert 'disabled aria-describedby="no-cancel"' in text
    assert "You may view, not cancel" in text
    assert 403 == _send(viewer, work_id).status_code
    assert "pending" == item_row(work_id)["State"]


def test_cancel__of_nothing_is_a_404(replayer: Client) -> None:
    assert 404 == _send(replayer, "00000000-0000-7000-8000-000000000000").status_code
    assert 404 == replayer.get("/work/00000000-0000-7000-8000-000000000000/cancel").status_code
    assert 400 == replayer.get("/work/é/cancel").status_code
