"""The audit page: filters, pages, and nobody without the right."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.values import Actor
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)


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
