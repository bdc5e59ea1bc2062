"""Downloads of the dead letters and of the trail: what is in them, who may, and what tells of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEntry
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)


def export(client: Client, page: str, form: str) -> Any:
    """Press a page's button."""
    text = client.get(page).content.decode()
    action = re.search(r'class="export" method="post" action="([^"]+)"', text)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text)
    assert action is not None
    assert token is not None
    sent = {"format": form, "csrfmiddlewaretoken": token.group(1)}
    return client.post(action.group(1).replace("&amp;", "&"), sent)


def test_dead__what_the_filter_matches_is_downloaded_as_csv(viewer: Client, installation: Installation) -> None:
    ref = installation.work(SourceLane="=1+1")
    installation.work(ReplayedAt=installation.now)
    response = export(viewer, "/dlq/?replayed=no&attempts=1", "csv")
    assert (200, "text/csv; charset=utf-8") == (response.status_code, response["Content-Type"])
    assert re.fullmatch(r'attachment; filename="dead-letters-\d{8}T\d{6}Z\.csv"', response["Content-Disposition"])
    assert response.streaming
    head, row, tail = list(csv.reader(io.StringIO(response.getvalue().decode(), newline="")))
    cells = dict(zip(head, row, strict=True))
    assert (f"work_item:{ref}", "'=1+1", installation.kind) == (cells["ref"], cells["source_lane"], cells["event_kind"])
    assert ["# 1 rows, all that matched"] == tail


def test_dead__json_is_the_same_rows(viewer: Client, installation: Installation) -> None:
    ref = installation.work()
    document = json.loads(export(viewer, "/dlq/?sort=oldest", "json").getvalue())
    assert [f"work_item:{ref}"] == [row["ref"] for row in document["rows"]]
    assert ("oldest", "vera") == (document["filter"]["sort"], document["by"])


def test_page__says_how_much_a_file_may_have(viewer: Client, installation: Installation, settings: Any) -> None:
    settings.LOCKHOUSE_EXPORT_ROWS = 1234
    assert "up to 1,234 rows" in viewer.get("/dlq/").content.decode()


def test_export__is_in_the_trail_with_its_filter_and_its_count(auditor: Client, viewer: Client) -> None:
    export(viewer, "/dlq/?namespace=acme-sales", "csv").getvalue()
    export(auditor, "/audit/?actor=vera&action=dead_letter.exported", "json").getvalue()
    told = {entry.action: (entry.actor_name, json.loads(entry.facts)) for entry in AuditEntry.objects.all()}
    name, facts = told["dead_letter.exported"]
    assert ("vera", {"namespace": "acme-sales", "sort": "newest"}, 0) == (name, facts["filter"], facts["rows"])
    name, facts = told["audit.exported"]
    assert ("ida", {"actor": "vera", "action": "dead_letter.exported", "sort": "newest"}, 1) == (
        name,
        facts["filter"],
        facts["rows"],
    )


@pytest.mark.evidence("A-32")
def test_export__needs_the_right_of_its_page_a_token_and_a_press(
    viewer: Client, auditor: Client, signed_in: Callable[..., Client]
) -> None:
    assert 405 == viewer.get("/dlq/export").status_code
    assert 403 == viewer.post("/dlq/export", {"format": "csv"}).status_code
    for client in (viewer, auditor):
        client.handler.enforce_csrf_checks = False
    assert 403 == viewer.post("/audit/export", {"format": "csv"}).status_code
    assert 403 == auditor.post("/dlq/export", {"format": "csv"}).status_code
    assert 0 == AuditEntry.objects.filter(action__contains="export").count()


@pytest.mark.parametrize(("query", "form"), [("", "xlsx"), ("", ""), ("?died_after=x", "csv"), ("?sort=up", "csv")])
def test_export__of_what_there_is_not_is_refused(viewer: Client, query: str, form: str) -> None:
    viewer.handler.enforce_csrf_checks = False
    assert 400 == viewer.post(f"/dlq/export{query}", {"format": form}).status_code
    assert 0 == AuditEntry.objects.filter(action__contains="export").count()
