"""The pages of live and ended work."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from integration.audit import service as audit
from integration.audit.policy import AuditFact, AuditOutcome
from integration.values import Actor
from integration.work import figures
from tests.support.projections import Source
from tests.support.rows import Installation
from tests.support.work import Pack, change, query


def _ids(text: str) -> list[str]:
    return re.findall(r'data-row href="/work/([0-9a-f-]{36})/', text)


@pytest.mark.parametrize("state", ["", "dead", "pending"])
def test_work__pages_meet_every_row_once_there_and_back(state: str, viewer: Client, installation: Installation) -> None:
    made = {installation.work(state or "dead", ended_ago=timedelta(minutes=n % 7)) for n in range(120)}
    path, met, addresses = f"/work/?state={state}", [], []
    while path:
        addresses.append(path)
        text = viewer.get(path).content.decode()
        met += _ids(text)
        older = re.search(r'href="([^"]+)" data-older', text)
        path = older.group(1).replace("&amp;", "&") if older else ""
    assert (120, made) == (len(met), set(met))
    newer = re.search(r'href="([^"]+)" data-newer', text)
    assert newer is not None
    back = _ids(viewer.get(newer.group(1).replace("&amp;", "&")).content.decode())
    assert met[50:100] == back


def test_work__an_unknown_state_is_a_400(viewer: Client) -> None:
    assert 400 == viewer.get("/work/?state=undead").status_code


def test_work_item__shows_its_attempts_and_its_place_in_the_lineage(viewer: Client, installation: Installation) -> None:
    original = installation.work(ReplayedAt=installation.now)
    child = installation.work("succeeded", Attempt=1, ReplayOfWorkId=original)
    text = viewer.get(f"/work/{original}/").content.decode()
    assert f"/work/{child}/" in text
    assert 5 == text.count('<td class="num tight">')
    assert f"/dlq/{original}/" in viewer.get(f"/work/{child}/").content.decode()


def test_overview__counts_and_tells_when_nobody_works(viewer: Client, installation: Installation) -> None:
    installation.work()
    installation.work("pending")
    installation.fence()
    text = viewer.get("/").content.decode()
    assert "No worker is alive" in text
    assert "prospect.deleted" in text
    installation.worker()
    assert "No worker is alive" not in viewer.get("/").content.decode()


def test_overview__the_chart_has_a_table_with_the_same_figures(viewer: Client, installation: Installation) -> None:
    for _ in range(3):
        installation.work(ended_ago=timedelta(hours=2))
    text = viewer.get("/").content.decode()
    assert 12 == text.count('class="in"')
    assert '<td class="num">3</td>' in text


def test_receipts__show_why_one_is_quarantined_and_never_its_body(viewer: Client, installation: Installation) -> None:
    receipt = installation.quarantined("route_not_found")
    listed = viewer.get("/receipts/").content.decode()
    assert receipt in listed
    assert "route_not_found" in listed
    shown = viewer.get(f"/receipts/{receipt}/").content.decode()
    assert "Its body is sealed and shown nowhere" in shown
    assert "canary" not in listed + shown


@pytest.mark.parametrize("path", ["/receipts/", "/receipts/?state=quarantined"])
def test_receipts__pages_meet_every_row_once(path: str, viewer: Client, installation: Installation) -> None:
    made = {installation.quarantined() for _ in range(120)}
    met = []
    first = viewer.get(path).content.decode()
    assert ("First page" in first, ">Older</a>" in first) == (False, True)
    while path:
        text = viewer.get(path).content.decode()
        met += re.findall(r'data-row href="/receipts/([0-9a-f-]{36})/', text)
        older = re.search(r'href="([^"]+)" data-older', text)
        path = older.group(1).replace("&amp;", "&") if older else ""
    assert (120, made) == (len(met), set(met))


def test_receipts__show_all_newest_first_and_the_quarantined_by_a_tab(
    viewer: Client, installation: Installation
) -> None:
    admitted = installation.work()
    older, newer = installation.quarantined(), installation.quarantined()
    text = viewer.get("/receipts/").content.decode()
    assert 0 < text.index(f'href="/receipts/{newer}/"') < text.index(f'href="/receipts/{older}/"')
    assert "materialized</span>" in text
    narrowed = viewer.get("/receipts/", {"state": "quarantined"}).content.decode()
    assert {older, newer} == set(re.findall(r'data-row href="/receipts/([0-9a-f-]{36})/', narrowed))
    assert "materialized</span>" not in narrowed
    assert admitted not in narrowed
    beyond = viewer.get("/receipts/", {"cursor": f"2026-01-01T00:00:00+00:00~{older}~x"}).content.decode()
    assert ("First page" in beyond, newer in beyond) == (True, False)


def test_overview__says_what_its_figures_count(viewer: Client, installation: Installation) -> None:
    installation.work()
    installation.quarantined()
    text = viewer.get("/").content.decode()
    assert "1 dead in all, replayed ones included" in text
    assert 'href="/receipts/?state=quarantined"' in text
    assert "will be tried again" not in text
    installation.work("retry", Attempt=1)
    assert "will be tried again" in viewer.get("/").content.decode()


def test_work_item__that_is_a_replay_names_who_made_it_and_why(viewer: Client, installation: Installation) -> None:
    original = installation.work(ReplayedAt=installation.now)
    child = installation.work("succeeded", Attempt=1, ReplayOfWorkId=original)
    audit.record_alone(
        AuditFact(
            action="work_item.replayed",
            outcome=AuditOutcome.DONE,
            actor=Actor(user_id=1, name="ana", via="console"),
            ref_kind="work_item",
            ref_id=original,
            reason="Stage names were fixed",
            facts={},
        )
    )
    text = viewer.get(f"/work/{child}/").content.decode()
    assert "by ana, because: Stage names were fixed" in text


def test_work_item__and_its_receipt_lead_to_each_other(viewer: Client, installation: Installation) -> None:
    work_id = installation.work()
    receipt = re.search(r'href="/receipts/([0-9a-f-]{36})/"', viewer.get(f"/work/{work_id}/").content.decode())
    assert receipt is not None
    text = viewer.get(f"/receipts/{receipt.group(1)}/").content.decode()
    assert f'href="/work/{work_id}/"' in text
    assert "no work item names it" in viewer.get(f"/receipts/{_eventful(installation)}/").content.decode()


def _eventful(installation: Installation) -> str:
    """Return a receipt whose Event no WorkItem names any more, as one that a later input took the place of."""
    (item,) = query("SELECT WorkId, EventId FROM _System_ConnectorWorkItem WHERE WorkId = %s", installation.work())
    change("DELETE FROM _System_ConnectorWorkItem WHERE WorkId = %s", item["WorkId"])
    (event,) = query("SELECT ReceiptId FROM _System_ConnectorEvent WHERE EventId = %s", item["EventId"])
    return str(event["ReceiptId"])


def test_rail__counts_the_dead_that_still_need_somebody(
    viewer: Client, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> str:
        found = re.search(r'title="dead and not replayed">([^<]+)<', viewer.get("/work/").content.decode())
        return found.group(1) if found else ""

    installation.work(ReplayedAt=installation.now)
    assert shown() == ""
    for _ in range(3):
        installation.work()
    assert shown() == "3"
    monkeypatch.setattr(figures, "DEAD_WINDOW", 4)
    assert shown() == "3+"


def test_work_item__that_is_blocked_says_for_what_and_since_when(viewer: Client, installation: Installation) -> None:
    blocked = {"BlockedOn": "account.created", "BlockedSince": installation.now, "TargetLane": "account:7"}
    work_id = installation.work("blocked", Attempt=0, **blocked)
    text = viewer.get(f"/work/{work_id}/").content.decode()
    assert "Waits for</dt><dd>account.created in lane account:7, since" in text
    assert work_id in viewer.get("/work/", {"state": "blocked"}).content.decode()
    assert "Waits for" not in viewer.get(f"/work/{installation.work('pending')}/").content.decode()


def test_work_item__that_is_to_be_cancelled_says_so(viewer: Client, installation: Installation) -> None:
    work_id = installation.work("processing", CancelRequestedAt=installation.now, CancelRequestedBy="ana")
    assert "its worker has yet to answer" in viewer.get(f"/work/{work_id}/").content.decode()


def test_work_item__of_a_projection_shows_its_range_and_nothing_of_its_inputs(viewer: Client) -> None:
    pack = Pack(namespace="acme-sales", name="contacts")
    source = Source(pack=pack)
    source.generation([source.event({"n": 1, "name": "canary-of-an-input"})], active=False, State="succeeded")
    rows = [source.event({"n": number, "name": "canary-of-an-input"}) for number in range(3)]
    Source(pack=pack, lane="contact:8").event()
    rows.append(source.event({"name": "canary-of-an-input"}))
    text = viewer.get(f"/work/{source.generation(rows)}/").content.decode()
    assert "<dt>Inputs</dt><dd>4, ordinals 2 to 6</dd>" in text
    assert "canary-of-an-input" not in text

    queued = source.generation(count=1, active=False)
    assert "waits for the generation before it" in viewer.get(f"/work/{queued}/").content.decode()


def test_work_item__of_per_event_work_has_no_range(viewer: Client, installation: Installation) -> None:
    assert "<dt>Inputs</dt>" not in viewer.get(f"/work/{installation.work()}/").content.decode()


def test_work_item__of_a_projection_without_a_range_is_shown_without_one(viewer: Client) -> None:
    work_id = Source(pack=Pack(namespace="acme-sales", name="contacts")).generation(InputStartOrdinal=None)
    answer = viewer.get(f"/work/{work_id}/")
    assert answer.status_code == 200
    assert "<dt>Inputs</dt>" not in answer.content.decode()
