"""The audit page: filters, pages, and nobody without the right."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.models import AuditEntry, User
from console.people import account_fact
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.authority.values import VIEW_PERMISSION
from integration.callers.tokens import issue
from integration.errors import Busy
from integration.values import Actor
from tests.support.authority import change
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)
VIEWED = AuditEntry.objects.filter(action__endswith=".viewed")


def _tell(
    name: str = "ana", action: str = "work_item.replayed", outcome: str = "done", ref: str = "r-1", **facts: Any
) -> None:
    actor = Actor(user_id=1, name=name, remote_addr="192.0.2.1", via="console")
    fact = AuditFact(
        action=action,
        outcome=AuditOutcome(outcome),
        actor=actor,
        ref_kind="work_item",
        ref_id=ref,
        reason="<b>because</b>",
        facts={"route_version": 12, **facts},
    )
    record_alone(fact)


def _rows(text: str) -> int:
    return text.count('class="state ') if "<tbody>" in text else 0


def test_audit__lists_what_was_done_and_why(auditor: Client) -> None:
    _tell()
    text = auditor.get("/audit/").content.decode()
    assert "&lt;b&gt;because&lt;/b&gt;" in text
    assert "route version" in text
    assert "192.0.2.1" in text


def test_audit__a_fact_that_is_missing_reads_as_none(auditor: Client) -> None:
    _tell(winner=None, changed={"is_staff": {"before": None, "after": True}})
    text = auditor.get("/audit/").content.decode()
    assert '<dt>winner</dt><dd class="id">none</dd>' in text
    assert "is staff (after yes, before none)" in text
    assert "None" not in text


def test_audit__names_the_accounts_and_tokens_that_entries_are_about(auditor: Client) -> None:
    user = User.objects.create(username="clara")
    actor = Actor(user_id=user.pk, name="clara", via="console", permissions=frozenset({VIEW_PERMISSION}))
    token = issue(actor=actor, name="nightly job", scopes=[VIEW_PERMISSION], days=1).token
    for user_id in (user.pk, 999_999):
        record_alone(account_fact("signed_in", user_id, actor))
    with CaptureQueriesContext(connection) as asked:
        text = auditor.get("/audit/").content.decode()
    assert text.count(f'user clara <span class="id">{user.pk}</span>') == 2, "that it was added, and that it signed in"
    assert f'nightly job <span class="id">{token.token_id[:8]}' in text
    assert 'user <span class="id">999999</span>' in text
    assert len([query for query in asked if "username` FROM" in query["sql"] or "name` FROM" in query["sql"]]) == 2


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("actor=ana", 2),
        ("actor=boris", 1),
        ("outcome=refused", 1),
        ("action=dead_letter.seen", 1),
        ("ref=r-9", 1),
        ("actor=ana&outcome=refused", 0),
    ],
)
def test_audit__a_filter_narrows_it(query: str, count: int, auditor: Client) -> None:
    _tell()
    _tell(ref="r-9", action="dead_letter.seen")
    _tell("boris", outcome="refused")
    assert count == _rows(auditor.get(f"/audit/?{query}").content.decode())


def test_audit__pages_meet_every_entry_once_there_and_back(auditor: Client) -> None:
    for number in range(120):
        _tell(ref=f"r-{number}")
    path, met = "/audit/?actor=ana", []
    while path:
        text = auditor.get(path).content.decode()
        met += re.findall(r'href="/dlq/(r-\d+)/"', text)
        older = re.search(r'href="([^"]+)" data-older', text)
        path = older.group(1).replace("&amp;", "&") if older else ""
    assert (120, 120) == (len(met), len(set(met)))
    newer = re.search(r'href="([^"]+)" data-newer', text)
    assert newer is not None
    back = auditor.get(newer.group(1).replace("&amp;", "&")).content.decode()
    assert met[50:100] == re.findall(r'href="/dlq/(r-\d+)/"', back)


def test_audit__a_forged_cursor_is_a_400(auditor: Client) -> None:
    for cursor in ("x", "<nope", ">2026-01-01~x"):
        assert 400 == auditor.get("/audit/", {"cursor": cursor}).status_code


def test_audit__is_closed_to_those_who_only_replay(replayer: Client, installation: Installation) -> None:
    assert 403 == replayer.get("/audit/").status_code
    assert 'data-go="audit"' not in replayer.get("/").content.decode()


def test_audit__of_a_time_and_in_the_other_order(auditor: Client) -> None:
    for number in range(3):
        _tell(ref=f"r-{number}")
    newest = re.findall(r'href="/dlq/(r-\d)/"', auditor.get("/audit/").content.decode())
    text = auditor.get("/audit/?sort=oldest").content.decode()
    assert newest[::-1] == re.findall(r'href="/dlq/(r-\d)/"', text) == ["r-0", "r-1", "r-2"]
    assert 'sort=oldest" aria-current="page"' in text
    assert 0 == _rows(auditor.get("/audit/?until=2020-01-01T00:00").content.decode())
    narrowed = "/audit/?since=2020-01-01T00:00&action=work_item.replayed"
    assert 3 == _rows(auditor.get(narrowed).content.decode())
    assert 400 == auditor.get("/audit/?since=soon").status_code
    assert 400 == auditor.get("/audit/?sort=up").status_code


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/dlq/{work}/", "work_item.viewed"),
        ("/dlq/{work}/json", "work_item.viewed"),
        ("/work/{work}/", "work_item.viewed"),
        ("/receipts/{receipt}/", "receipt.viewed"),
    ],
)
def test_view__of_a_row_is_told_once_an_hour_for_each_account(
    signed_in: Any, installation: Installation, path: str, action: str
) -> None:
    work, other = installation.work(), installation.work()
    receipt = installation.quarantined()
    for name in ("vera", "uma"):
        client = signed_in(name, "Viewer")
        for _ in range(2):
            assert 200 == client.get(path.format(work=work, receipt=receipt)).status_code
    seen = receipt if "receipt" in path else work
    told = [(entry.actor_name, entry.action, entry.ref_id) for entry in VIEWED.order_by("at")]
    assert [("vera", action, seen), ("uma", action, seen)] == told
    if "receipt" not in path:
        client.get(path.format(work=other))
        assert 3 == VIEWED.count()
    change("UPDATE console_auditentry SET at = at - INTERVAL 61 MINUTE")
    client.get(path.format(work=work, receipt=receipt))
    assert 2 == VIEWED.filter(ref_id=seen, actor_name="uma").count()


def test_view__of_what_is_not_there_or_not_allowed_is_no_view(viewer: Client, auditor: Client) -> None:
    assert 404 == viewer.get("/dlq/00000000-0000-7000-8000-000000000000/").status_code
    assert 403 == auditor.get("/dlq/00000000-0000-7000-8000-000000000000/").status_code
    assert 0 == VIEWED.count()


def test_view__that_cannot_be_told_is_shown_all_the_same(
    viewer: Client, installation: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise Busy

    monkeypatch.setattr("console.viewed.record_once", busy)
    assert 200 == viewer.get(f"/dlq/{installation.work()}/").status_code
    assert "audit.view_not_recorded" in caplog.text
